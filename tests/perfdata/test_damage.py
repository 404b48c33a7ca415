"""Damaged files: a message with the offset, everything readable still read, no crash, no hang."""
import os
import re
import resource
import struct
import subprocess
import sys
import tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *
import pd

TOOL = os.path.join(BUILD, "tests/perfdata/perfdata-tool")
tmp = tempfile.TemporaryDirectory()
PATH = os.path.join(tmp.name, "d.data")


def tool(what, data=None):
    if data is not None:
        with open(PATH, "wb") as f:
            f.write(data)
    p = subprocess.run([TOOL, what, PATH], capture_output=True, timeout=60)
    return p.returncode, p.stdout.decode(errors="replace").splitlines()


def good(big=False, pipe=False, **kw):
    """Three chunks of two records each, events between them. Marks: where each thing is."""
    f = pd.File(big=big, pipe=pipe, **kw)
    f.comm(100, 100, "prog", 1).mmap2(100, 100, 0x400000, 0x10000, "/bin/prog", time=2)
    for i in range(3):
        payload = b"".join(pd.record(0x400000 + 0x100 * i + 4 * j, ctx=100, ts=1000 + 10 * i + j)
                           for j in range(2))
        f.trace(payload, len(payload) * i, pid=100, tid=100, time=5 + i)
        f.fork(100, 101 + i, 100, 100, 20 + i)
        f.comm(100, 101 + i, f"thread{i}", 30 + i)
    return f


DATA = good()
BYTES = DATA.bytes()
START = struct.unpack_from("<Q", BYTES, 40)[0]  # of the data
PCS = [0x400000 + 0x100 * i + 4 * j for i in range(3) for j in range(2)]


def offsets(kind):
    """File offsets of the records of a kind in the good file."""
    at, found = START, []
    while at < START + len(DATA.data):
        k, misc, size = struct.unpack_from("<IHH", BYTES, at)
        if k == kind:
            found.append(at)
        at += size + (struct.unpack_from("<Q", BYTES, at + 8)[0] if k == 71 else 0)
    return found


AUXTRACE = offsets(71)
FORK = offsets(7)
COMM = offsets(3)


def patched(*changes):
    b = bytearray(BYTES)
    for at, new in changes:
        b[at:at + len(new)] = new
    return bytes(b)


def u16(v):
    return struct.pack("<H", v)


def u32(v):
    return struct.pack("<I", v)


def u64(v):
    return struct.pack("<Q", v & (1 << 64) - 1)


def case(title, data, message, offset=None, pcs=PCS, comms=None, damage=0):
    """message: a problem that must be told; pcs: the records that must be read."""
    code, lines = tool("records", data)
    got = [int(m[1], 16) for x in lines if (m := re.search(r"pc=(0x[0-9a-f]+)", x))]
    told = [x for x in lines if x.startswith("problem")]
    hit = [x for x in told if re.search(message, x)] if message else [1]
    at = [x for x in hit if offset is None or f"offset={offset:#x} " in x]
    lost = [p for p in pcs if p not in got]
    extra = sum(x.startswith("damage") for x in lines)
    check(title, code == 0 and hit and at and not lost and extra <= damage,
          f"exit {code} lost {[hex(p) for p in lost]} damage {extra}\n" + "\n".join(told))
    if comms:
        code, lines = tool("events")
        names = [m[1] for x in lines if (m := re.search(r" COMM .* name=(\S+)", x))]
        check(title + ": names", all(c in names for c in comms), names)


code, lines = tool("records", BYTES)
check("undamaged: nothing to tell",
      code == 0 and not [x for x in lines if x.startswith(("problem", "damage"))], lines)

# ---- records ----

case("a record of size 0", patched((FORK[1] + 6, u16(0))), "no record here", FORK[1],
     comms=["thread0", "thread1", "thread2"])
case("a record of size 4", patched((FORK[1] + 6, u16(4))), "no record here", FORK[1],
     comms=["thread0", "thread1", "thread2"])
case("a size that reaches into the next record", patched((FORK[1] + 6, u16(72))), "no record here",
     comms=["thread0", "thread2"])
case("a size that is too small", patched((FORK[1] + 6, u16(24))), "too short|no record",
     comms=["thread0", "thread1", "thread2"])
case("an absurd type", patched((FORK[1], u32(0x41414141))), "no record here", FORK[1],
     comms=["thread0", "thread1", "thread2"])
case("an unknown type is skipped by its size", patched((FORK[1], u32(99))),
     "unknown type 99, skipped", FORK[1], comms=["thread0", "thread1", "thread2"])
case("type 0", patched((FORK[1], u32(0))), "no record here", FORK[1], comms=["thread1", "thread2"])
case("64 bytes of nonsense", patched((FORK[1], b"\xa5" * 64)), "no record here", FORK[1],
     comms=["thread0", "thread1", "thread2"])
