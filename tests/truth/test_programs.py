"""
Eight of Debian's programs, redis with a client, and the examples against exact cycles, on two
cores: the first row, how far rows with long runs and with short ones are off, and how many of all
rows lie within their interval (docs/time.md has the figures). `make check-programs` alone.
"""
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(__file__))
from profile import *

if not os.environ.get("SPEX_LONG"):
    done()
ALONE = ("atomics", "list_walk", "matmul", "sort", "stream", "tlb")
need(*ALONE)
ARM64 = os.path.join(BUILD, "arm64")
code, _, err = run("sh", os.path.join(SOURCE, "scripts/fetch-debs"), ARM64, "sqlite3", "python3",
                   "redis-server",
                   "redis-tools", "pigz", "bzip2", "gawk", "perl", "zstd", timeout=500)
if code:
    skip("Debian's arm64 programs", "cannot be fetched: " + err.strip().splitlines()[-1])
    done()
ROOT = os.path.join(ARM64, "root")
# Where a program's memory lies and what is in it depends on its environment and on the names of its
# files, and on that which rows are at the edge of their interval: meson's MALLOC_PERTURB_, another
# value each time, makes another program of each. So both are the same in every run; threads (redis,
# pigz) still meet as they like, which moves a row or two.
ENV = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0", "LC_ALL": "C",
       "PYTHONDONTWRITEBYTECODE": "1"}
work = os.path.join(BUILD, "programs")
shutil.rmtree(work, ignore_errors=True)
os.mkdir(work)
SQL = ("create table t(a integer primary key, b text);"
       "with recursive c(x) as (select 1 union all select x + 1 from c where x < 20000) "
       "insert into t select x, 'row ' || x * 7919 % 1000 from c;"
       "create index i on t(b); select b, count(*) from t group by b order by b limit 5;")
PYTHON = """
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
print(fib(22))
"""
LUA = ("redis.call('setbit', 'k', 3999999, 1) local n = 0 for i = 1, 80 do n = n + "
       "redis.call('bitcount', 'k') end return n")
REDIS = f"""
at=./socket
{ROOT}/usr/bin/redis-server --port 0 --unixsocket $at --save '' > redis.log 2>&1 &
tries=0
until [ -S $at ]; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || exit 1
    sleep 0.1
done
{ROOT}/usr/bin/redis-cli -s $at eval "{LUA}" 0
{ROOT}/usr/bin/redis-cli -s $at shutdown nosave
wait
"""
AWK = "BEGIN { for (i = 0; i < 6000; i++) { s = s i % 7; n[i % 97]++ } print length(s) }"
PERL = 'my %h; for my $i (1..20000) { $h{$i % 977} .= "x$i"; } print scalar(keys %h), "\\n"'
TEXT, PART = "text", "part"
for path, size in ((TEXT, 400000), (PART, 150000)):
    with open(os.path.join(work, path), "wb") as f:
        f.write(open(os.path.join(ROOT, "usr/bin/sqlite3"), "rb").read()[:size])
# name, program, what it prints, the first row's function (None: it has no name) and file, and
# whether its threads never wait for each other, nor are over soon: the time of those that do is
# known to a few points only
PROGRAMS = [
    ("sqlite3", [f"{ROOT}/usr/bin/sqlite3", ":memory:", SQL], b"0|20000\n", "sqlite3VdbeExec",
     "libsqlite3.so", True),
    ("python3", [f"{ROOT}/usr/bin/python3", "-S", "-c", PYTHON], b"17711\n",
     "_PyEval_EvalFrameDefault", "python3", True),
    ("redis", ["sh", "-c", REDIS], b"80\n", "redisPopcount", "redis", False),
    ("pigz", [f"{ROOT}/usr/bin/pigz", "-p", "2", "-c", TEXT], b"\x1f\x8b", None, "libz.so", False),
    ("bzip2", [f"{ROOT}/bin/bzip2", "-c", PART], b"BZh", None, "libbz2.so", False),
    ("gawk", [f"{ROOT}/usr/bin/gawk", AWK], b"6000\n", None, "gawk", False),
    ("perl", [f"{ROOT}/usr/bin/perl", "-e", PERL], b"977\n", None, "perl", False),
    ("zstd", [f"{ROOT}/usr/bin/zstd", "--single-thread", "-3", "-c", TEXT], b"\x28\xb5\x2f\xfd",
     None, "zstd", False),
    *((name, [os.path.join(EXAMPLES, name)], b"", None, name, False) for name in ALONE),
]


