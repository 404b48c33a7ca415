"""What a command costs."""
import glob, os, subprocess, sys, time


def cost(command, cwd, runs):
    """(CPU seconds of the best run, resident KB)"""
    best, memory = 1e9, 0
    for _ in range(runs):
        p = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             stdin=subprocess.DEVNULL,
                             env=dict(os.environ, HOME=cwd, PERF_PAGER="cat"))
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = status
        if status:
            print(f"# {' '.join(command)}: exit {status >> 8}", file=sys.stderr)
        best = min(best, usage.ru_utime + usage.ru_stime)
        memory = max(memory, usage.ru_maxrss)
    return best, memory


def longest(command, cwd, runs):
    """CPU seconds of the thread that took longest, in the best run: what it takes by the clock
    where every thread has a CPU."""
    best = 1e9
    for _ in range(runs):
        p = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             stdin=subprocess.DEVNULL, env=dict(os.environ, HOME=cwd))
        times = {}
        while p.poll() is None:
            for task in glob.glob(f"/proc/{p.pid}/task/*/schedstat"):
                try:
                    times[task] = int(open(task).read().split()[0]) / 1e9
                except (OSError, IndexError):
                    pass  # it has just ended
            time.sleep(0.005)
        best = min(best, max(times.values()))
    return best
