"""How the commands gain with threads: M records/s by number of threads, best of three, on a profile
of a server with 64 CPUs.

usage: bench_scale.py [RECORDS=8000000] [SCENARIO=mixed-n1-near-cpus64] [THREADS=1,2,4,...]
SPEX_BUILD: the build directory, or a folder with spex, make_profile and prog.
"""
import os
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(os.environ.get("SPEX_BUILD", "build"))
TOOLS = os.path.join(BUILD, "tests/analysis")
TOOLS = TOOLS if os.path.isdir(TOOLS) else BUILD
CPUS = len(os.sched_getaffinity(0))
COMMANDS = {
    "report": ["report", "-i", "f.data"],
    "branch": ["branch", "-i", "f.data"],
    "mem": ["mem", "-i", "f.data"],
    "c2c": ["c2c", "-i", "f.data"],
    "annotate": ["annotate", "-i", "f.data"],
    "diff": ["diff", "f.data", "f.data"],
    "html": ["html", "-i", "f.data", "-o", "f.html"],
    "parquet": ["export", "--to", "parquet", "-o", "f.parquet", "-i", "f.data"],
    "script csv": ["script", "--format", "csv", "-i", "f.data"],
    "dump": ["dump", "--style", "perf", "-i", "f.data"],
}


def seconds(work, words):
    """By the clock, and of CPUs; of the quickest of three runs."""
    best = None
    for _ in range(3):
        before, start = os.times(), time.monotonic()
        subprocess.run([os.path.join(BUILD, "spex"), *words], cwd=work, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env=dict(os.environ, HOME=work))
        took, after = time.monotonic() - start, os.times()
        cpu = sum(after[2:4]) - sum(before[2:4])
        best = min(best or (took, cpu), (took, cpu))
    return best


def main():
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 8000000
    scenario = sys.argv[2] if len(sys.argv) > 2 else "mixed-n1-near-cpus64"
    powers = [1 << n for n in range(7) if 1 << n < CPUS] + [CPUS]
    threads = [int(n) for n in sys.argv[3].split(",")] if len(sys.argv) > 3 else powers
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([os.path.join(TOOLS, "make_profile"), scenario, f"{work}/f.data",
                        os.path.join(TOOLS, "prog"), str(records)], check=True)
        print(f"{CPUS} CPUs, {records} records, {scenario}: M records/s (CPUs used)")
        print("| threads | " + " | ".join(map(str, threads)) + " | gain |")
        print("|---" * (len(threads) + 2) + "|")
        for name, words in COMMANDS.items():
            rows = [seconds(work, [*words, "--threads", str(n)]) for n in threads]
            cells = [f"{records / took / 1e6:.1f} ({cpu / took:.1f})" for took, cpu in rows]
            gain = rows[0][0] / min(took for took, _ in rows)
            print(f"| {name} | " + " | ".join(cells) + f" | {gain:.1f} |", flush=True)


main()
