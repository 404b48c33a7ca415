"""The reading commands against perf on the same file in the same run, text
to /dev/null; then memory.

The file has 1,638,400 records of 64 bytes (100 MiB) as a Neoverse N1 writes them, of two CPUs. In
the first one the data is 2,048 cache lines of a heap and a few variables, so that the rows of
every table fit a second-level cache (2,178 lines, 36 pages, 69 functions, 75 instructions); in
the second, "wide", the heap has a million lines, of which 311,000 are seen. CPU time (user and
system) of the best of a few runs counts: the machine may be shared, and both sides use one
thread. With two threads it is the time by the clock, on four times as many records: that needs a
machine with nothing else to do.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import time

from measure import cost, longest

SOURCE = os.environ.get("SPEX_SOURCE",
                        os.path.realpath(os.path.join(os.path.dirname(__file__), "..")))
BUILD = os.environ.get("SPEX_BUILD", os.path.join(SOURCE, "build"))
SPEX = os.path.join(BUILD, "spex")
MAKE = os.path.join(BUILD, "tests/analysis/make_profile")
PROG = os.path.join(BUILD, "tests/analysis/prog")
RECORDS = 1638400
LARGE = 16 * 1000 * 1000  # 1 GB
SYMBOLS = ["--symfs", "root"]
QUERY = ("SELECT symbol, count(*) AS n, quantile_disc(latency, 0.95) AS p95 FROM samples GROUP BY "
         "symbol ORDER BY n DESC")
DUCKDB = os.environ.get("SPEX_DUCKDB") or next(
    iter(glob.glob(f"{BUILD}/feeds/node_modules/@duckdb/node-bindings-linux-*/libduckdb.so")), None)


TABLES = ("report", "mem", "c2c", "branch", "annotate", "diff")


def spex(words, file, threads=1):
    command, *rest = words.split()
    words = [SPEX, command, *rest, *([] if command in ("dump", "verify") else SYMBOLS)]
    words += ["--threads", str(threads)] if command in TABLES else []
    return words + ([file, file] if command == "diff" else ["-i", file])


def by_the_clock(words, cwd, threads, copies=1):
    best = 1e9
    for _ in range(7):
        start = time.monotonic()
        runs = [subprocess.Popen(spex(words, "f.data", threads), cwd=cwd, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, env=dict(os.environ, HOME=cwd))
                for _ in range(copies)]
        for run in runs:
            run.wait()
        best = min(best, time.monotonic() - start)
    return best


def perf(words, file, symbols=True):
    command, *rest = words.split()
    return ["perf", command, *rest, "-i", file, *(SYMBOLS if symbols else [])]


# row, our command, perf's, how often perf's is run
AGAINST = [
    ("report", "report", perf("report --itrace=i1i --stdio", "f.data"), 2),
    ("mem", "mem", perf("mem report --stdio", "f.data"), 1),
    ("c2c", "c2c", perf("c2c report --no-source --stdio", "f.data", False), 2),
    ("branch", "branch", None, 0),
    ("report --sort symbol,srcline", "report --sort symbol,srcline", None, 0),
    ("report --sort pid,symbol", "report --sort pid,symbol", None, 0),
    ("report --symbol walk", "report --symbol walk", None, 0),
    ("report --event l1d-miss", "report --event l1d-miss", None, 0),
    ("script, perf's lines", "script --itrace=i1i", perf("script --itrace=i1i", "f.data"), 2),
    ("script, memory operations", "script --op load,store,atomic",
     perf("script --itrace=M -F comm,tid,cpu,time,ip,sym,symoff,dso,addr,weight,data_src",
          "f.data"), 2),
    ("script, all records", "script", None, 0),
    ("script --format json", "script --format json", None, 0),
    ("script --format csv", "script --format csv", None, 0),
    *((f"export --to {to}", f"export --to {to} -o /dev/null", None, 0)
      for to in ("collapsed", "collapsed --weight time", "speedscope", "firefox", "pprof", "bolt",
                 "profgen", "llvm", "autofdo")),
    ("export --to parquet", "export --to parquet --threads 1 -o /dev/null", None, 0),
    ("dump --style perf", "dump --style perf", perf("report -D", "f.data", False), 1),
    ("dump --style perf-7", "dump --style perf-7", None, 0),
    ("dump --style spex", "dump --style spex", None, 0),
    ("dump --format json", "dump --format json", None, 0),
]
MEMORY = ["export --to pprof -o /dev/null", "export --to firefox -o /dev/null",
          "export --to bolt -o /dev/null", "report", "mem", "c2c", "branch", "annotate walk",
          "script", "script --format json", "dump --style perf", "dump --format json", "verify"]


def make(scenario, path, records):
    subprocess.run([MAKE, scenario, path, PROG, str(records)], check=True)


def parquet(d):
    seconds = longest([*spex("export --to parquet --threads 2 -o /dev/null", "f.data")], d, 7)
    print(f"export --to parquet, two threads\t{RECORDS / seconds / 1e6:.1f}\tM records/s of the "
          "thread that takes longer", flush=True)
    subprocess.run([*spex("export --to parquet -o f.parquet", "f.data")], cwd=d, check=True,
                   stderr=subprocess.DEVNULL)
    print("export --to parquet, "
          f"size\t{os.path.getsize(f'{d}/f.parquet') / RECORDS:.1f}\tbytes a record", flush=True)


def query(d):
    """CPU time of a query over that of the report which says the same, on one thread,
    without the start of DuckDB."""
    if not DUCKDB:
        print("query, symbol, count, p95\t-\tno DuckDB: scripts/feeds-setup fetches it", flush=True)
        return
    os.environ["SPEX_DUCKDB"] = DUCKDB
    start, _ = cost([SPEX, "query", "SELECT 1"], d, 5)
    asked, _ = cost([SPEX, "query", "--threads", "1", *SYMBOLS, QUERY, "f.data"], d, 3)
    report, _ = cost([*spex("report", "f.data"), "--threads", "1"], d, 3)
    print(f"query, symbol, count, p95\t{LARGE / (asked - start) / 1e6:.1f}\tM "
          f"records/s\t{(asked - start) / report:.2f}\ttimes the CPU time of report", flush=True)


def main():
    with tempfile.TemporaryDirectory(prefix="spex-bench-") as d:
        os.makedirs(f"{d}/root/usr/bin")
        os.symlink(PROG, f"{d}/root/usr/bin/prog")
        make("mixed-n1-near", f"{d}/f.data", RECORDS)
        for row, ours, theirs, runs in AGAINST:
            seconds, memory = cost(spex(ours, "f.data"), d, 7)
            ratio = against = ""
            if theirs and shutil.which("perf"):
                slow, large = cost(theirs, d, runs)
                ratio = f"{slow / seconds:.1f}"
                against = (f"perf {theirs[1]}, {slow:.2f} s, {large // 1024} MB (ours "
                           f"{memory // 1024} MB)")
            print(f"{row}\t{RECORDS / seconds / 1e6:.1f}\tM records/s\t{ratio}\t{against}",
                  flush=True)
        parquet(d)
        make("mixed-n1-near", f"{d}/f.data", 4 * RECORDS)
        seconds, _ = cost(spex("annotate walk", "f.data"), d, 7)
        print(f"annotate\t{4 * RECORDS / seconds / 1e6:.1f}\tM records/s", flush=True)
        for row in ("report", "mem", "c2c", "branch", "annotate walk", "diff"):
            one, two = by_the_clock(row, d, 1), by_the_clock(row, d, 2)
            side = 2 * one / by_the_clock(row, d, 1, 2)  # two processes that share nothing
            print(f"{row}, two threads\t{4 * RECORDS / two / 1e6:.1f}\tM records/s"
                  f"\t{one / two:.2f}\tone thread {one:.2f} s; two processes gain {side:.2f}",
                  flush=True)
        make("mixed-n1", f"{d}/f.data", RECORDS)
        for row in ("report", "mem", "c2c", "branch"):
            seconds, _ = cost(spex(row, "f.data"), d, 5)
            print(f"{row}, wide keys\t{RECORDS / seconds / 1e6:.1f}\tM records/s", flush=True)
        make("mixed-n1-near", f"{d}/f.data", LARGE)
        seconds, _ = cost(spex("report", "f.data"), d, 5)
        without, _ = cost(spex("report --no-replay", "f.data"), d, 5)
        print(f"report, 16 million records\t{LARGE / seconds / 1e6:.1f}\tM records/s"
              f"\t{seconds / without:.2f}\tspex report --no-replay", flush=True)
        make("mixed-n1", f"{d}/f.data", LARGE)
        query(d)
        for row in MEMORY:
            _, memory = cost(spex(row, "f.data"), d, 1)
            print(f"memory on 1 GB, {row}\t{memory / 1024:.0f}\tMB", flush=True)


main()
