"""Text into a pipe: dump and script against cat moving the same text to the same reader.

100 MiB of 64-byte records as a Neoverse N1 writes them; the text lies in memory for cat. Wall time,
best of some runs, ours and cat's in turn. bench_analysis.py has what goes to /dev/null.
"""
import os
import subprocess
import tempfile
import time

SOURCE = os.environ.get("SPEX_SOURCE",
                        os.path.realpath(os.path.join(os.path.dirname(__file__), "..")))
BUILD = os.environ.get("SPEX_BUILD", os.path.join(SOURCE, "build"))
SPEX = os.path.join(BUILD, "spex")
MAKE = os.path.join(BUILD, "tests/analysis/make_profile")
PROG = os.path.join(BUILD, "tests/analysis/prog")
RECORDS, RUNS = 1638400, 5
FORMS = ["dump --style perf", "dump --style perf-7", "dump --style spex", "dump --format json",
         "script --itrace=i1i", "script", "script --format json", "script --format csv"]


def seconds(command):
    start = time.monotonic()
    subprocess.run(command, shell=True, check=True, stdin=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return time.monotonic() - start


def main():
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="spex-bench-", dir=memory) as d:
        file, text = f"{d}/f.data", f"{d}/text"
        subprocess.run([MAKE, "mixed-n1-near", file, PROG, str(RECORDS)], check=True)
        os.makedirs(f"{d}/root/usr/bin")
        os.symlink(PROG, f"{d}/root/usr/bin/prog")
        for form in FORMS:
            command = f"{SPEX} {form} -i {file}" + (f" --symfs {d}/root" if "script" in form
                                                    else "")
            seconds(f"{command} >{text}")
            size = os.path.getsize(text)
            times = [(seconds(f"{command} | cat >/dev/null"),
                      seconds(f"cat {text} | cat >/dev/null")) for _ in range(RUNS)]
            ours, cat = (min(column) for column in zip(*times))
            print(f"{form}, into a "
                  f"pipe\t{size / ours / 1e9:.2f}\tGB/s\t{cat / ours:.2f}\tcat of the same text, "
                  f"{size / cat / 1e9:.2f} GB/s", flush=True)


main()
