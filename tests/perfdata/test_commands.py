"""Commands on perf.data files: spex dump as perf prints it, and chunks cut anywhere
read as if they were not."""
import os
import re
import struct
import sys
import tarfile
import tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *
import pd

tmp = tempfile.TemporaryDirectory()
PATH = os.path.join(tmp.name, "c.data")


def put(f):
    with open(PATH, "wb") as out:
        out.write(f.bytes() if isinstance(f, pd.File) else f)


def perf_packets(stdin=None):
    """What perf report -D prints from each AUXTRACE line to the next empty line."""
    _, out, _ = pd.perf("report", "-D", "-i", "-" if stdin else PATH, stdin=stdin)
    lines, inside = [], False
    for line in out.splitlines():
        if "PERF_RECORD_AUXTRACE size" in line:
            inside = True
        elif not line:
            inside = False
        if inside:
            lines.append(line)
    return lines


RECORDS = [pd.record(0x400000 + 4 * i, ctx=100, va=0x7fff0000 + 8 * i, pa=64 * i, source=8,
                     ts=1000 + i) for i in range(6)]
WHOLE = b"".join(RECORDS)


def some(**kw):
    f = pd.File(**kw)
    f.comm(100, 100, "prog").mmap2(100, 100, 0x400000, 0x1000, "/bin/prog")
    for i in range(3):
        f.trace(WHOLE[:128], 128 * i, cpu=i % f.cpus, pid=100, tid=100, time=1)
    # padding, a packet cut at the end
    f.trace(bytes(40) + RECORDS[0][:24], 4096, cpu=0, pid=100, tid=100, time=1)
    return f


for title, kw in (("little-endian", {}), ("big-endian", dict(big=True)), ("two CPUs", dict(cpus=2)),
                  ("per thread", dict(per_thread=True)),
                  ("metadata 2", dict(metadata=2)), ("without times", dict(timed=False)),
                  ("compressed", dict(compress=1))):
    put(some(**kw))
    code, out, err = spex("dump", "--style", "perf", PATH)
    got = [x for x in out.decode().splitlines() if x]
    want = perf_packets()
    check(f"dump --style perf: {title}", got == want and len(want) > 40 and code == 1,
          "\n".join(f"{a}\n{b}" for a, b in zip(got, want) if a != b) +
          f"\n{len(got)} {len(want)} {err}")
import json
# Longer than a 32-bit program can address by a few bytes: a size that is cut to
# 32 bits maps those alone.
put(some())
with open(PATH, "r+b") as big:
    plain = spex("script", PATH)
    big.truncate((1 << 32) + 16)
with open(SPEX + ".real" if os.path.exists(SPEX + ".real") else SPEX, "rb") as program:
    wide = program.read(5) == b"\x7fELF\2"
code, out, err = spex("script", PATH)
check("a file of more than 4 GB", (code, out) == plain[:2] and len(out) > 100 if wide
      else code in (1, 2) and "64-bit" in err, err)
put(some(cpus=2))
code, out, err = spex("dump", "--format", "json", PATH)
cpus = [json.loads(x)["cpu"] for x in out.splitlines()]
check("dump --format json: the same packets on two CPUs",
      cpus == sorted(cpus) and set(cpus) == {0, 1}, cpus)
f = some(pipe=True)
code, out, err = spex("dump", "--style", "perf", "-", stdin=f.bytes())
# perf counts the offset of a pipe's record without the file header
strip = lambda lines: [x.split("]: ", 1)[-1] for x in lines]
equal("dump --style perf: pipe", strip([x for x in out.decode().splitlines() if x]),
      strip(perf_packets(f.bytes())))


def split(size, **kw):
    f = pd.File(cpus=2, **kw)
    f.comm(100, 100, "prog").mmap2(100, 100, 0x400000, 0x1000, "/bin/prog")
    for cpu in (0, 1):
        for i in range(0, len(WHOLE), size):
            last = i + size >= len(WHOLE)  # its filling would be padding like any other
            f.trace(WHOLE[i:i + size], i, cpu=cpu, pid=100, tid=100, time=1, fill=not last)
    return f


put(split(len(WHOLE)))
commands = (("dump",), ("dump", "--format", "json"), ("script", "-i"), ("verify",))
want = {c: spex(*c, PATH) for c in commands}
for c in commands:
    check(f"{' '.join(c)}: whole", want[c][0] == 0 and want[c][1 if c[0] != "verify" else 2],
          want[c])
bad = []
for size in (1, 2, 3, 5, 7, 8, 9, 13, 31, 50, 55, 56, 63, 64, 65, 100):
    put(split(size))
    for c in commands:
        if spex(*c, PATH) != want[c]:
            bad.append((size, c, spex(*c, PATH)[2][-200:]))
check("dump, script, verify: chunks of any size are as one", not bad, bad[:3])

# Lost data is not bridged: packets before and after it stay
f = pd.File()
f.trace(WHOLE[:70], 0, flags=1).trace(RECORDS[1], 70)
put(f)
code, out, err = spex("dump", PATH)
text = out.decode()
check("dump: a gap is shown and not bridged",
      code == 1 and "# cpu 0\n" in text and "# cpu 0: data was lost before this" in text and
      text.count("timestamp") == 2 and "truncated" in text and "byte 64" in err, text + err)
# A long run of padding, longer than is ever kept
f = pd.File()
f.trace(RECORDS[0] + bytes(100000) + RECORDS[1],
        0).trace(bytes(60000) + RECORDS[2] + bytes(3), 100128).trace(RECORDS[3], 160195)
