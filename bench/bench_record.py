"""spex record against plain qemu-aarch64: processor time, the least of several runs, interleaved.

Processor time and not wall time: a shared machine leaves the first alone more than the
second. The full model, which has a thread of its own, is also shown by wall time, and runs
once: it is slow. The Python row needs Debian's arm64 python3 (scripts/fetch-debs); it is left
out if that cannot be had.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = os.environ["SPEX_SOURCE"]
BUILD = os.environ["SPEX_BUILD"]
RUNS = int(os.environ.get("BENCH_RUNS", "3"))
SYSROOT = "/usr/aarch64-linux-gnu"
FIBONACCI = ("def f(n): return n if n < 2 else f(n-1) + f(n-2)\n"
             "d = {str(i): i for i in range(30000)}\nprint(f(20), len(d))")
PROGRAMS = ["sort", "mixed", "threads", "python"]
STACK_PROGRAMS = ["sort", "mixed", "python", "fib"]
VARIANTS = [("sampled detail, period 4096", ["-c", "4096"]),
            ("sampled detail, period 16384", ["-c", "16384"]),
            ("no model, period 16384", ["-c", "16384", "--model", "none"])]
FULL = [("full model, period 16384", ["-c", "16384", "--model", "full"]),
        ("full model, truth, period 16384", ["-c", "16384", "--model", "full", "--truth"])]
# For what each part costs: the longest period, some fifty samples.
SPLIT = [("sampled detail, no samples", ["-c", "16776960"]),
         ("no model, no samples", ["-c", "16776960", "--model", "none"])]
SPLIT_PROGRAMS = ["sort", "mixed"]
# Where the time of a model goes, by functions of the plugin; the first that matches. What is
# in none is the sample's: the unit, its records, latencies.
FAR_PARTS = [("block entry", r"on_(block|early|handler)_sampled|push_|timing_far_lines"
              r"|timing_fetch"),
             ("directions and targets", r"timing_predict|direction|indirect|learn|timing_btb"),
             ("accesses to level 1", r"on_(load|store)_sampled"),
             ("other accesses", r"spex_timing_far|far_|timing_|uarch_|own|tlb_|touch|find|place"
              r"|put|l[12]_|llc_|beyond|from_|serve|make_newest|unlink_age|upgrade|stride|spatial"
              r"|ahead")]
FULL_PARTS = [("callbacks", r"on_(block|access|atomic|early|handler)_full|flow_turn"),
              ("scoreboard, what is remembered", r"spex_timing_(run|follow|clock)|timing_memo_|"
               r"held|run_(all|each|first|other|known)|pass|make_step|state_of|fill_steps"),
              ("rings", r"account_|run_block|quick_blocks|pump|flow_|find_end|step|wait_for"),
              ("directions and targets", r"timing_predict|direction|indirect|learn"),
              ("prefetchers", r"timing_(prefetch|memory_prefetch)|stride|follow|spatial|ahead"),
              ("instruction side", r"timing_(fetch|btb)|itlb|line$"),
              ("loads and stores", r"special|do_(load|store)|load|own|drain|forward|stored_|"
               r"timing_memory|uarch_translate"
               r"|tlb_|touch|find|place|put|l[12]_|llc_|beyond|from_|serve|timing_serve|"
               r"make_newest|unlink_age|upgrade")]
PROFILES = [("sampled detail", ["-c", "16384"], FAR_PARTS),
            ("full model", ["-c", "16384", "--model", "full"], FULL_PARTS)]


def seconds(command):
    """Processor and wall time."""
    start = time.monotonic()
    pid = os.posix_spawnp(command[0], command, dict(os.environ, PYTHONHASHSEED="0"), file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: status {status}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - start


def command_of(name, work):
    if name == "python":
        arm64 = os.path.join(BUILD, "arm64")
        if subprocess.run(["sh", os.path.join(SOURCE, "scripts/fetch-debs"), arm64, "busybox",
                           "bzip2", "sqlite3", "python3"], stderr=subprocess.DEVNULL).returncode:
            return None, None
        root = os.path.join(arm64, "root")
        return root, [os.path.join(root, "usr/bin/python3"), "-S", "-c", FIBONACCI]
    program = os.path.join(work, name)
    subprocess.run(["aarch64-linux-gnu-gcc", "-O2", "-o", program,
                    os.path.join(SOURCE, "bench/guest", name + ".c"), "-pthread"], check=True)
    return SYSROOT, [program]


def profile(command, work, of):
    """Seconds by part, from a thousand samples a second of perf's software
    clock; None without perf."""
    data = os.path.join(work, "profile")
    if not shutil.which("perf") or subprocess.run(
        ["perf", "record", "-q", "-e", "cpu-clock", "-c", "1000000", "-o", data, "--"] + command,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        return None
    text = subprocess.run(["perf", "report", "-i", data, "--stdio", "-q", "--sort", "dso,symbol",
                           "-F", "sample,dso,symbol", "-t", "\t"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    parts = dict.fromkeys(["translated code, QEMU, kernel"] + [name for name, _ in of] +
                          ["samples"], 0)
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) < 3 or not fields[0].isdigit():
            continue
        symbol = re.sub(r"^\[.\] ", "", fields[2])
        part = "translated code, QEMU, kernel"
        if fields[1].startswith(("libspex", "spex")):
            part = next((name for name, pattern in of if re.match(pattern, symbol)), "samples")
        parts[part] += int(fields[0]) / 1000
    return parts


def stacks(work):
    """What --stacks costs on top of sampled detail: processor time, runs in turn."""
    for name in STACK_PROGRAMS:
        sysroot, program = command_of(name, work)
        if not program:
            continue
        record = [os.path.join(BUILD, "spex"), "record", "-o", os.path.join(work, "out"), "-L",
                  sysroot, "-c", "16384"]
        times = [[seconds(record + options + ["--"] + program)[0] for options in ([], ["-g"])]
                 for _ in range(RUNS)]
        without, with_stacks = (min(column) for column in zip(*times))
        print(f"record {name}, call stacks, period "
              f"16384\t{with_stacks:.2f}\ts\t{with_stacks / without:.2f}"
              f"\tthe same without, {without:.2f} s", flush=True)


def engines(work):
    """The same on the newer QEMU, if there is one (make check-engines, spex record --setup-qemu),
    against itself without spex."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    qemu = next((q for q in (os.path.join(BUILD, "qemu/qemu-aarch64"),
                             os.path.join(data, "spex/qemu/qemu-aarch64"))
                 if os.access(q, os.X_OK)), None)
    for name in SPLIT_PROGRAMS if qemu else []:
        sysroot, program = command_of(name, work)
        commands = [[qemu, "-cpu", "neoverse-n1", "-L", sysroot] + program]
        commands += [[os.path.join(BUILD, "spex"), "record", "--qemu", qemu, "-o",
                      os.path.join(work, "out"), "-L", sysroot] + options + ["--"] + program
                     for _, options in VARIANTS]
        times = [[seconds(c)[0] for c in commands] for _ in range(RUNS)]
        version = subprocess.run([qemu, "--version"], capture_output=True,
                                 text=True).stdout.split()[2]
        least = [min(column) for column in zip(*times)]
        for i, (variant, _) in enumerate(VARIANTS):
            print(f"record {name}, QEMU {version}, "
                  f"{variant}\t{least[i + 1]:.2f}\ts\t{least[i + 1] / least[0]:.2f}"
                  f"\tplain QEMU {version}, {least[0]:.2f} s", flush=True)


