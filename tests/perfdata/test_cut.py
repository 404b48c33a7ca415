"""Files that are cut: all records before the cut are read, whoever wrote the file, and what
spex recover makes of it has all that spex script reads."""
import concurrent.futures
import lzma
import os
import random
import re
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *
import pd

tmp = tempfile.TemporaryDirectory()
AUXTRACE, COMPRESSED, COMPRESSED2 = 71, 81, 83
CUTS = 500 if os.environ.get("SPEX_LONG") else 40  # of each file; make check-faults takes more
FIELDS = "offset,size,time,pc,op,events,va,pa,latency,source,pid,tid,comm,cpu,dso"


def at(name):
    return os.path.join(tmp.name, name)


def records_of(data):
    """(position, type, size, size of the data that follows) of each record."""
    start, size = struct.unpack_from("<QQ", data, 40)
    where = start
    while where < start + size:
        kind, misc, n = struct.unpack_from("<IHH", data, where)
        more = struct.unpack_from("<Q", data, where + 8)[0] if kind == AUXTRACE else 0
        yield where, kind, n, more
        where += n + more


def compressed(data, kind):
    """What perf record -z makes of the same recording: runs of the kernel's records in COMPRESSED
    records, all else as it is."""
    start, size = struct.unpack_from("<QQ", data, 40)
    runs, others = [b""], [b""]
    for where, t, n, more in records_of(data):
        if t < 64:
            if others[-1] or len(runs[-1]) > 4000:
                runs.append(b"")
                others.append(b"")
            runs[-1] += data[where:where + n]
        else:
            others[-1] += data[where:where + n + more]
    out = b""
    for piece, other in zip(pd.zstd_flushes(runs), others):
        fill = b"\0" * (-len(piece) % 8) if kind == COMPRESSED2 else b""
        head = struct.pack("<Q", len(piece)) if kind == COMPRESSED2 else b""
        if piece:
            out += struct.pack("<IHH", kind, 0, 8 + len(head + piece + fill)) + head + piece + fill
        out += other
    return data[:48] + struct.pack("<Q", len(out)) + data[56:72] + bytes(32) + data[104:start] + out


def killed(data, how):
    """As a writer leaves it that was killed: the header says no size, and no features."""
    return data[:48] + bytes(8) + data[56:72] + bytes(32) + data[104:] if how else data


def script(path):
    code, out, err = spex("script", "-i", path, "-F", FIELDS, "--format", "csv", "--threads", "1")
    return code, out.splitlines()[1:], err


def place(line):
    return tuple(int(x) for x in line.split(b",")[:2])


def check_cut(number, data, want, size, how):
    """What is wrong with this cut, or how many records were read of it."""
    path, made = at(f"{number}.cut"), at(f"{number}.whole")
    with open(path, "wb") as f:
        f.write(killed(data[:size], how))
    code, lines, err = script(path)
    again, said, wrong = spex("recover", path, "-o", made)
    got = [] if again else script(made)[1]
    os.unlink(path)
    if not again:
        os.unlink(made)
    want = {p for p in want if sum(p) <= size}
    read = {place(l) for l in lines}
    if code not in (0, 1) or again not in (0, 1) or want != read or sorted(got) != sorted(lines):
        return (f"{size} {how}: {len(want)} before the cut, {len(read)} read, {len(got)} after "
                f"recover ({again}), lost {sorted(want - read)[:3]} made up "
                f"{sorted(read - want)[:3]}", err, wrong,
                [x for x in zip(lines, got) if x[0] != x[1]][:1])
    return len(lines)


work = os.path.join(SOURCE, "tests/report/guest.data.xz")  # perf 6.1 in a guest of spex vm
PERF61 = lzma.decompress(open(work, "rb").read())


def perf7(compress):
    """As perf 7 writes: metadata of version 2, two CPUs, COMPRESSED2."""
    f = pd.File(cpus=2, metadata=2, compress=compress)
    rng = random.Random(7)
    f.comm(100, 100, "prog").mmap2(100, 100, 0x400000, 0x10000, "/bin/prog")
    at_cpu, now = [0, 0], 1000
    for i in range(40):
        payload = b"".join(pd.record(0x400000 + 4 * rng.randrange(4096), ctx=100, ts=now + j,
                                     va=rng.randrange(1 << 40), total=rng.randrange(4000),
                                     events=rng.choice((0x12, 0x16, 0x1e)))
                           for j in range(rng.randrange(20, 90)))
        now += 100
        f.trace(payload, at_cpu[i % 2], cpu=i % 2, pid=100, tid=100, time=now)
        at_cpu[i % 2] += len(payload)
        for k in range(8):
            f.comm(100, 101 + 8 * i + k, f"thread{i}.{k}", now)
    return f.bytes()


FILES = {"perf 6.1": PERF61, "perf 6.1 -z": compressed(PERF61, COMPRESSED),
         "perf 7": perf7(0), "perf 7 -z": perf7(2),
         "perf 6.1 with COMPRESSED2": compressed(PERF61, COMPRESSED2)}
mixed = at("mixed.data")
run(os.path.join(BUILD, "tests/analysis/make_profile"), "mixed", mixed,
    os.path.join(BUILD, "tests/analysis/prog"), "3000", "1")
FILES["spex"] = open(mixed, "rb").read()
for name, data in FILES.items():
    rng = random.Random(name)  # of Python's own, the same everywhere
    with open(at("whole"), "wb") as f:
        f.write(data)
    code, lines, err = script(at("whole"))
    want = {place(l) for l in lines}
    start, size = struct.unpack_from("<QQ", data, 40)
    sizes = [rng.randrange(start, len(data)) for _ in range(CUTS - 2)] + [len(data) - 8,
                                                                          start + size]
    jobs = [(size, how) for size in sizes for how in (False, True)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(
            lambda job: check_cut(f"{name} {job[0]}", data, want, *job[1]), enumerate(jobs)))
    bad = [r for r in results if not isinstance(r, int)]
    check(f"{name}, {len(want)} records, cut {len(jobs)} times: all before the cut are read, none "
          "is made up, and recover keeps them", len(want) > 500 and not bad,
          f"{len(bad)} bad\n" + "\n".join(map(str, bad[:5])))
done()
