"""
Shares of time against exact cycles, by function: programs in which neither operations nor
latencies tell the time (docs/time.md), and examples. Long runs lie within their interval, short
ones are marked and bounded, and time beats operations and gaps.
"""
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(__file__))
from profile import *

need("sort", "tlb")
work = tempfile.mkdtemp(prefix="spex-mixes-")
program = os.path.join(work, "mixes")
subprocess.run(["aarch64-linux-gnu-gcc", "-O2", "-static", "-o", program,
                os.path.join(os.path.dirname(__file__), "mixes.c")], check=True)


# The same samples each time: names and what stands in the environment move the stack.
ALONE = ["env", "-i", f"--chdir={work}", SPEX, "record", "--qemu", shutil.which("qemu-aarch64")]
for name in ("sort", "tlb"):
    shutil.copy(os.path.join(EXAMPLES, name), work)


def truth(name, argv, period, *options):
    path = os.path.join(work, name + ".data")
    options = options or ("--model", "full")
    code, out, err = run(*ALONE, "--truth", "-c", str(period), "-o", path, *options, "--", *argv)
    if code:
        check(f"record {name}", False, err)
        done()
    code, out, err = spex("truth", "--format", "json", "--percent-limit", "0.5", "-i", path)
    return json.loads(out), path


def apart(d, column):
    """Half the sum of differences of shares."""
    return sum(abs(r[column] - r["cycles_share"]) for r in d["rows"]) / 2


longs = within = 0
outside = []
# How far the shares may be off, and those of the samples are, where functions take turns.
for name, most, samples in (("calls", 0.08, 0.35), ("turns", 0.03, 0.55), ("phases", 0.02, 0.55),
                            ("gathers", 0.06, 0.55), ("guesses", 0.11, 0.2), ("long", 0.01, 0.5)):
    d, path = truth(name, ["./mixes", name], 1024)
    check(f"{name}: time is off by less than {most:.0%}", apart(d, "time") < most, d["rows"])
    check(f"{name}: where operations are off by more than {samples:.0%}",
          apart(d, "share") > samples, d["rows"])
    total = json.loads(spex("report", "--format", "json", "-i", path)[1])["totals"]
    span = total["last_time"] - total["first_time"]
    check(f"{name}: all of the time is shared",
          abs(total["time_ns"] + total["time_unseen_ns"] - span) < 1e-4 * span, total)
    first = d["rows"][0]["symbol"]
    equal(f"{name}: the first row",
          json.loads(spex("report", "--format", "json", "-i", path)[1])["rows"][0]["symbol"], first)
    runs = {r["symbol"]: r["runs"] for r in d["rows"] if r["cycles_share"] > 0.05}
    want = "long" if name in ("phases", "long") else "short"
    check(f"{name}: runs are {want}", all(r == want or s == "prepare" for s, r in runs.items()),
          runs)
    longs += d["long_runs"]
    within += d["long_runs_within"]
    outside += [r for r in d["rows"] if r["runs"] == "long" and r["time_within"] == "no"]
for name in ("sort", "tlb"):
    d, path = truth(name, ["./" + name], 4096)
    longs += d["long_runs"]
    within += d["long_runs_within"]
    outside += [r for r in d["rows"] if r["runs"] == "long" and r["time_within"] == "no"]
check(f"of {longs} rows with long runs {within} are within their 95% interval",
      longs >= 15 and within >= 0.93 * longs, outside)

# Several files as one profile: the counts of all.
pair = [os.path.join(work, name + ".data") for name in ("calls", "long")]
one = [json.loads(spex("truth", "--format", "json", "-i", f)[1]) for f in pair]
two = json.loads(spex("truth", "--format", "json", "-i", pair[0], pair[1])[1])
for key in ("cycles", "operations", "samples"):
    equal(f"truth of two files: {key}", two[key], one[0][key] + one[1][key])
code, out, err = spex("truth", "--truth", pair[0] + ".truth", *pair)
check("one file of counts is not those of two", code == 2 and "FILE.truth" in str(err), err)

# By line, and what has no cycles or no timestamps says so.
code, out, err = spex("truth", "-s", "srcline", "-i", os.path.join(work, "long.data"))
check("by line", code == 0 and "within" in str(out), err)
d, path = truth("none", ["./mixes", "guesses"], 1024, "--model", "none")
check("--model none: no cycles, no comparison of time",
      d["cycles"] == 0 and "cycles_share" not in d["rows"][0], d["rows"][:1])
code, out, err = spex("truth", "-s", "tid", "-i", path)
check("only what exact counts are by", code == 2 and "tid" in str(err), err)
done()
