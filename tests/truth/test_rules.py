"""
Pairs of short functions in turn, drawn from every rule of the account of time, against exact
cycles: what the replay says of whose time it is (docs/time.md has the figures), with the core's own
numbers and with another's. `make check-programs` takes all pairs on four cores, `make check` a few.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from profile import *

need("sort")
ALL = os.environ.get("SPEX_LONG")
PAIRS = [pair.split() for pair in (
    "sums chain", "muls mulchain", "divchain sums", "fps fpchain", "hops sums", "chase gather",
    "forward sums", "guess chain", "barrier sums", "atomic chain", "table sure", "deep chain")]
if ALL:
    PAIRS += [pair.split() for pair in (
        "muls sums", "divs divchain", "divs fpchain", "fps chain", "shifts chain", "shifts sums",
        "roots fps", "roots sums", "loads hops", "loads stores", "chase sums", "gather divchain",
        "stores chain", "forward beside", "beside mulchain", "guess sure", "table divchain",
        "barrier hops", "atomic stores", "deep guess")]
work = tempfile.mkdtemp(prefix="spex-rules-")
program = os.path.join(work, "rules")
subprocess.run(["aarch64-linux-gnu-gcc", "-O2", "-march=armv8.1-a", "-static", "-o", program,
                os.path.join(os.path.dirname(__file__), "rules.c")], check=True)


def apart(path, *options):
    """Half the sum of the differences of shares, in points; is the first row the right one?"""
    d = json.loads(spex("truth", "--format", "json", "--percent-limit", "0.5", "-i", path,
                        *options)[1])
    first = max(d["rows"], key=lambda r: r["time"])
    return (50 * sum(abs(r["time"] - r["cycles_share"]) for r in d["rows"]),
            first["symbol"] == d["rows"][0]["symbol"])


def judge(cpu, model):
    """Of each pair: replayed, and by latencies alone."""
    out = []
    for a, b in PAIRS:
        path = os.path.join(work, "perf.data")
        turns = "1500" if {a, b} & {"chase", "gather"} else "8000"
        code, _, err = spex("record", "--cpu", cpu, "--model", model, "--truth", "-c", "256", "-o",
                            path, "--", program, a, b, turns)
        if not check(f"{cpu}, {model}: {a} and {b}", code == 0, err):
            continue
        out.append((apart(path), apart(path, "--no-replay"), a, b))
    return out


def middle(numbers):
    return sorted(numbers)[len(numbers) // 2]


CORES = [("neoverse-n1", 10)]
if ALL:
    CORES += [("neoverse-v2", 30), ("neoverse-n2", 10), ("kunpeng-920", 10)]
for cpu, worst in CORES:
    pairs = judge(cpu, "full")
    off, without = ([p[k][0] for p in pairs] for k in (0, 1))
    print(f"# {cpu}: replayed {max(off):.1f} points apart at worst and {middle(off):.1f} in the "
          f"median, by latencies alone {max(without):.1f} and {middle(without):.1f}")
    check(f"{cpu}: at most {worst} points apart", max(off) < worst, pairs)
    check(f"{cpu}: less than 2 in the median", middle(off) < 2, pairs)
    check(f"{cpu}: and another function first in hardly any",
          sum(not p[0][1] for p in pairs) <= len(pairs) // 8, pairs)
if ALL:
    for model in ("full,kunpeng-920", "full,neoverse-v2", "full,rob=64", "full,rob=256",
                  "full,pipes.alu=2,pipes.load=1", "full,mispredict=20"):
        pairs = judge("neoverse-n1", model)
        off, without = ([p[k][0] for p in pairs] for k in (0, 1))
        check(f"{model}, with the numbers of the N1: at most 30 points apart, and better than "
              "without", max(off) < 30 and middle(off) < middle(without) + 1, pairs)
done()
