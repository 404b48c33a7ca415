"""spex record against plain qemu-aarch64: processor time, the least of several runs, interleaved.

Processor time and not wall time: the plugin runs on the guest's own threads, and a shared machine
leaves the first alone more than the second. The Python row needs Debian's arm64 python3
(scripts/fetch-debs); it is left out if that cannot be had.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.environ["SPEX_SOURCE"]
BUILD = os.environ["SPEX_BUILD"]
RUNS = int(os.environ.get("BENCH_RUNS", "3"))
SYSROOT = "/usr/aarch64-linux-gnu"
FIBONACCI = "def f(n): return n if n < 2 else f(n-1) + f(n-2)\nd = {str(i): i for i in range(30000)}\nprint(f(20), len(d))"
PROGRAMS = ["sort", "mixed", "threads", "python"]
VARIANTS = [("full model, period 16384", ["-c", "16384"]),
            ("full model, period 4096", ["-c", "4096"]),
            ("full model, period 1024", ["-c", "1024"]),
            ("no model, period 16384", ["-c", "16384", "--model", "none"]),
            ("truth, period 16384", ["-c", "16384", "--truth"])]
# For what each part costs: the longest period, some fifty samples.
SPLIT = [("full model, no samples", ["-c", "16776960"]),
         ("no model, no samples", ["-c", "16776960", "--model", "none"])]
SPLIT_PROGRAMS = ["sort", "mixed"]
SPLIT_PERIODS = ["16384", "1024"]
# Where the time of a full model goes, by functions of the plugin; the first that matches. What is
# in none is the sample's: the unit, its records, latencies.
PARTS = [("block entry, predictor", r"on_block|block_slow|spex_uarch_block_rest"),
         ("accesses to the most recent line", r"on_(load|store|atomic)_\d"),
         ("data TLB", r"uarch_translate|tlb_touch|make_newest|unlink_age"),
         ("other accesses: caches, directory",
          r"spex_uarch_(load|store|atomic)_slow|access_(slow|line)|l[12]_|llc_|dir_|private_change|miss|own|fetch"
          r"|from_|contended_|changed_hands|uarch_(drain|lock|unlock)|post")]


def seconds(command):
    pid = os.posix_spawnp(command[0], command, dict(os.environ, PYTHONHASHSEED="0"), file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: status {status}")
    return usage.ru_utime + usage.ru_stime


def command_of(name, work):
    if name == "python":
        arm64 = os.path.join(BUILD, "arm64")
        if subprocess.run(["sh", os.path.join(SOURCE, "scripts/fetch-debs"), arm64, "busybox", "bzip2",
                           "sqlite3", "python3"], stderr=subprocess.DEVNULL).returncode:
            return None, None
        root = os.path.join(arm64, "root")
        return root, [os.path.join(root, "usr/bin/python3"), "-S", "-c", FIBONACCI]
    program = os.path.join(work, name)
    subprocess.run(["aarch64-linux-gnu-gcc", "-O2", "-o", program,
                    os.path.join(SOURCE, "bench/guest", name + ".c"), "-pthread"], check=True)
    return SYSROOT, [program]


def profile(command, work):
    """Seconds by part, from a thousand samples a second of perf's software clock; None without perf."""
    data = os.path.join(work, "profile")
    if not shutil.which("perf") or subprocess.run(
            ["perf", "record", "-q", "-e", "cpu-clock", "-c", "1000000", "-o", data, "--"] + command,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        return None
    text = subprocess.run(["perf", "report", "-i", data, "--stdio", "-q", "--sort", "dso,symbol", "-F",
                           "sample,dso,symbol", "-t", "\t"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True).stdout
    parts = dict.fromkeys(["translated code, QEMU, kernel"] + [name for name, _ in PARTS] + ["samples"], 0)
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) < 3 or not fields[0].isdigit():
            continue
        symbol = re.sub(r"^\[.\] ", "", fields[2])
        part = "translated code, QEMU, kernel"
        if fields[1].startswith(("libspex", "spex")):
            part = next((name for name, pattern in PARTS if re.match(pattern, symbol)), "samples")
        parts[part] += int(fields[0]) / 1000
    return parts


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
            commands = [[os.path.join(BUILD, "spex"), "record", "-o", os.path.join(work, "out"), "-L", sysroot]
                        + options + ["--"] + program for _, options in variants]
            times = [[seconds(c) for c in [plain] + commands] for _ in range(RUNS)]
            least = [min(column) for column in zip(*times)]
            for i, (variant, _) in enumerate(variants):
                print(f"record {name}, {variant}\t{least[i + 1]:.2f}\ts\t{least[i + 1] / least[0]:.2f}"
                      f"\tplain QEMU, {least[0]:.2f} s", flush=True)
            for period in SPLIT_PERIODS if split else []:
                command = [os.path.join(BUILD, "spex"), "record", "-o", os.path.join(work, "out"), "-L", sysroot,
                           "-c", period, "--"] + program
                for part, time in (profile(command, work) or {}).items():
                    print(f"record {name}, period {period}, of it {part}\t{time:.2f}\ts\t{time / least[0]:.2f}"
                          f"\tplain QEMU, {least[0]:.2f} s", flush=True)


main()