put(f)
code, out, err = spex("dump", PATH)
lines = out.decode().splitlines()
padding = sum(int(x.rsplit(" x ", 1)[1]) if " x " in x else 1 for x in lines if "padding" in x)
check("dump: long padding", code == 0 and sum("timestamp" in x for x in lines) == 4 and
      padding == 160003 + 4 * sum(1 for b in RECORDS[0][48:55] if not b) and not err,
      f"{padding} {err}")
# A CPU without a table of data sources is named once; its levels come from the events
for midr, text in ((0x481fd010, "Kunpeng 920 (MIDR 0x481fd010)"),
                   (0x99000010, "unlisted CPU (MIDR 0x99000010)"), (pd.N1, "")):
    put(some(midr=midr, cpus=2))
    code, out, err = spex("report", "-i", PATH)
    check(f"report: {text or 'a listed CPU'}",
          err.count("no table of data sources") == bool(text) and text in err, err)
# Messages of damage carry the file's name and the byte
put(split(64).bytes()[:-700])
code, out, err = spex("dump", PATH)
check("dump: damage is told with its place",
      code == 1 and PATH in err and "byte " in err and b"pc 0x400000" in out, err)
# ... the byte in the file where the damaged record begins, also if a chunk ends inside it
# the data virtual address twice
BAD = RECORDS[2][:25] + b"\xb2" + bytes(range(1, 9)) + RECORDS[2][25:]
wrong = []
for cut in range(1, len(BAD)):
    f = pd.File()
    head = WHOLE[:128] + BAD[:cut]
    f.trace(head, 0, fill=False).trace(BAD[cut:] + RECORDS[3], len(head), fill=False)
    put(f)
    code, out, err = spex("report", PATH)
    if code != 1 or f"byte {f.bytes().index(head) + 128}: a packet comes twice" not in err:
        wrong.append((cut, err))
check("report: the byte of a damaged record that two chunks share", not wrong, wrong[:3])
# A profile without SPE data is an error that says what it holds, in every format
f = pd.File()
f.comm(100, 100, "prog")
put(f)
for c in (("report",), ("report", "--format", "json"), ("mem",), ("script",)):
    code, out, err = spex(*c, "-i", PATH)
    check(f"{' '.join(c)}: no SPE data",
          code == 1 and "holds no SPE data, but 0 samples of" in err and "-e arm_spe//" in err, err)
# ... one that is cut before its data: that there is none left
put(f.bytes()[:200])
code, out, err = spex("report", PATH)
check("report: a file cut before its data",
      code == 1 and "no SPE data is left" in err and "0 samples" not in err, err)
# Misses and mispredicts of what cannot have them: no ratio above all of it
put(b"".join(pd.record(0x400000, op=(t % 8 == 0, 0), events=0xff, ts=t) for t in range(40)))
code, out, err = spex("report", "--raw", "-F", "+mispredict,l1_miss,tlb_walk", PATH)
check("report: records that contradict themselves have no ratio",
      code == 0 and b"40 samples" in out and
      all(float(p) <= 100 for p in re.findall(rb"([\d.]+)%", out)), out)
# An archive: the file of perf's directory; no name that leads elsewhere
with tempfile.TemporaryDirectory() as place:
    program = os.path.join(place, "bin", "prog")
    for d in ("bin", "perf.data"):
        os.mkdir(os.path.join(place, d))
    with open(program, "wb") as out:  # any file of ELF, without a build id
        out.write(struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 183, 1, 0x400000, 64, 0, 0,
                              64, 56, 1, 64, 0, 0) +
                  struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, 120, 120, 0x1000))
    for name, path in (("as it is", program), ("by a detour", f"{place}/bin/../bin/prog")):
        f = pd.File()
        f.comm(100, 100, "prog").mmap2(100, 100, 0x400000, 0x1000, path)
        f.trace(WHOLE, 0, pid=100, tid=100, time=1)
        with open(os.path.join(place, "perf.data", "data"), "wb") as out:
            out.write(f.bytes())
        code, out, err = spex("archive", "perf.data", "-o", "a.tar", cwd=place)
        with tarfile.open(os.path.join(place, "a.tar")) as tar:
            names = tar.getnames()
        equal(f"archive: a program {name}", (code, names),
              (0, ["perf.data"] + [".debug/root" + program] * (path == program)))
# A bare stream without --raw is recognized
put(WHOLE)
code, out, err = spex("report", PATH)
check("report: a bare stream is recognized", code == 1 and "read it with --raw" in err, err)
put(b"PERF" + WHOLE)
code, out, err = spex("report", PATH)
check("report: anything else is not", code == 1 and "--raw" not in err, err)
# One of something is singular
put(RECORDS[0])
code, out, err = spex("report", "--raw", PATH)
check("report: 1 sample", b": 1 sample\n" in out or b": 1 sample," in out, out)
check("report: and has no time for want of a second, not of timestamps",
      b"no time lies between the records" in out and b"ts_enable" not in out, out)
code, out, err = spex("mem", "--raw", PATH)
check("mem: 1 memory sample", b" 1 memory sample:" in out, out)
# What few samples show is no advice: remote accesses that walk the page tables
FAR = [pd.record(0x400000, va=0x7fff0000 + 64 * i, events=0x432, source=8, ts=1000 + i)
       for i in range(10)]
for count in (9, 10):
    put(b"".join(FAR[:count]))
    code, out, err = spex("report", "--raw", "--format", "json", PATH)
    equal(f"report: {count} samples", {f["kind"] for f in json.loads(out)["findings"]},
          {"remote-data", "table-walks"} if count == 10 else set())
done()
