"""AUX data that is not SPE's is named and left out by every command, though it may look like SPE;
SPE beside it is read. Files without any, of other kinds and of old perfs, have as many samples as
perf finds."""
import lzma
import os
import re
import struct
import subprocess
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

# ---- files without SPE, of other kinds and old perfs: as many samples as perf finds ----
TOOL = os.path.join(BUILD, "tests/perfdata/perfdata-tool")
PERF7 = os.path.join(BUILD.removesuffix("-asan"), "perf7/perf")
LBR_ID, TRACE_ID = 500, 600


class Other(pd.File):
    """What perf record writes of cpu-clock, or of branch stacks, with no SPE beside it."""

    def __init__(self, branches=False, trace=None, **kw):
        super().__init__(metadata=0, clock=True, time_conv=None, **kw)
        self.attrs = self.attrs[1:] if kw.get("idents", True) else self.attrs[2:]
        self.foreign = trace is not None
        if trace:  # the type of its PMU, and what its AUXTRACE_INFO holds
            self.attrs.append(dict(type=trace[0], config=0, period=1, name="trace", id=TRACE_ID,
                                   sample=self.type | pd.IP, flags=0x3 | 1 << 18))
        if branches:
            self.attrs.append(dict(type=0, config=0, period=4000, name="cycles:u", id=LBR_ID,
                                   sample=self.type | pd.IP | pd.PERIOD | pd.BRANCH,
                                   flags=0x3 | 1 << 18, branch=1 << 3 | 1))
        self.features[12] = (self.p("II", len(self.attrs), self.attr_size) +
                             b"".join(self.attr(a) + self.p("I", 1) + self.string(a["name"]) +
                                      self.p("Q", a["id"]) for a in self.attrs))
        self.comm(100, 100, "prog").mmap(100, 100, 0x400000, 0x1000, "/bin/prog")
        if trace:
            self.raw(70, self.p("II", trace[1], 0) + self.p(f"{len(trace[2])}Q", *trace[2]))

    def clocks(self, count):
        for i in range(count):
            self.clock(100, 100, 0x400000 + 4 * i, 1000 + i)
        return self

    def stacks(self, count):
        """Samples with the last branches, one more in each."""
        for i in range(count):
            b = self.p("QQiiQIIQQ", LBR_ID, 0x400000 + 4 * i, 100, 100, 1000 + i, 0, 0, 4000, i)
            b += b"".join(self.p("QQQ", 0x400000 + k, 0x400100 + k, 1 << (k & 1)) for k in range(i))
            self.data += self.header(9, 8 + len(b), 2) + b
        return self


def first_format(data):
    """With the magic of perf before 3.4."""
    return b"PERFFILE" + data[8:]


OLD = dict(sample_id_all=False, idents=False)
AUX = bytes(range(1, 65)) * 8
OTHERS = [(f"attributes of {size} bytes{of}", Other(attr_size=size, **kw, **OLD).clocks(9), 9)
          for size in (64, 72, 80, 96) for of, kw in (("", {}), (", big-endian", dict(big=True)))]
OTHERS += [
    ("perf 3.0's format", Other(attr_size=64, **OLD).clocks(7), 7),
    ("branch stacks (LBR)", Other(branches=True).clocks(2).stacks(12), 14),
    ("a pipe", Other(pipe=True).clocks(8), 8),
    ("compressed", Other(compress=True).clocks(300), 300),
    ("Intel BTS", Other(trace=(7, 2, [7, 0, 0, 0, 0, 0])).clocks(3).auxtrace(AUX, 0).clocks(2), 5),
    # one CPU with an ETMv4: magic, CPU, how many values, the values
    ("CoreSight ETM", Other(trace=(8, 3, [1, 8 << 32 | 1, 0, 0x4040404040404040, 0, 7, 0, 0x10,
                                          0x28000ea1, 0x4100f403, 0x488, 0, 0xcc]))
     .clocks(4).auxtrace(AUX, 0).clocks(2), 6),
]
for title, f, count in OTHERS:
    put(first_format(f.bytes()) if "3.0" in title else f.bytes())
    code, out, err = run(TOOL, "events", PATH)
    equal(f"{title}: samples", (code, len(re.findall(rb"^\S+ SAMPLE ", out, re.M)),
                                len(re.findall(rb"^problem", out, re.M))),
          (0, count, int(f.foreign)))
    # perf 7.2 falls over the ETM data, which is none
    for name in ["perf"] + [PERF7] * (os.path.exists(PERF7) and "ETM" not in title):
        r = subprocess.run([name, "report", "-D", "-i", PATH], capture_output=True,
                           stdin=subprocess.DEVNULL)
        theirs = len(re.findall(rb"PERF_RECORD_SAMPLE", r.stdout))
        equal(f"{title}: {'perf 6.1' if name == 'perf' else 'perf 7'} finds as many", theirs, count)
    code, out, err = spex("report", PATH)
    check(f"{title}: report says that there is no SPE", code == 1 and "no SPE data" in err, err)
done()