case("zeros where records were", patched((FORK[1], b"\0" * 64)), "no record here", FORK[1],
     comms=["thread0", "thread2"])
case("a COMM without its end", patched((COMM[1] + 16, b"A" * 8)), None, comms=["prog"])

# ---- AUXTRACE ----

for title, size in (("far beyond the file", 1 << 62), ("of all ones", (1 << 64) - 1),
                    ("a little beyond the file", len(BYTES))):
    case(f"AUXTRACE size {title}", patched((AUXTRACE[1] + 8, u64(size))),
         "AUXTRACE record of 0x[0-9a-f]+ bytes", AUXTRACE[1],
         comms=["thread0", "thread2"], damage=1)
    f = good(index=False)
    b = bytearray(f.bytes())
    start = struct.unpack_from("<Q", b, 40)[0]
    b[AUXTRACE[1] + 8:AUXTRACE[1] + 16] = u64(size)
    case(f"AUXTRACE size {title}, no index", bytes(b), "only 0x", AUXTRACE[1],
         comms=["thread0", "thread2"], damage=1)
case("AUXTRACE size too large, inside the file", patched((AUXTRACE[1] + 8, u64(0x80 + 400))),
     "reaches over the next one", AUXTRACE[1], comms=["thread0", "thread1", "thread2"])
case("AUXTRACE size 0", patched((AUXTRACE[1] + 8, u64(0))), "no record here", pcs=PCS[:2] + PCS[4:],
     comms=["thread2"])
case("AUXTRACE offset absurd", patched((AUXTRACE[1] + 16, u64(-100))), None)
case("AUXTRACE offsets that overlap", patched((AUXTRACE[1] + 16, u64(16))), "overlaps earlier",
     damage=1)
case("AUX record absurd", patched((offsets(11)[1] + 8, u64(-1) + u64(-1) + u64(-1))), None)

# ---- index ----

index = BYTES.index(u64(3) + u64(AUXTRACE[0]))
case("an index that points nowhere", patched((index + 8 + 16, u64(AUXTRACE[1] + 8))),
     "index points here", AUXTRACE[1] + 8)
case("an index outside the file", patched((index + 8 + 16, u64(1 << 60))),
     "index points here|index lists", None)
case("an index with too few entries", patched((index, u64(2))),
     "index lists 2 records, the data has 3")
case("an index with too many entries", patched((index, u64(1 << 40))),
     "feature section 18 is cut short")

# ---- header, attributes, features ----

case("the data size is 0", patched((48, u64(0))), "not ended properly", 48)
case("the data size is too large", patched((48, u64(1 << 50))), "the file is cut")
case("the data size is too small", patched((48, u64(0x100)), (72, bytes(32))), "not ended properly")
case("the data offset is outside", patched((40, u64(1 << 40))), "the data begins at")
case("attributes outside", patched((24, u64(1 << 40))), "attributes .* outside")
case("attribute size 0", patched((16, u64(0))), "attributes of 0 bytes")
case("attribute size absurd", patched((16, u64(1 << 33))), "attributes of")
case("ids outside", patched((104 + 16 + 128, u64(1 << 40))), "ids of an event")
table = START + len(DATA.data)
case("a feature section outside", patched((table, u64(1 << 40))), "feature section 3 lies outside",
     table)
case("a feature section of absurd size", patched((table + 8, u64(1 << 62))),
     "feature section 3 lies outside")
case("a string longer than its section", patched((BYTES.index(b"host\0") - 4, u32(0xffffffff))),
     "feature section 3 is cut short")
case("features where none are", BYTES[:table], "feature sections is missing", table)
case("unknown features are skipped", patched((72 + 16, b"\xff")), None)
info = offsets(70)[0]
case("AUXTRACE_INFO of another trace", patched((info + 8, u32(1))), "not Arm SPE", info, [])
v2 = bytearray(good(metadata=2).bytes())
at = v2.index(u64(2) + u64(4))
for title, change in (("header words", (8, u64(99))), ("number of CPUs", (24, u64(1 << 60))),
                      ("no CPUs", (24, u64(0))),
                      ("magic", (32, u64(7))), ("version", (0, u64(3)))):
    b = bytearray(v2)
    b[at + change[0]:at + change[0] + 8] = change[1]
    case(f"metadata 2, wrong {title}", bytes(b), "SPE metadata")
conv = offsets(79)[0]
case("TIME_CONV without multiplier", patched((conv + 16, u64(0))), None)
case("TIME_CONV with an absurd shift", patched((conv + 8, u64(1 << 40))), None)

# ---- compressed ----