def judge(cpu, most, programs):
    """Rows of at least 0.5%: how far those of Debian's programs that take turns are off in the
    median, and how many of all are within their interval."""
    longs, shorts, larges, rows = [], [], [], []
    for name, argv, says, function, file, busy in programs:
        path = os.path.join(work, name + ".data")
        title = f"{cpu}: {name}"
        code, out, err = run("env", "-i", *(f"{k}={v}" for k, v in ENV.items()), SPEX, "record",
                             "--truth", "--model", "full", "--cpu", cpu, "-c",
                             "4096" if name in ALONE else "1024", "-L", ROOT, "-o", path, "--",
                             *argv, cwd=work, timeout=900)
        if not check(f"{title}: recorded", code == 0, err):
            continue
        check(f"{title}: does its work", out.startswith(says), out[:100])
        d = json.loads(spex("truth", "--format", "json", "--percent-limit", "0.5", "-i", path)[1])
        first = json.loads(spex("report", "--format", "json", "-s", "symbol,dso", "-i",
                                path)[1])["rows"][0]
        mine = next((r["cycles_share"] for r in d["rows"] if r["symbol"] == first["symbol"]), 0)
        check(f"{title}: the first row is the function with the most cycles, or has nearly as many",
              mine > (1 if busy else 0.8) * d["rows"][0]["cycles_share"] - 1e-9,
              (first["symbol"], d["rows"][:2]))
        if function:
            equal(f"{title}: its name", first["symbol"], function)
        check(f"{title}: its file", file in first["dso"], first["dso"])
        runs = {kind: [r for r in d["rows"] if r["runs"] == kind] for kind in ("long", "short")}
        errors = [(abs(r["time_difference"]) / r["cycles_share"], r) for r in runs["short"]
                  if r["cycles_share"]]
        if name != "redis" and name not in ALONE:  # whose few rows are of waits, and of one loop
            shorts += [e for e, r in errors]
            larges += [e for e, r in errors if max(r["cycles_share"], r["time"]) >= 0.01 and
                       r["share"] * d["samples"] >= 29.5]
        longs += runs["long"]
        rows += [(name, r) for r in d["rows"] if r["time_within"] in ("yes", "no")]
        off = [abs(r["time_difference"]) for r in runs["long"]]
        print(f"# {title}: {d['long_runs_within']} of {d['long_runs']} rows with long runs within "
              f"their interval, off by {max(off, default=0):.1%} "
              f"of the time at most; {d['short_runs']} with short ones, off by "
              f"{d['short_runs_median_error'] or 0:.0%} in the median; {d['large_short_runs']} of "
              f"these large, off by {d['large_short_runs_median_error'] or 0:.0%}")
        if busy:
            check(f"{title}: rows with long runs are off by less than a hundredth of the time",
                  max(off, default=0) < 0.01, runs["long"])
    off, middle = (sorted(e)[len(e) // 2] for e in (shorts, larges))
    check(f"{cpu}: {len(shorts)} rows with short runs: off by {off:.1%}, less than {most:.0%}, in "
          "the median", off < most, sorted(shorts))
    check(f"{cpu}: {len(larges)} rows with short runs, 1% of the time and 30 samples: off by "
          f"{middle:.1%}, less than {most:.0%}, in the median", middle < most, sorted(larges))
    outside = [r for r in rows if r[1]["time_within"] == "no"]
    check(f"{cpu}: of {len(rows)} rows {len(rows) - len(outside)} are within their 95% interval",
          len(rows) - len(outside) >= 0.93 * len(rows), outside)
    outside = [r for r in longs if r["time_within"] == "no"]
    check(f"{cpu}: of {len(longs)} rows with long runs {len(longs) - len(outside)} are",
          len(longs) - len(outside) >= 0.9 * len(longs), outside)  # some 40: each is 2.5%


judge("neoverse-n1", 0.08, PROGRAMS)
judge("neoverse-v2", 0.12, PROGRAMS)
done()
