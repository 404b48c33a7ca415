"""Runs docs/tutorial-hardware.md on the capture of examples, and what the page claims about it."""
from screens import *

if b"__asan_init" in open(SPEX, "rb").read():
    skip("the page", "its screens are compared in the build without sanitizer")
    done()
os.makedirs(f"{DIR}/examples")
shutil.copy(f"{SOURCE}/examples/capture.tar.xz", f"{DIR}/examples")
os.symlink(SPEX, f"{DIR}/spex")
printed = play(f"{SOURCE}/docs/tutorial-hardware.md")
if os.environ.get("SPEX_UPDATE_TUTORIAL"):
    done()
before = {r["symbol"]: r for r in data("report", "before/perf.data", symbols=False)["rows"]}
after = {r["symbol"]: r for r in data("report", "after/perf.data", symbols=False)["rows"]}
slow = before["sum_by_sensor"]
check("sum_by_sensor: a fifth of the operations, most time, every load misses",
      0.15 < slow["share"] < 0.25 and slow["time"] == max(r["time"] for r in before.values()) and
      slow["l1_miss"] > 0.95 and slow["tlb_walk"] > 0.95, slow)
check("turned around it does not", after["sum_by_sensor"]["l1_miss"] < 0.1, after["sum_by_sensor"])
check("no model made the file", "# model" not in printed[1] and "fit: poor" in printed[1],
      printed[1])
walks = re.findall(r"^(?=.*tlb-walk).*?0x([0-9a-f]+)", printed[4], re.M)
apart = {abs(int(a, 16) - int(b, 16)) for a, b in zip(walks, walks[1:])}
check("the loads lie 4 KiB or more apart", len(walks) == 4 and min(apart) >= 4096, printed[4])
check("collect_above: half of its branches are mispredicted, later none", before["collect_above"]
      ["mispredict"] > 0.1 and after["collect_above"]["mispredict"] < 0.02, before["collect_above"])
check("three findings are gone", printed[6].count("\ngone: ") == 3, printed[6])
done()