c = good(compress=1)
b = bytearray(c.bytes())
first = b.index(b"\x51\0\0\0\0\0")
b[first + 8] ^= 0xff  # of the magic number
case("compressed data damaged", bytes(b), "does not decompress", first)
bomb = pd.File(compress=1)
bomb.features[27] = bomb.p("IIIII", 1, 1, 3, 3, 4096)
bomb.plain = b"\0\0\0\0\0\0\x08\0" * (8 << 20)
cpu = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
before = cpu()
bomb.trace(pd.record(0x400000, ts=5))
case("a compressed record that grows beyond bounds", bomb.bytes(), "grows beyond all bounds",
     pcs=[0x400000])
check("and it is bounded in time", cpu() - before < 20, cpu() - before)

# ---- cut at every length; each byte changed ----

bad = []
for size in range(0, len(BYTES), 31):
    code, lines = tool("records", BYTES[:size])
    got = [int(m[1], 16) for x in lines if (m := re.search(r"pc=(0x[0-9a-f]+)", x))]
    whole = [p for i, p in enumerate(PCS) if AUXTRACE[i // 2] + 48 + 64 * (i % 2 + 1) <= size]
    if (code not in (0, 1) or [p for p in whole if p not in got] or
        not any(x.startswith(("problem", "error")) for x in lines)):
        bad.append((size, code, lines[-2:]))
check("cut at any length: told, and all before it is read", not bad, bad[:3])
for big, pipe in ((False, False), (True, False), (False, True)):
    base = good(big, pipe).bytes()
    bad = []
    for at in range(8, len(base), 23):
        b = bytearray(base)
        b[at] ^= 0x81
        code, lines = tool("records", bytes(b))
        if code not in (0, 1):
            bad.append((at, code))
    check(f"any byte changed, {'big' if big else 'little'}-endian "
          f"{'pipe' if pipe else 'file'}: no crash",
          not bad, bad[:5])
for title, data in (("empty", b""), ("no perf.data", b"hello, world, this is text"),
                    ("magic only", b"PERFILE2"),
                    ("half a header", BYTES[:60])):
    code, lines = tool("info", data)
    check(f"{title}: refused with a reason", code == 1 and len(lines) == 1 and PATH in lines[0],
          lines)
code, lines = tool("info", BYTES[:16].replace(u64(104), u64(16)))
check("a pipe without records", code == 0, lines)
p = subprocess.run([TOOL, "info", os.path.join(tmp.name, "missing")], capture_output=True,
                   text=True)
check("a missing file",
      p.returncode == 1 and "cannot read" in p.stdout and "No such file" in p.stdout, p.stdout)
p = subprocess.run([TOOL, "info", tmp.name], capture_output=True, text=True)
check("a directory", p.returncode == 1 and "directory" in p.stdout, p.stdout)
os.mkdir(os.path.join(tmp.name, "dir"))
open(os.path.join(tmp.name, "dir", "data"), "wb").write(BYTES)
p = subprocess.run([TOOL, "info", os.path.join(tmp.name, "dir")], capture_output=True, text=True)
check("a recording in a directory (perf record --kcore)",
      p.returncode == 0 and "aux_bytes=384" in p.stdout, p.stdout)

# ---- many of everything: time and memory stay in proportion ----

def measure(title, data, limit=10):
    with open(PATH, "wb") as f:
        f.write(data)
    start = os.times().children_user  # not the clock: this machine may have more to do
    p = subprocess.run([TOOL, "records", PATH], capture_output=True, timeout=600)
    seconds = os.times().children_user - start
    check(f"{title}: {len(data) >> 20} MB in {limit} s", p.returncode == 0 and seconds < limit,
          f"{seconds} {p.returncode}")


f = pd.File()
f.data += (f.header(71, 48) + f.p("QQQIiiI", 8, 0, 1, 0, -1, 0, 0) + b"\0" * 8) * 60000
measure("tiny chunks", f.bytes())
f = pd.File()
f.data += b"".join(f.header(71, 48) + f.p("QQQIiiI", 8, 0, 1, i, i, i, 0) + b"\0" * 8
                   for i in range(30000))
measure("many queues", f.bytes())
f = pd.File()
for i in range(3000):
    f.mmap2(100, 100, 0x1000 * i, 0x10000000, f"/lib/{i}", time=i)
f.comm(100, 100, "p").trace(pd.record(0x400000, ctx=100, ts=5) * 2000)
measure("maps over maps", f.bytes())
f = pd.File()
for i in range(1, 20000):
    f.fork(i + 1, i + 1, i, i, i)
f.trace(pd.record(0x400000, ctx=20000, ts=50000) * 2000)
measure("a long line of children", f.bytes())
f = pd.File()
f.data += b"\xff" * (4 << 20)
measure("nonsense", f.bytes())
f = pd.File()
f.data += (f.header(71, 48) + f.p("QQQIiiI", 1 << 50, 0, 1, 0, -1, 0, 0)) * 80000
measure("sizes that all lie", f.bytes())
done()
