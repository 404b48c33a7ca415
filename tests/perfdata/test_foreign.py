"""AUX data that is not SPE's is named and left out by every command, though it may look like SPE;
SPE beside it is read."""
import lzma
import os
import sys
import tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *
import pd

tmp = tempfile.TemporaryDirectory()
PATH = os.path.join(tmp.name, "f.data")
OUT = os.path.join(tmp.name, "out")
RECORDS = b"".join(pd.record(0x400000 + 4 * i, ctx=100, va=0x7fff0000 + 8 * i, source=8,
                             ts=1000 + i) for i in range(6))
NAMES = {1: "Intel PT", 2: "Intel BTS", 3: "Arm CoreSight ETM", 5: "s390", 6: "HiSilicon PTT",
         99: "of no known kind"}
COMMANDS = [["report"], ["script"], ["dump"], ["verify"], ["mem"], ["c2c"], ["branch"],
            ["annotate", "-i", PATH], ["html", "-o", OUT], ["diff", PATH, PATH],
            *(["export", "--to", to, "-o", OUT] for to in ("collapsed", "speedscope",
              "firefox", "pprof", "callgrind", "bolt", "brstack", "profgen", "llvm", "autofdo",
              "parquet"))]


def put(data):
    with open(PATH, "wb") as f:
        f.write(data)


def without_samples(out):
    """Nothing of the records that the bytes look like."""
    return b"400000" not in out and b"0x7fff" not in out and b"\n0000" not in out


def refused(title, name):
    for words in COMMANDS:
        given = [] if PATH in words else [PATH]
        code, out, err = spex(words[0], *given, *words[1:])
        check(f"{title}: {' '.join(words[:3])} names it and refuses", code == 1 and name in err and
              "not Arm SPE" in err and "no SPE data" in err and without_samples(out),
              (code, out[:300], err))


vector = os.path.join(os.path.dirname(__file__), "..", "vectors", "intel_pt-4.14.perf.data.xz")
put(lzma.open(vector).read())
refused("a file of perf 4.14 with Intel PT", "Intel PT")
for kind, name in NAMES.items():
    f = pd.File(metadata=0)
    f.comm(100, 100, "prog").raw(70, f.p("IIQQ", kind, 0, 77, 1))
    f.auxtrace(RECORDS, 0)
    put(f.bytes())
    code, out, err = spex("script", PATH)
    check(f"type {kind}: {name}", code == 1 and name in err and without_samples(out), (out, err))


def samples():
    code, out, err = spex("script", PATH)
    return code, len(out.splitlines()), err


for title, kw in (("file", {}), ("pipe", dict(pipe=True)), ("big-endian", dict(big=True)),
                  ("per thread", dict(per_thread=True))):
    # both kinds are described first: the events of AUX records say whose a chunk is
    f = pd.File(cpus=2, clock=True, **kw)
    f.comm(100, 100, "prog").raw(70, f.p("IIQQ", 1, 0, 77, 1))
    f.trace(RECORDS[:128], 0, cpu=0, pid=100, tid=100, time=1)
    f.event(11, f.p("QQQ", 0, 384, 0), 0, 100, 101, 1, 1, pd.CLOCK_ID)
    f.auxtrace(RECORDS, 0, cpu=1, tid=101 if kw.get("per_thread") else -1)
    put(f.bytes())
    code, count, err = samples()
    check(f"{title}: SPE of one CPU beside PT of another", code == 1 and count == 2 and
          "384 bytes of it are left out" in err, (code, count, err))
    # one after the other, as in files that were joined: the last description counts
    f = pd.File(cpus=2, **kw)
    f.comm(100, 100, "prog").auxtrace(RECORDS[:128], 0, cpu=0)
    f.raw(70, f.p("IIQQ", 3, 0, 77, 1))
    f.auxtrace(RECORDS, 128, cpu=0)
    f.raw(70, f.p("IIQQ", 4, 0, pd.SPE_TYPE, 0 if kw.get("per_thread") else 1))
    f.auxtrace(RECORDS[:64], 512, cpu=0)
    put(f.bytes())
    code, count, err = samples()
    check(f"{title}: SPE before and after ETM", code == 1 and count == 3 and "CoreSight" in err,
          (code, count, err))
done()
