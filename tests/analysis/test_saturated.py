"""Counters that stand at their largest value mean "at least": marked, named and
counted (PKT-44 to PKT-46)."""
import csv, io, json, os, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *


def record(total, issue, translation):
    counters = ((0x98, total), (0x99, issue), (0x9a, translation))
    return b"".join(bytes([h]) + v.to_bytes(2, "little") for h, v in counters) + bytes.fromhex(
        "b00040000000000080" "b20010000000000000" "4900" "5216 00" "01")


NARROW = b"".join(record(*c) for c in ((4095, 10, 5), (100, 4095, 4095), (7, 1, 0)))
WIDE = b"".join(record(*c) for c in ((4095, 10, 5), (65535, 70, 4095), (5000, 1, 0)))
CASES = (
    ("12 bits", NARROW, 4095, ["latency", "issue|translation", None], 2,
     ["lat >=4095 issue 10 xlat 5", "lat 100 issue >=4095 xlat >=4095", "lat 7 issue 1 xlat 0"]),
    ("16 bits", WIDE, 65535, [None, "latency", None], 1,
     ["lat 4095 issue 10 xlat 5", "lat >=65535 issue 70 xlat 4095", "lat 5000 issue 1 xlat 0"]))

for name, stream, most, named, count, texts in CASES:
    _, out, err = spex("script", "--raw", "-", stdin=stream)
    lines = out.decode().splitlines()
    check(f"{name}: script marks them",
          len(lines) == 3 and all(t in l for t, l in zip(texts, lines)), out)
    _, out, err = spex("script", "--format", "json", "--raw", "-", stdin=stream)
    rows = [json.loads(l) for l in out.splitlines()]
    check(f"{name}: JSON keeps the numbers and names the counters",
          [r.get("saturated") for r in rows] == named and
          all(isinstance(r["latency"], int) for r in rows), out)
    _, out, err = spex("script", "--format", "csv", "--raw", "-", stdin=stream)
    rows = list(csv.DictReader(io.StringIO(out.decode())))
    check(f"{name}: so does CSV", [r["saturated"] or None for r in rows] == named, out)
    _, out, err = spex("report", "-F", "samples,latency_mean,latency_p95", "--raw", "-",
                       stdin=stream)
    text = out.decode()
    check(f"{name}: report marks a quantile and a mean, and counts samples",
          f">={most}" in text and f"# {count} sample" in text and f"ended at {most}" in text
          and text.count(">=") == 2, text)
    _, out, err = spex("report", "--format", "json", "--raw", "-", stdin=stream)
    report = json.loads(out)
    check(f"{name}: report's JSON says how many, and what the largest value is",
          report["totals"]["saturated"] == count and report["sampling"]["counter_most"] == most,
          out[:600])

_, out, err = spex("report", "--sort", "op", "-F", "op,issue_mean,translation_mean", "--raw", "-",
                   stdin=NARROW)
check("means of issue and translation latency are marked", out.decode().count(">=") == 2, out)
stream = record(100, 4095, 5) + record(100, 5, 5).replace(bytes.fromhex("4900"),
                                                          bytes.fromhex("4901"))
_, out, err = spex("report", "--sort", "op", "-F", "op,issue_mean,translation_mean", "--raw", "-",
                   stdin=stream)
rows = [l for l in out.decode().splitlines() if not l.startswith("#") and
        ("load" in l or "store" in l)]
check("only in the row that has one, and only that counter's",
      len(rows) == 2 and all(l.count(">=") == ("load" in l) for l in rows), out)
with tempfile.TemporaryDirectory() as d:
    for name, stream in (("a", record(4095, 1, 1)), ("b", record(100, 1, 1))):
        with open(os.path.join(d, name), "wb") as f:
            f.write(stream)
    _, out, err = spex("diff", "--raw", "--sort", "op", "-F", "latency,p95_a,p95_b",
                       os.path.join(d, "a"), os.path.join(d, "b"))
check("diff marks a percentile that is one",
      ">=4095 -> 100" in out.decode() and out.decode().count(">=4095") == 2, (out, err))
_, out, err = spex("report", "--raw", "-", stdin=record(4094, 1, 1))
check("nothing is said where nothing is saturated", b">=" not in out and b"counter" not in out, out)
_, out, err = spex("dump", "--format", "json", "--raw", "-", stdin=NARROW)
check("dump's JSON is as it was",
      b"saturated" not in out and json.loads(out.splitlines()[0])["payload"] == "0xfff", out[:200])
done()
