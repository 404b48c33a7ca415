"""spex dump in every form, to /dev/null and into a pipe.

100 MiB of 64-byte records as a Neoverse N1 writes them. To /dev/null: wall time of the best of five
runs. Into a pipe: against cat moving the same text from memory through a pipe to the same reader.
bench_analysis.py has the comparison with perf report -D.
"""
import os
import subprocess
import tempfile
import time

SOURCE = os.environ.get("SPEX_SOURCE", os.path.realpath(os.path.join(os.path.dirname(__file__), "..")))
BUILD = os.environ.get("SPEX_BUILD", os.path.join(SOURCE, "build"))
SPEX = os.path.join(BUILD, "spex")
MAKE = os.path.join(BUILD, "tests/analysis/make_profile")
PROG = os.path.join(BUILD, "tests/analysis/prog")
RECORDS = 1638400
FORMS = [("dump perf style", "--style perf"), ("dump perf-7 style", "--style perf-7"),
         ("dump own style", "--style spex"), ("dump json", "--format json")]


def best(command, runs=5):
    times = []
    for _ in range(runs):
        start = time.monotonic()
        subprocess.run(command, shell=True, check=True, stdin=subprocess.DEVNULL)
        times.append(time.monotonic() - start)
    return min(times)


def main():
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="spex-bench-", dir=memory) as d:
        file, text = f"{d}/f.data", f"{d}/text"
        subprocess.run([MAKE, "mixed-n1", file, PROG, str(RECORDS)], check=True)
        for name, options in FORMS:
            command = f"{SPEX} dump {options} {file}"
            seconds = best(f"{command} >/dev/null")
            size = int(subprocess.run(f"{command} | wc -c", shell=True, check=True,
                                      stdout=subprocess.PIPE).stdout)
            print(f"{name}\t{RECORDS / seconds / 1e6:.2f}\tM records/s\t\t")
            print(f"{name} text\t{size / seconds / 1e9:.2f}\tGB/s\t\t", flush=True)
        command = f"{SPEX} dump --style perf {file}"
        subprocess.run(f"{command} >{text}", shell=True, check=True)
        size = os.path.getsize(text)
        cat, ours = best(f"cat {text} | cat >/dev/null"), best(f"{command} | cat >/dev/null")
        print(f"dump into a pipe\t{size / ours / 1e9:.2f}\tGB/s\t{cat / ours:.2f}\tcat of the same text, "
              f"{size / cat / 1e9:.2f} GB/s (mark: >= 0.80)")


main()
