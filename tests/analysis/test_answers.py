"""diff by time, the hottest lines, columns of -F, ratios of few samples: against
report and the records."""
import math
import re

from common import *

A, B = profile("mixed", 6000, 1, "a.data"), profile("branches", 6000, 2, "b.data")

# ---- diff: how much faster or slower, then where, and it adds up ----
a, b, d = data("report", A), data("report", B), data("diff", (A, B))
near = lambda x, y, by=1e-4: abs(x - y) <= by * max(1, abs(x), abs(y))
ratio = b["totals"]["time_ns"] / a["totals"]["time_ns"]
check("the ratio of the times", near(d["time_ratio"], ratio), (d["time_ratio"], ratio))
check("its interval holds it", d["time_ratio_low"] < ratio < d["time_ratio_high"],
      d["time_ratio_low"])
check("the changes of all rows add up to that of the whole",
      near(sum(r["time_delta"] for r in d["rows"]), ratio - 1), ratio - 1)
for side, report in (("a", a), ("b", b)):
    want = {r["symbol"]: r["time_ns"] for r in report["rows"]}
    bad = [r for r in d["rows"] if abs(r[f"time_{side}_ns"] - want.get(r["key"], 0)) > 1]
    check(f"the time of each row is report's: {side}", not bad, bad[:2])
check("a verdict where the interval does not hold zero",
      all((r["time_verdict"] != "") == (r["time_low"] > 0 or r["time_high"] < 0)
          for r in d["rows"]), d["rows"])
equal("largest change first", [r["key"] for r in d["rows"]],
      [r["key"] for r in sorted(d["rows"], key=lambda r: (-abs(r["time_delta"]), r["key"]))])
code, out, err = on("diff", (A, B))
check("the answer comes first: all the time is exact, so a percent more is more",
      re.match(r"B takes 1\.\d% more time than A \(95% interval of\s+sampling", out), out)
check("its interval is what lies before the first record and after the last",
      d["time_ratio_low"] < ratio < d["time_ratio_high"] < d["time_ratio_low"] + 0.01,
      (d["time_ratio_low"], ratio, d["time_ratio_high"]))
# Which part is a row's is not exact: the interval of the change is that of its two shares.
bad = []
for row in d["rows"]:
    sides = [next((r for r in s["rows"] if r["symbol"] == row["key"]), None) for s in (a, b)]
    halves = [(r["time_high"] - r["time_low"]) / 2 * t["totals"]["time_ns"] if r else 0
              for r, t in zip(sides, (a, b))]
    want = math.hypot(*halves) / a["totals"]["time_ns"]
    if max(r["samples"] for r in sides if r) > 100 and \
            abs((row["time_high"] - row["time_low"]) / 2 - want) > 0.2 * want + 1e-4:
        bad.append((row, want))
check("the interval of a change is that of its two shares", not bad, bad[:2])
few = data("diff", (A, B), "--symbol", "pick,sum")
check("what a filter leaves is not exact", few["time_ratio_high"] > few["time_ratio_low"] + 0.02,
      (few["time_ratio_low"], few["time_ratio_high"]))
again = data("diff", (A, A))
check("a profile and itself: no change", again["time_ratio"] == 1 and
      not any(r["time_verdict"] for r in again["rows"]), again["time_ratio"])
half = profile("mixed", 3000, 1, "half.data")
code, out, err = on("diff", (A, half))
check("half of the work: less time",
      out.startswith("B takes ") and "less time than A" in out.splitlines()[0], out)
code, back, err = on("diff", (half, A))
check("and the other way round: more", "more time than A" in back.splitlines()[0], back)
code, out, err = on("diff", (A, profile("mixed-untimed", 3000)))
check("without timestamps it is said, and shares are compared",
      "is not known" in out.splitlines()[0] and
      "time_a" not in data("diff", (A, "mixed-untimed.data"))["rows"][0], out)
gone = {f["kind"] for f in a["findings"]} - {f["kind"] for f in b["findings"]}
code, out, err = on("diff", (A, B))
equal("what is gone", out.count("\ngone: "), len(gone))
check("what is still there, with what to do",
      "\nstill: the branch at pick" in out and "do: compute without" in out, out)

# ---- annotate without a function: the hottest lines ----
d = data("annotate", A)
want = data("report", A, "--sort", "symbol,srcline")["rows"][:10]
equal("the hottest lines are report's",
      [(l["symbol"], l["srcline"], l["samples"], l["time_ns"]) for l in d["lines"]],
      [(r["symbol"], r["srcline"], r["samples"], r["time_ns"]) for r in want])
equal("then the hottest function", d["symbol"], want[0]["symbol"])
check("a function that was named: no such table", "lines" not in data("annotate", A, "walk"))

# ---- columns ----
for command, args, keys in (("report", [], ["symbol"]),
                            ("report", ["--sort", "dso,symbol"], ["dso", "symbol"]),
                            ("annotate", ["walk", "--no-source"], ["address", "instruction"]),
                            ("mem", ["--sort", "source"], ["source"])):
    code, out, err = on(command, A, *args, "-F", "samples", columns=120)
    heading = next(l for l in out.splitlines() if l.strip() and not l.startswith("#"))
    equal(f"{command} -F keeps the keys", heading.split(), ["samples", *keys])
code, out, err = on("report", A, "-F", "symbol,samples", columns=120)
equal("-F that names a key: as it says",
      next(l for l in out.splitlines() if l.strip() and not l.startswith("#")).split(),
      ["symbol", "samples"])
code, out, err = on("report", A, "--format", "csv", "-F", "samples")
equal("CSV has what was asked for", out.splitlines()[0], "samples")

# ---- ratios of few samples ----
# Erratum 1694299: which instructions have samples says little; functions are not touched.
texts = [on("report", A, "--sort", sort)[1] for sort in ("symbol", "pc", "symbol,pc")]
equal("report warns of single instructions of a Neoverse N1 before r4p1",
      ["trust functions and lines" in text for text in texts], [False, True, True])
equal("report: JSON names the erratum", data("report", A)["sampling"]["erratum"], "1694299")

rows = data("report", A, "--sort", "page")["rows"]
code, out, err = on("report", A, "--sort", "page", "-F", "samples,l1_miss,page", "--percent-limit",
                    "0", columns=120)
shown = {l.split()[-1]: l.split()[1] for l in out.splitlines() if l.split() and
         l.split()[-1].startswith("0x")}
bad = []
for r in rows:
    n = r["loads"] + r["stores"]
    if n and (shown[r["page"]] == "-") != (n <= 5 if r["l1_miss"] in (0, 1)
                                           else n < 30) and (n < 3 or n > 40):
        bad.append((r["page"], n, r["l1_miss"], shown[r["page"]]))
check("a ratio of a few is blank, of many is shown",
      not bad and any(v == "-" for v in shown.values()), bad[:5])

# ---- names get the width ----
code, out, err = on("report", A, "--sort", "symbol,srcline,op", columns=80)
check("names are whole where statistics can give way",
      "branch indirect call" in out and ".." not in out, out)
done()
