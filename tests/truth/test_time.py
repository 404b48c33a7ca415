"""The full model under a program: what prefetchers hide, what divisions cost,
and that time adds up."""
import collections
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from profile import *

need("sort")
work = tempfile.mkdtemp(prefix="spex-time-")
program = os.path.join(work, "passes")
subprocess.run(["aarch64-linux-gnu-gcc", "-O2", "-static", "-o", program,
                os.path.join(os.path.dirname(__file__), "passes.c")], check=True)


def record(*options, argv):
    path = os.path.join(work, "perf.data")
    code, out, err = spex("record", "--model", "full", "-c", "4096", "-o", path, *options, "--",
                          *argv)
    if code:
        check(f"record {argv}", False, err)
        done()
    return path


def misses(mode, function, *options):
    path = record(*options, argv=[program, mode])
    code, out, err = spex("report", "--format", "json", "-s", "symbol", "--op", "load", "-i", path)
    row = next(r for r in json.loads(out)["rows"] if r["symbol"] == function)
    return row["l1_miss"]


# Every fourth load of the pass is the first of its line.
check("64 MB in order: few misses", misses("order", "in_order") < 0.02)
check("64 MB in order without prefetchers: one a line",
      0.2 < misses("order", "in_order", "--model", "prefetch=none") < 0.3)
check("64 MB at random: all miss", misses("random", "at_random") > 0.98)


def counts(*argv):
    code, out, err = spex("stat", "--model", "full", "-c", "65536", "--", *argv)
    return {m[1]: int(m[0].replace(",", "")) for m in re.findall(r"([\d,]+)  ([\w-]+)", err)}


# The cycles of all instructions and of the kernel are the recording's duration.
for argv in ([program, "div"], [os.path.join(EXAMPLES, "sort")]):
    path = record("--truth", argv=argv)
    cycles = collections.Counter()
    kernel = 0
    for line in open(path + ".truth"):
        if line.startswith("#kernel\t"):
            kernel = int(line.split()[1])
        elif not line.startswith("#"):
            cells = line.split()
            cycles[int(cells[1], 16)] += int(cells[8])
    totals = json.loads(spex("report", "--format", "json", "-i", path)[1])["totals"]
    spent = totals["time_ns"]
    check("a cycle is a nanosecond: time, and what is taken for the kernel's, are the cycles",
          abs((spent + totals["time_unseen_ns"]) / (sum(cycles.values()) + kernel) - 1) < 0.01,
          totals)
    check("what is taken for the kernel's is hardly more", totals["time_unseen_ns"] <
          kernel + 0.003 * spent, (totals, kernel))
    # spex truth adds them up by function and by source line.
    table = {}
    for key in ("symbol", "srcline"):
        code, out, err = spex("truth", "-s", key, "--format", "json", "--percent-limit", "0", path)
        d = json.loads(out)
        table[key] = {r[key]: r["cycles"] for r in d["rows"]}
        equal(f"truth by {key}: all cycles", sum(table[key].values()), sum(cycles.values()))
        check(f"truth by {key}: shares are of the time that samples share",
              all(abs(r["cycles_share"] * spent - r["cycles"]) < 1 for r in d["rows"]),
              d["rows"][:3])
        equal(f"truth by {key}: what is taken for the kernel's", d["unseen_cycles"],
              totals["time_unseen_ns"])
    if argv[-1] != "div":
        parts = symbols("sort")
        for name in ("sum_sorted", "sum_unsorted"):
            first, last, _ = next(p for p in parts if p[2] == name)
            exact = sum(n for pc, n in cycles.items() if first <= pc < last)
            equal(f"truth: the cycles of {name}", table["symbol"][name], exact)
        source = open(os.path.join(SOURCE, "examples", "sort.c")).read().splitlines()
        row = max((k for k in table["srcline"] if "sort.c:" in k), key=table["srcline"].get)
        number = int(row.split(":")[-1])
        check("truth: most time is in the line that mispredicts",
              source[number - 1].strip() == "SUM;" and "sum_unsorted" in source[number - 3], row)
    c = counts(*argv)
    equal(f"{os.path.basename(argv[0])}: time adds up", sum(cycles.values()) + c["kernel-cycles"],
          c["cycles"])
    equal(f"{os.path.basename(argv[0])}: the truth file has the kernel's", kernel,
          c["kernel-cycles"])
    if argv[-1] == "div":
        most = cycles.most_common(1)[0][1]
        check("a million dependent divisions take their sum: 12 cycles each, and what feeds them",
              sum(n for _, n in cycles.most_common(6)) > 12e6, cycles.most_common(6))

# A function alone and among others differs by what it shares with them, and by nothing else.
taken = {}
for mode in ("alone", "among", "shares"):
    code, out, err = spex("truth", "-s", "symbol", "--format", "json",
                          record("--truth", argv=[program, mode]))
    taken[mode] = next(r["cycles"] for r in json.loads(out)["rows"] if r["symbol"] == "small")
check("among others that share nothing: the same cycles",
      abs(taken["among"] / taken["alone"] - 1) < 0.03, taken)
check("among others that use up the cache: more", taken["shares"] > 1.02 * taken["alone"], taken)

# In a thread of its own or in the guest's: the same.
texts = []
for thread in "10":
    path = record("--model", f"thread={thread}", argv=[os.path.join(EXAMPLES, "sort")])
    texts.append(spex("script", "--format", "csv", "-i", path)[1])
check("with a thread of its own and without: the same records", texts[0] and texts[0] == texts[1])
done()
