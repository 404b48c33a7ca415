"""
Exact cycles: what an instruction has is what it holds the core up for. Loops in assembly, and the
proof: an instruction that takes less time saves the cycles that it had, and no others.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
from profile import *

need()
TIMES, WIDTH, DIVIDE, REFILL = 20000, 4, 12, 9  # of a Neoverse N1
work = tempfile.mkdtemp(prefix="spex-cycles-")
program = os.path.join(work, "cycles")
subprocess.run(["aarch64-linux-gnu-gcc", "-nostdlib", "-static", "-o", program,
                os.path.join(os.path.dirname(__file__), "cycles.S")], check=True)
nm = subprocess.run(["aarch64-linux-gnu-nm", program], stdout=subprocess.PIPE, text=True).stdout
at = {name: int(address, 16) for address, _, name in (line.split() for line in nm.splitlines())}


def cycles(*options):
    """Cycles and mispredictions of each instruction."""
    path = os.path.join(work, "perf.data")
    code, out, err = spex("record", "--truth", "--model", "full", "-c", "65536", "-o", path,
                          *options, "--", program)
    if code:
        check("recorded", False, err)
        done()
    rows = [line.split() for line in open(path + ".truth") if line[0] != "#"]
    return {int(r[1], 16): (int(r[8]), int(r[6])) for r in rows}


def loop(rows, name, behind):
    return {pc: n for pc, (n, _) in rows.items() if at[name] <= pc < behind - 4}


rows = cycles()
whole = sum(n for n, _ in rows.values())
end = {"hidden": at["beside"], "beside": at["chain"], "chain": at["ports"], "ports": at["guess"]}
loops = {name: loop(rows, name, behind) for name, behind in end.items()}
one = {name: rows[at[name + "_at"]][0] / TIMES for name in loops if name + "_at" in at}
print("#", {name: sum(l.values()) / TIMES for name, l in loops.items()}, one)
for name in ("hidden", "beside"):
    every = len(loops[name]) / WIDTH
    check(f"{name}: the loop takes its dispatch, {every} cycles",
          abs(sum(loops[name].values()) / TIMES - every) < 0.5, sum(loops[name].values()) / TIMES)
    check(f"{name}: the long latency takes its place in dispatch and little more",
          1 / WIDTH <= one[name] + 1e-3 < 0.6, one[name])
    check(f"{name}: and what comes after it no less",
          all(n > 0.2 * TIMES for n in loops[name].values()), sorted(loops[name].values())[:3])
every = len(loops["chain"]) / WIDTH
check("chain: the loop takes its divisions",
      abs(sum(loops["chain"].values()) / TIMES - DIVIDE) < 0.5, sum(loops["chain"].values()))
check("chain: all but the others' dispatch is the division's",
      abs(one["chain"] - (DIVIDE - every + 1 / WIDTH)) < 0.5, one["chain"])

check("ports: two operations a cycle, and all of the loop share what that costs",
      all(abs(n / TIMES - 6 / 14) < 0.1 for n in loops["ports"].values()), loops["ports"])

# The branch has what its mispredictions cost, not what comes after it. It is resolved some cycles
# after its dispatch: it waits for the number, which takes three operations.
spent, wrong = rows[at["guess_at"]]
check("guess: mispredicted nearly half of the time", 0.3 * TIMES < wrong < 0.6 * TIMES, wrong)
check("guess: the branch has the time that its mispredictions take",
      REFILL < (spent - TIMES / WIDTH) / wrong < REFILL + 12, (spent, wrong))
after = [n for pc, (n, _) in rows.items() if at["guess_at"] < pc < at["guess_at"] + 4 * 9]
check("guess: and what comes after it only its dispatch", max(after) < 0.5 * TIMES, after)

# What it would save.
for name, option in (("hidden", "lat.system=1"), ("chain", "lat.div=1")):
    faster = cycles("--model", option)
    saved = (whole - sum(n for n, _ in faster.values())) / TIMES
    had = one[name] - 1 / WIDTH + (one["beside"] - 1 / WIDTH if name == "chain" else 0)
    check(f"{option}: saves what the instruction had beyond its dispatch: {had:.2f} cycles",
          abs(saved - had) < 0.6, saved)
check("the window is full in front of the chain: it is not the last instruction that is to blame",
      rows[at["ports"] - 8][0] < 0.5 * TIMES, rows[at["ports"] - 8])
done()
