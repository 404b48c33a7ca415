"""
Where a replay of the program is not possible, or not wanted, latencies alone tell whose time it is,
and the header says so; how many threads read the file makes no difference.
"""
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(__file__))
from profile import *

need("sort", "sort.dyn")
work = tempfile.mkdtemp(prefix="spex-replay-")
os.chdir(work)


def record(name, program, *options):
    path = os.path.join(work, name + ".data")
    code, _, err = spex("record", "--model", "full", "-c", "1024", "-o", path, *options, "--",
                        program)
    if code:
        check(f"record {name}", False, err)
        done()
    return path


def report(path, *options):
    return json.loads(spex("report", "--format", "json", "-i", path, *options)[1])


shutil.copy(os.path.join(EXAMPLES, "sort"), "sort")
path = record("plain", "./sort")
d = report(path)
check("a program is replayed with the numbers of its core",
      d["replay"]["core"] == "neoverse-n1" and d["replay"]["share"] > 0.95, d["replay"])
check("issue latencies fit, and so does the clock: good",
      d["replay"]["trust"] == "good" and d["replay"]["issue_misfit"] < 0.1 and
      0.95 < d["replay"]["clock_ghz"] < 1.05, d["replay"])
text = spex("report", "-i", path)[1].decode()
check("the header says so", "replaying the code on neoverse-n1; fit: good" in
      text and "GHz" in text, text)
check("no row is marked", "~" not in text, text)
for threads in ("2", "4"):
    for command in ("report", "annotate", "mem"):
        one, more = (spex(command, "-i", path, "--threads", n)[1] for n in ("1", threads))
        equal(f"{command}: the same with {threads} threads", more, one)
merged = spex("script", "-i", path, "-F", "time,pc")[1]
check("script has each record once", len(merged.splitlines()) == d["totals"]["records"])

without = report(path, "--no-replay")
check("--no-replay: none", without["replay"]["trust"] == "none" and
      without["replay"]["share"] == 0, without["replay"])
check("and other shares", without["rows"][0]["time"] != d["rows"][0]["time"])
check("the header says that latencies tell",
      b"time is shared by latencies alone" in spex("report", "-i", path, "--no-replay")[1])

few = report(record("few", "./sort", "-c", "524288"))
check("a few samples: none", few["replay"]["share"] == 0 and few["totals"]["samples"] < 64,
      (few["replay"], few["totals"]))
some = report(record("some", "./sort", "-c", "32768"))["rows"]
check("a thirty-second of the samples: the same function first",
      some[0]["symbol"] == d["rows"][0]["symbol"], some[:2])
filtered = report(record("filtered", "./sort", "-e", "arm_spe/ts_enable=1,load_filter=1/"))
check("filters of the PMU: none", filtered["replay"]["share"] == 0, filtered["replay"])
other = report(record("unknown", "./sort", "--cpu", "neoverse-n1,midr=0x41000000"))
check("a CPU that is not known: a middling core, and never good",
      other["replay"]["core"] is None and other["replay"]["trust"] in ("fair", "poor"),
      other["replay"])

LIBRARIES = "/usr/aarch64-linux-gnu"
dynamic = None
if os.path.isdir(LIBRARIES + "/lib"):
    dynamic = report(record("dynamic", os.path.join(EXAMPLES, "sort.dyn"), "-L", LIBRARIES))
if dynamic:
    check("a dynamically linked program", dynamic["replay"]["share"] > 0.9, dynamic["replay"])

with open("sort", "r+b") as f:  # another build
    data = bytearray(f.read())
    at = data.find(b"GNU\0") + 4
    data[at] ^= 0xff
    f.seek(0)
    f.write(data)
changed = report(path)
check("code that changed on disk is not replayed", changed["replay"]["share"] < 0.05,
      changed["replay"])
os.unlink("sort")
gone = report(path)
check("nor is code that is gone", gone["replay"]["share"] < 0.05, gone["replay"])
check("and time is still shared", abs(sum(r["time"] for r in gone["rows"]) - 1) < 0.01)
done()
