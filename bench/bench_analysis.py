"""The reading commands against perf 6.1 on the same files in the same run, text to /dev/null.

Prints name, seconds of CPU time, unit, ratio to perf, what perf ran; and resident memory. The
file has 1,638,400 records of 64 bytes (100 MiB) as a Neoverse N1 writes them, of two CPUs. CPU time (user and system) of the
best of a few runs counts: the machine may be shared, and both sides use one thread.
"""
import os
import subprocess
import sys
import tempfile

SOURCE = os.environ.get("SPEX_SOURCE", os.path.realpath(os.path.join(os.path.dirname(__file__), "..")))
BUILD = os.environ.get("SPEX_BUILD", os.path.join(SOURCE, "build"))
SPEX = os.path.join(BUILD, "spex")
MAKE = os.path.join(BUILD, "tests/analysis/make_profile")
PROG = os.path.join(BUILD, "tests/analysis/prog")
RECORDS = 1638400


def cost(command, cwd, runs):
    """(CPU seconds of the best run, resident KB)"""
    best, memory = 1e9, 0
    for _ in range(runs):
        p = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             stdin=subprocess.DEVNULL, env=dict(os.environ, HOME=cwd, PERF_PAGER="cat"))
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = status
        if status:
            print(f"# {' '.join(command)}: exit {status >> 8}", file=sys.stderr)
        best = min(best, usage.ru_utime + usage.ru_stime)
        memory = max(memory, usage.ru_maxrss)
    return best, memory


def main():
    with tempfile.TemporaryDirectory(prefix="spex-bench-") as d:
        os.makedirs(f"{d}/root/usr/bin")
        os.symlink(PROG, f"{d}/root/usr/bin/prog")
        subprocess.run([MAKE, "mixed-n1", f"{d}/f.data", PROG, str(RECORDS)], check=True)
        sym = ["--symfs", "root"]
        rows = [
            # name, ours, perf's, perf's runs
            ("report", ["report", "-i", "f.data", *sym],
             ["perf", "report", "--itrace=i1i", "--stdio", "-i", "f.data", *sym], 2),
            ("c2c", ["c2c", "-i", "f.data", *sym],
             ["perf", "c2c", "report", "--no-source", "--stdio", "-i", "f.data"], 2),
            ("script, perf's lines", ["script", "--itrace=i1i", "-i", "f.data", *sym],
             ["perf", "script", "--itrace=i1i", "-i", "f.data", *sym], 2),
            ("script, all fields", ["script", "-i", "f.data", *sym],
             ["perf", "script", "--itrace=M", "-F", "comm,tid,cpu,time,ip,sym,symoff,dso,addr,weight,data_src",
              "-i", "f.data", *sym], 2),
            ("dump", ["dump", "--style", "perf", "-i", "f.data"], ["perf", "report", "-D", "-i", "f.data"], 1),
            ("mem", ["mem", "-i", "f.data", *sym],
             ["perf", "mem", "report", "--stdio", "-i", "f.data", *sym], 1),
            ("branch", ["branch", "-i", "f.data", *sym], None, 0),
            ("annotate", ["annotate", "walk", "-i", "f.data", *sym], None, 0),
            ("script --format json", ["script", "--format", "json", "-i", "f.data", *sym], None, 0),
        ]
        for name, ours, theirs, runs in rows:
            seconds, memory = cost([SPEX, *ours], d, 5)
            if theirs:
                perf_seconds, perf_memory = cost(theirs, d, runs)
                ratio, against = f"{perf_seconds / seconds:.1f}", f"perf {theirs[1]} {perf_seconds:.2f} s"
            else:
                ratio, against = "", ""
            print(f"{name}\t{seconds:.3f}\ts\t{ratio}\t{against}")
            print(f"{name} rate\t{RECORDS / seconds / 1e6:.1f}\tM records/s\t\t")
            print(f"{name} memory\t{memory / 1024:.0f}\tMB\t"
                  f"{f'{perf_memory / memory:.1f}' if theirs else ''}\t"
                  f"{f'perf {perf_memory / 1024:.0f} MB' if theirs else ''}", flush=True)
        os.unlink(f"{d}/f.data")
        # memory on a file of 1 GB
        subprocess.run([MAKE, "mixed-n1", f"{d}/g.data", PROG, str(16 * 1000 * 1000)], check=True)
        for name in ("report", "mem", "c2c", "branch"):
            seconds, memory = cost([SPEX, name, "-i", "g.data", *sym], d, 1)
            print(f"{name} memory, 1 GB\t{memory / 1024:.0f}\tMB\t{256 * 1024 / memory:.1f}\tlimit 256 MB", flush=True)


main()