def main():
    if not shutil.which("qemu-aarch64") or not shutil.which("aarch64-linux-gnu-gcc"):
        return
    with tempfile.TemporaryDirectory(prefix="spex-bench-") as work:
        for name in PROGRAMS:
            sysroot, program = command_of(name, work)
            if not program:
                continue
            split = name in SPLIT_PROGRAMS
            variants = VARIANTS + SPLIT if split else VARIANTS
            plain = ["qemu-aarch64", "-cpu", "neoverse-n1", "-L", sysroot] + program

            def command(options):
                return [os.path.join(BUILD, "spex"), "record", "-o", os.path.join(work, "out"),
                        "-L", sysroot] + options + ["--"] + program
            times = [[seconds(c) for c in [plain] + [command(o) for _, o in variants]]
                     for _ in range(RUNS)]
            least = [min(column) for column in zip(*times)]
            against = f"\tplain QEMU, {least[0][0]:.2f} s"
            for i, (variant, _) in enumerate(variants):
                spent = least[i + 1][0]
                print(f"record {name}, {variant}\t{spent:.2f}\ts\t"
                      f"{spent / least[0][0]:.2f}{against}", flush=True)
            wall = min(row[0][1] for row in times)
            for variant, options in FULL:
                cpu, elapsed = seconds(command(options))
                print(f"record {name}, {variant}\t{cpu:.2f}\ts\t{cpu / least[0][0]:.2f}{against}",
                      flush=True)
                print(f"record {name}, {variant}, wall time\t{elapsed:.2f}\ts\t{elapsed / wall:.2f}"
                      f"\tplain QEMU, {wall:.2f} s", flush=True)
            for which, options, of in PROFILES if split else []:
                for part, spent in (profile(command(options), work, of) or {}).items():
                    print(f"record {name}, {which}, of it "
                          f"{part}\t{spent:.2f}\ts\t{spent / least[0][0]:.2f}{against}",
                          flush=True)
        stacks(work)
        engines(work)


main()
