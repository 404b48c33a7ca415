"""Runs docs/tutorial.md: each command line, in order, and what the page claims about it
(screens.py says how screens are compared)."""
from screens import *

if not can_play():
    done()
os.makedirs(f"{DIR}/examples")
shutil.copy(f"{SOURCE}/examples/readings.c", f"{DIR}/examples")
os.symlink(SPEX, f"{DIR}/spex")
play(f"{SOURCE}/docs/tutorial.md")

# ---- what the page claims ----
def ask(command, file, *args):
    return data(command, file, *args, symbols=False)

before = {r["symbol"]: r for r in ask("report", "before.data")["rows"]}
after = {r["symbol"]: r for r in ask("report", "after.data")["rows"]}
step2 = {r["symbol"]: r for r in ask("report", "step2.data")["rows"]}
check("tally's slow loads come from the other core", before["tally"]["from_peer_core"] > 20,
      before["tally"])
lines = [l for l in ask("c2c", "before.data")["lines"] if l["score"] >= 0.1]
equal("one falsely shared line, the counters", [(l["kind"], l["data"]) for l in lines],
      [("false", "seen")])
check("padded: none", not [l for l in ask("c2c", "step1.data")["lines"] if l["score"] >= 0.1])
check("tally: most of the time", before["tally"]["time"] > 0.5, before["tally"])
check("sum_by_sensor: small share, long latencies, every load misses",
      before["sum_by_sensor"]["share"] < 0.25 and before["sum_by_sensor"]["latency_p95"] > 50 and
      before["sum_by_sensor"]["l1_miss"] > 0.95 and before["sum_by_sensor"]["tlb_walk"] > 0.9,
      before["sum_by_sensor"])
check("turned around: it does not", step2["sum_by_sensor"]["l1_miss"] < 0.1, step2["sum_by_sensor"])
worst = ask("branch", "step2.data")["branches"][0]
check("collect_above: every second branch is mispredicted",
      worst["symbol"] == "collect_above" and 0.3 < worst["ratio"] < 0.6, worst)
check("without the branch: none", after["collect_above"]["mispredict"] < 0.02,
      after["collect_above"])
span = [ask("report", f)["totals"] for f in ("before.data", "after.data")]
times = [t["last_time"] - t["first_time"] for t in span]
check("less than a third of the time", times[1] < times[0] / 2.5, times)
check("and more operations", span[1]["records"] > span[0]["records"], span)
done()
