"""
Where a replay of the program is not possible, or not wanted, latencies alone tell whose time it is,
and the header says so; how many threads read the file makes no difference.
"""
import os
import shutil
import struct
import sys

sys.path.insert(0, os.path.dirname(__file__))
from profile import *

need("sort", "sort.dyn")
# How a program runs depends on where its stack begins, and that on the lengths of its path and of
# its environment: both are the same on all machines.
base = tempfile.mkdtemp(prefix="spex-replay-")
work = os.path.join(base, "x" * (200 - len(base)))
os.mkdir(work)
os.chdir(work)
PATH = os.environ["PATH"]
FIXED = ["env", "-i", f"PATH={PATH}", "LENGTH=" + "x" * (8000 - len(PATH)), SPEX]


def record(name, program, *options):
    path = os.path.join(work, name + ".data")
    code, _, err = run(*FIXED, "record", "--model", "full", "-c", "1024", "-o", path, *options,
                       "--", program)
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
      0.9 < d["replay"]["clock_ghz"] < 1.1, d["replay"])
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

# All commands have the time of one replay: what report says of each function.
mine = {r["symbol"]: r["time_ns"] for r in d["rows"]}


def same(name, times):
    """Nanoseconds by function, rounded once for each sample or row."""
    off = {k: (times.get(k), v) for k, v in mine.items() if abs(times.get(k, 0) - v) > 2 + v / 1000}
    check(f"{name}: report's time", not off and len(times) >= len(mine), off)


def sums(pairs):
    out = {}
    for key, time in pairs:
        out[key] = out.get(key, 0) + time
    return out


rows = [json.loads(line) for line in spex("script", "--format", "json", "-F",
                                          "symbol,estimated_time", "-i", path)[1].splitlines()]
same("script", sums((r["symbol"], r.get("estimated_time", 0) / 1000) for r in rows))
same("annotate", {s: json.loads(spex("annotate", "--format", "json", "-i", path, s)[1])["time_ns"]
                  for s in mine})
same("diff", {r["key"]: r["time_a_ns"] for r in json.loads(
    spex("diff", "--format", "json", "--percent-limit", "0", path, path)[1])["rows"]})
loads = json.loads(spex("mem", "--format", "json", "-i", path)[1])["totals"]["time_ns"]
equal("mem shares the same time", loads, d["totals"]["time_ns"])
out = spex("export", "--to", "collapsed", "--weight", "time", "-i", path)[1].decode()
lines = [line.rsplit(" ", 1) for line in out.splitlines()]
same("export", sums((stack.split(";")[2], int(time)) for stack, time in lines))

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


def without_timestamps(path):
    """A copy whose records have their last packet, the timestamp, replaced by the end."""
    data = bytearray(open(path, "rb").read())
    at, size = struct.unpack_from("<QQ", data, 40)  # of the section of records
    end, AUXTRACE, RECORD = at + size, 71, 64
    while at < end:
        kind, _, length = struct.unpack_from("<IHH", data, at)
        aux = struct.unpack_from("<Q", data, at + 8)[0] if kind == AUXTRACE else 0
        for chunk in range(at + length, at + length + aux, RECORD):
            if data[chunk + RECORD - 9] == 0x71:
                data[chunk + RECORD - 9:chunk + RECORD] = b"\1" + bytes(8)
        at += length + aux
    copy = path + ".untimed"
    open(copy, "wb").write(data)
    return copy


untimed = without_timestamps(path)
bare = report(untimed)
check("no timestamps: no time, and rows by samples", bare["totals"]["timed"] == 0 and
      bare["totals"]["samples"] == d["totals"]["samples"] and
      {r["symbol"]: r["samples"] for r in bare["rows"]} ==
      {r["symbol"]: r["samples"] for r in d["rows"]}, (bare["totals"], bare["rows"][:2]))
check("and the header says so", b"time is not known, since the records have no timestamps" in
      spex("report", "-i", untimed)[1])
other = report(record("unknown", "./sort", "--cpu", "neoverse-n1,midr=0x41000000"))
check("a CPU that is not known: the numbers that fit best, and never good",
      other["replay"]["chosen_by_fit"] and not other["replay"]["unfit_core"] and
      other["replay"]["trust"] in ("fair", "poor"), other["replay"])
check("the header says so", b"which fits best (this CPU is not known)" in
      spex("report", "-i", "unknown.data")[1])

LIBRARIES = "/usr/aarch64-linux-gnu"
dynamic = None
if os.path.isdir(LIBRARIES + "/lib"):
    dynamic = report(record("dynamic", os.path.join(EXAMPLES, "sort.dyn"), "-L", LIBRARIES))
if dynamic:
    check("a dynamically linked program", dynamic["replay"]["share"] > 0.9, dynamic["replay"])

# Two functions in turn against exact cycles, however they are reached: latencies alone are 4 to 34
# points off here.
CROSS = ["aarch64-linux-gnu-gcc", "-O2", "-Wall"]
HERE = os.path.dirname(os.path.abspath(__file__))
WAYS = os.path.join(HERE, "ways.c")
for words in (["-static", "-o", "ways", WAYS],
              ["-static", "-march=armv8.2-a+sve", "-o", "ways.sve", WAYS],
              ["-shared", "-fPIC", "-DLIBRARY", "-o", "libthere.so", WAYS],
              ["-DCALLER", "-o", "ways.dyn", WAYS, "-L.", "-lthere", "-Wl,-rpath," + work],
              ["-static", "-march=armv8.1-a", "-o", "rules", os.path.join(HERE, "rules.c")]):
    subprocess.run(CROSS + words, check=True)
SVE = ("--cpu", "neoverse-v1", "--qemu-cpu", "max,sve256=on,sme=off,pauth-impdef=on")
SLOW = ("--model", "full,dram.latency=6000,dram.queue=0")  # more than 12 bits can say
for name, argv, options, among, limit in (
        ("a tail call", ["./ways", "tail"], ["-c", "256"], None, 5),
        ("two threads", ["./ways", "threads"], ["-c", "256"], None, 5),
        ("a library, by the PLT", ["./ways.dyn", "library", "30000"],
         ["-c", "256", "-L", LIBRARIES], ["slow_there", "quick_there"], 5),
        ("SVE code", ["./ways.sve", "vectors"], ["-c", "256", *SVE], None, 5),
        ("saturated counters", ["./rules", "gather", "divchain", "12000"], ["-c", "256", *SLOW],
         ["gather", "divchain"], 8),
        ("a thirty-second of the samples", ["./rules", "sums", "mulchain", "90000"],
         ["-c", "8192"], None, 8)):
    if "-L" in options and not dynamic:
        continue
    code, _, err = run(*FIXED, "record", "--truth", "-o", "way.data", *options, "--", *argv)
    if not check(f"{name}: recorded", code == 0, err):
        continue
    d = report("way.data")
    check(f"{name}: replayed", d["replay"]["share"] > 0.9 and d["replay"]["trust"] == "good",
          d["replay"])
    off, first = apart("way.data", among=among)
    check(f"{name}: {off:.1f} points apart, less than {limit}", off < limit and first)
    if name == "saturated counters":
        check("and they were", d["totals"]["saturated"] > 500, d["totals"])

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
