"""spex record against plain qemu-aarch64: processor time, the least of several runs, interleaved.

Processor time and not wall time: the plugin runs on the guest's own threads, and a shared machine
leaves the first alone more than the second. The Python row needs Debian's arm64 python3
(scripts/fetch-debs); it is left out if that cannot be had.
"""
import os
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


def main():
    if not shutil.which("qemu-aarch64") or not shutil.which("aarch64-linux-gnu-gcc"):
        return
    with tempfile.TemporaryDirectory(prefix="spex-bench-") as work:
        for name in PROGRAMS:
            sysroot, program = command_of(name, work)
            if not program:
                continue
            plain = ["qemu-aarch64", "-cpu", "neoverse-n1", "-L", sysroot] + program
            commands = [[os.path.join(BUILD, "spex"), "record", "-o", os.path.join(work, "out"), "-L", sysroot]
                        + options + ["--"] + program for _, options in VARIANTS]
            times = [[seconds(c) for c in [plain] + commands] for _ in range(RUNS)]
            least = [min(column) for column in zip(*times)]
            for i, (variant, _) in enumerate(VARIANTS):
                print(f"record {name}, {variant}\t{least[i + 1]:.2f}\ts\t{least[i + 1] / least[0]:.2f}"
                      f"\tplain QEMU, {least[0]:.2f} s", flush=True)


main()
