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
        "barrier hops", "atomic stores", "deep guess", "barrier muls", "atomic fpchain",
        "forward chain", "roots mulchain", "table hops", "shifts fps", "steps chain", "steps sums",
        "steps hops", "jumps chain", "jumps sums", "jumps guess", "loads chase", "stores chase",
        "loads gather", "stores gather", "beside sums", "sure chain", "deep sums")]
# What decides whose time it is in a kind of work, and so in its pairs: the rules of docs/model.md.
RULES = {
    "width": "sums steps sure", "dependence": "chain mulchain fpchain steps",
    "window": "chase gather hops divchain", "ports of integers": "muls shifts sums",
    "ports of FP": "fps", "ports of loads": "loads steps", "ports of stores": "stores",
    "latency of integers": "mulchain shifts", "latency of FP": "fpchain",
    "integer divider": "divs divchain", "FP divider": "roots", "loads that hit": "hops",
    "misses": "chase gather", "queue of loads": "loads", "queue of stores": "stores",
    "forwarding": "forward", "no forwarding": "beside", "base registers": "steps",
    "barriers": "barrier", "atomics": "atomic", "mispredictions": "guess",
    "indirect branches": "table", "predicted branches": "sure", "returns": "deep",
    "targets of branches": "jumps"}
if ALL:
    pairs = {rule: [p for p in PAIRS if set(p) & set(works.split())]
             for rule, works in RULES.items()}
    few = {rule: p for rule, p in pairs.items() if len(p) < 3}
    check("each rule is in three pairs", not few, few)
work = tempfile.mkdtemp(prefix="spex-rules-")
program = os.path.join(work, "rules")
subprocess.run(["aarch64-linux-gnu-gcc", "-O2", "-march=armv8.1-a", "-static", "-o", program,
                os.path.join(os.path.dirname(__file__), "rules.c")], check=True)


def judge(cpu, model):
    """Of each pair: replayed, by latencies alone, and how far issue latencies are off."""
    out = []
    for a, b in PAIRS:
        path = os.path.join(work, "perf.data")
        turns = "1500" if {a, b} & {"chase", "gather"} else "8000"
        code, _, err = spex("record", "--cpu", cpu, "--model", model, "--truth", "-c", "256", "-o",
                            path, "--", program, a, b, turns)
        if not check(f"{cpu}, {model}: {a} and {b}", code == 0, err):
            continue
        fit = json.loads(spex("report", "--format", "json", "-i", path)[1])["replay"]
        out.append((apart(path), apart(path, "--no-replay"), fit["issue_misfit"], a, b))
    return out


def waits(a, b, function):
    """{what an instruction of a function is called: the names of those that it waits for}"""
    path = os.path.join(work, "waits.data")
    spex("record", "--model", "full", "-c", "256", "-o", path, "--", program, a, b, "2000")
    rows = json.loads(spex("annotate", "--format", "json", "-i", path, function)[1])["instructions"]
    name = {r["address"]: r["instruction"].split()[0] for r in rows}
    out = {}
    for r in rows:
        if r["waits_for"]:
            out.setdefault(name[r["address"]], set()).add(name.get(r["waits_for"], r["waits_for"]))
    return out


def others(pairs, how):
    """How often another function is first."""
    return sum(not p[how][1] for p in pairs)


def middle(numbers):
    return sorted(numbers)[len(numbers) // 2]


for cpu in ("neoverse-n1", "neoverse-v2", "neoverse-n2", "kunpeng-920")[:None if ALL else 1]:
    pairs = judge(cpu, "full")
    off, without = ([p[k][0] for p in pairs] for k in (0, 1))
    print(f"# {cpu}: replayed {max(off):.1f} points apart at worst, {middle(off):.1f} in the "
          f"median, another function first in {others(pairs, 0)}; by latencies alone "
          f"{max(without):.1f}, {middle(without):.1f}, {others(pairs, 1)}")
    check(f"{cpu}: less than 10 points apart", max(off) < 10, pairs)
    check(f"{cpu}: less than 2 in the median", middle(off) < 2, pairs)
    check(f"{cpu}: and another function first in hardly any",
          others(pairs, 0) <= len(pairs) // 8, pairs)
    fits = middle([p[2] for p in pairs])  # another core's: 0.04 to 1.9, mostly over 0.2
    check(f"{cpu}: issue latencies, which are not used, are off by {fits:.1%}, less than 10%, in "
          "the median", fits < 0.1, pairs)
# Not the core that the MIDR says: its numbers do not fit, and others' do.
path = os.path.join(work, "wrong.data")
code, _, err = spex("record", "--cpu", "neoverse-v2", "--model", "full,neoverse-n1", "--truth",
                    "-c", "256", "-o", path, "--", program, "beside", "mulchain", "8000")
check("another core's MIDR: recorded", code == 0, err)
header, fit = (spex("report", "-i", path, *o)[1].decode() for o in ((), ("--format", "json")))
fit = json.loads(fit)["replay"]
check("another core's MIDR: its numbers do not fit, and JSON says which were taken",
      fit["unfit_core"] == "neoverse-v2" and fit["unfit_misfit"] > 0.6 and fit["chosen_by_fit"] and
      fit["core"] != "neoverse-v2" and fit["issue_misfit"] < 0.3 and fit["trust"] == "fair", fit)
header = " ".join(header.replace("\n#", " ").split())
check("so does the header", "the numbers of this CPU, neoverse-v2, do not fit (issue latencies off "
      f"by {100 * fit['unfit_misfit']:.0f}%): those of {fit['core']} are used" in header, header)
off, first = apart(path)
check(f"{off:.1f} points apart, less than 10 as with its own", off < 10 and first)
found = waits("forward", "chain", "forward")
check("annotate: a load waits for the store before it, an addition for the load, a store for that",
      (found.get("ldr"), found.get("add"), found.get("str")) == ({"str"}, {"ldr"}, {"add"}), found)
found = waits("divs", "fpchain", "divs")
check("annotate: a division waits for the divider, and what is first for another function",
      found.get("udiv") == {"itself"} and "main+" in str(found.get("mov")), found)
PERTURBED = [
    ("neoverse-n1", "full," + model)
    for model in ("kunpeng-920", "neoverse-v2", "rob=64", "rob=256", "pipes.alu=2,pipes.load=1",
                  "mispredict=20", "lat.mul=4,lat.fpadd=4")]
PERTURBED += [("neoverse-v2", "full,neoverse-n1")]
PERTURBED += [(cpu + ",midr=0x41000000", "full") for cpu in ("neoverse-n1", "neoverse-v2")]
for cpu, model in PERTURBED if ALL else []:
    pairs = judge(cpu, model)
    off, without = ([p[k][0] for p in pairs] for k in (0, 1))
    print(f"# {cpu}, {model}: {max(off):.1f}, {middle(off):.1f}, {others(pairs, 0)}, by latencies "
          f"alone {max(without):.1f}, {middle(without):.1f}, {others(pairs, 1)}")
    check(f"{cpu}, {model}: less than 30 points apart, and in the median no worse than without",
          max(off) < 30 and middle(off) < middle(without) + 1, pairs)
done()
