"""Files of every shape through perf 6.1 and through the reader: same records, field by field.

What perf 6.1 itself gets wrong is named where it is stepped around ("perf defect")."""
import itertools
import os
import re
import sys
import tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *
import pd

TOOL = os.path.join(BUILD, "tests/perfdata/perfdata-tool")
tmp = tempfile.TemporaryDirectory()
PATH = os.path.join(tmp.name, "t.data")


def tool(what, path=PATH, *args, stdin=None):
    code, out, err = run(TOOL, what, path, *args, stdin=stdin)
    return out.decode(errors="replace").splitlines()


FIELD = re.compile(r"(\w+)=(\S+)")


def ours(path=PATH, stdin=None):
    """The reader's records as dicts with perf's field names; other lines apart."""
    records, other = [], []
    for line in tool("records", path, stdin=stdin):
        if not line.startswith("cpu="):
            other.append(line)
            continue
        d = dict(FIELD.findall(line))
        va = int(d["va"], 16)
        # perf's rule for data addresses: sign by bits 55:52, tag dropped
        va = va | 0xff << 56 if va >> 52 & 15 == 15 else va & (1 << 56) - 1
        records.append(dict(comm=d["comm"] if d["comm"] != "?" else ":" + d["tid"],
                            pid=int(d["pid"]), tid=int(d["tid"]),
                            cpu=int(d["cpu"]), time=int(d["time"]), ip=int(d["pc"], 16), addr=va,
                            src=int(d["data_src"], 16), weight=int(d["latency"]),
                            phys=int(d["pa"], 16),
                            dso=d.get("map", "[unknown]+").split("+")[0].replace("]_text", "]")))
    return records, other


KEYS = "comm pid tid cpu time ip addr src weight phys dso".split()


def rows(records, keys=KEYS):
    return sorted(tuple(r[k] for k in keys) for r in records)


def differences(got, want, keys):
    g, w = rows(got, keys), rows(want, keys)
    if g == w:
        return ""
    only = [("spex", x) for x in g if x not in w] + [("perf", x) for x in w if x not in g]
    return f"{len(g)} {len(w)} keys {keys}\n" + "\n".join(f"only {who}: {x}"
                                                          for who, x in only[:12])


def fill(f, timestamps=True, context=True):
    """Two processes, threads, a fork, an exec, a kernel, mapping changes,
    switches, two CPUs' traces."""
    cpus = f.cpus
    f.mmap(-1, 0, 0xffff800008000000, 0x2000000, "[kernel.kallsyms]_text", 0xffff800008000000, 0, 1)
    f.comm(100, 100, "first", 0)
    f.mmap2(100, 100, 0x400000, 0x10000, "/usr/bin/first", 0, 0)
    f.comm(200, 200, "second", 1000)
    f.mmap2(200, 200, 0x400000, 0x10000, "/usr/bin/second", 0x1000, 1000, build_id=bytes(range(20)))
    f.fork(100, 101, 100, 100, 2000)
    f.mmap2(100, 101, 0x408000, 0x4000, "/usr/lib/late.so", 0, 30000)
    f.fork(300, 300, 200, 200, 20000)
    f.comm(300, 300, "third", 25000, exec_=True)
    f.mmap2(300, 300, 0x400000, 0x10000, "/usr/bin/third", 0, 25001)
    tids = [100, 101, 200, 300]
    streams = {}
    tick = 10  # ns per timestamp tick
    for i in range(64):
        cpu = i % cpus
        # On the machine each CPU changes thread every 8 records
        tid = tids[(i // 8 + cpu) % 4] if not f.per_thread else tids[i % 4]
        pid = 100 if tid == 101 else tid
        time = 5000 + 700 * i
        kernel = i % 5 == 3
        pc = 0xffff800008000000 + 0x40 * i if kernel else 0x400000 + 0x240 * i
        kind = i % 4
        r = dict(el=1 if kernel else 0, ctx=tid if context else None,
                 ts=time // tick if timestamps else None, total=10 + i)
        if kind == 0:
            r.update(op=(1, 0), events=(0x16, 0x1e, 0x31e)[i % 3], va=0x7fff0000 + 64 * i,
                     pa=0x80000000 + 64 * i, source=(0, 8, 9, 0xa, 0xb, 0xc, 0xd, 0xe)[i // 4 % 8])
        elif kind == 1:
            r.update(op=(1, 1), events=0x16, va=0xffff0000 << 32 | 64 * i, pa=0x90000000 + 64 * i)
        elif kind == 2:
            r.update(op=(2, 1), events=0x82 if i % 3 else 0xc2, target=pc + 64)
        else:
            r.update(op=(0, 0), events=0x2)
        key = tid if f.per_thread else cpu
        streams.setdefault(key, []).append((time, pid, tid, pd.record(pc, **r)))
    last = {}
    for key, stream in sorted(streams.items()):
        offset = 0
        for start in range(0, len(stream), 4):
            piece = stream[start:start + 4]
            payload = b"".join(p[3] for p in piece)
            time, pid, tid, _ = piece[0]
            if not f.per_thread and not context and f.timed:
                if last.get(key) != (pid, tid):
                    f.switch(key, last.get(key, (0, 0)), (pid, tid), time - 1)
                    last[key] = (pid, tid)
            f.trace(payload, offset, 0 if f.per_thread else key, pid, tid, time,
                    idx=None if not f.per_thread else tids.index(key))
            offset += len(payload)
    if len(f.attrs) > 2:
        f.clock(100, 100, 0x400100, 50000, chain=(0xfffffffffffffe00, 0x400100, 0x400200))
    if f.timed:
        f.exit(300, 300, 200, 200, 60000)
    return f


def shape(big, pipe, metadata, per_thread, compress, cpus, clock, timestamps, context, timed):
    f = pd.File(big=big, pipe=pipe, metadata=metadata, per_thread=per_thread, compress=compress,
                cpus=cpus, clock=clock, timed=timed, phys=True)
    return fill(f, timestamps, context)


def name_of(names, values):
    return ", ".join(n if v is True else f"{n} {v}" for n, v in zip(names, values) if v)


NAMES = ["big-endian", "pipe", "metadata", "per-thread", "compressed", "CPUs", "other event",
         "timestamps", "context", "time"]


def matrix():
    pairs, covered = set(), set()
    for i, values in enumerate(itertools.product((False, True), (False, True), (1, 2),
                                                 (False, True), (0, 1, 2),
                                                 (1, 2), (False, True), (False, True),
                                                 (False, True),
                                                 (False, True))):
        big, pipe, metadata, per_thread, compress, cpus, clock, timestamps, context, timed = values
        if per_thread and cpus > 1:
            continue
        # A part of the product, in a fixed pattern that has every pair of values:
        # the whole takes minutes.
        both = set(itertools.combinations(enumerate(values), 2))
        pairs |= both
        if (i * 2654435761 >> 7) % 19:
            continue
        covered |= both
        data = shape(*values).bytes()
        with open(PATH, "wb") as out:
            out.write(data)
        title = name_of(NAMES, values)
        if pipe:
            records, other = ours("-", data)
        else:
            records, other = ours()
        keys = list(KEYS)
        judge = data
        judged_context = context
        if per_thread and timed and context:
            # perf defect: it looks for CPU -1 and gives up at the first context
            # packet of a thread's queue.
            judged_context = False
        if metadata == 2 or compress == 2 or judged_context != context:
            # 6.1 is too old: it makes no samples from metadata 2 and does not know COMPRESSED2.
            judge = shape(big, pipe, 1, per_thread, 0 if compress == 2 else compress, cpus, clock,
                          timestamps, judged_context, timed).bytes()
            with open(PATH, "wb") as out:
                out.write(judge)
        if big and pipe:
            # perf defect: features of a big-endian pipe are not swapped, so the CPU is
            # unknown: the file judges.
            judge = shape(big, False, 1, per_thread, 0, cpus, clock, timestamps, judged_context,
                          timed).bytes()
            with open(PATH, "wb") as out:
                out.write(judge)
            code, want, errors = pd.script(PATH, cpu=not per_thread, time=timed, phys=True)
        elif pipe:
            code, want, errors = pd.script("-", cpu=not per_thread, time=timed, phys=True,
                                           stdin=judge)
        else:
            code, want, errors = pd.script(PATH, cpu=not per_thread, time=timed, phys=True)
        want = [w for w in want if w["event"].startswith("instructions")]
        if per_thread:
            keys.remove("cpu")
        if not timed:
            # perf defects: without times context packets are ignored, and each queue begins
            # with a sample of nothing.
            want = [w for w in want if w["ip"]]
            keys = [k for k in keys if k not in ("time", "tid", "pid", "comm", "dso")]
        elif not timestamps:
            # time 0 is before every COMM and mapping with a time; perf orders those as they come.
            keys = [k for k in keys if k not in ("comm", "pid", "dso", "tid")]
        difference = differences(records, want, keys)
        check(f"same records: {title}",
              not difference and not other and len(records) == 64 and code == 0 and not errors,
              "\n".join([difference, f"{len(records)} {len(want)}", *other, *errors]))
    check("every pair of properties was there", covered == pairs, pairs - covered)


def vectors():
    directory = os.path.join(SOURCE, "tests/vectors")
    for file in sorted(os.listdir(directory)):
        if not file.endswith(".perf.data"):
            continue
        path = os.path.join(directory, file)
        records, other = ours(path)
        judge = path.replace(".v2.", ".v1.")
        if not os.path.exists(judge):
            check(f"{file}: reads", records and not other, other)
            continue
        code, want, errors = pd.script(judge)
        # Without context packets and switches perf knows no thread; ITRACE_START tells us.
        keys = [k for k in KEYS if k != "phys" and
                (k not in ("comm", "pid", "tid") or "quipper" in file)]
        difference = differences(records, want, keys)
        check(f"{file}: same records as perf", not difference and not other and not errors,
              f"{difference} {errors}")
    times = [line.split(",")
             for line in open(os.path.join(directory, "kunpeng920_branch_b.times.csv"))][1:]
    for version in ("v1", "v2"):
        records, _ = ours(os.path.join(directory, f"kunpeng920_branch_b.{version}.perf.data"))
        equal(f"six published times, metadata {version}", [(r["ip"], r["time"]) for r in records],
              [(int(pc, 16), int(ns)) for pc, _, ns in times])


def straddling():
    """Records that lie across chunks and gaps of the AUX data."""
    parts = [pd.record(0x400000 + 4 * i, ctx=100, va=0x7fff0000 + 8 * i, pa=64 * i, source=8,
                       ts=1000 + i) for i in range(3)]
    cut_records(parts)
    lost_data(parts)
    jumps(b"".join(parts))
    kept_tails()


def cut_records(parts):
    """A record cut at each of its bytes, judged by the unsplit file (perf defect: it invents
    samples there)."""
    whole, start = b"".join(parts), len(parts[0])

    def build(chunks, **kw):
        f = pd.File()
        f.comm(100, 100, "prog").mmap2(100, 100, 0x400000, 0x1000, "/bin/prog")
        offset = 0
        for chunk in chunks:
            f.trace(chunk, offset, pid=100, tid=100, time=1, **kw)
            offset += len(chunk)
        return f.bytes()

    def check_cut(title, data, want):
        open(PATH, "wb").write(data)
        got, other = ours()
        return rows(got) == want and not other

    open(PATH, "wb").write(build([whole]))
    want = rows(ours()[0])
    code, perf_rows, _ = pd.script(PATH)
    equal("unsplit: perf agrees", rows(ours()[0], [k for k in KEYS if k != "phys"]),
          rows(perf_rows, [k for k in KEYS if k != "phys"]))
    for filling in (True, False):
        bad = [k for k in range(1, len(parts[1])) if
               not check_cut(k, build([whole[:start + k], whole[start + k:]], fill=filling), want)]
        check(f"cut at every byte of a record, {'filled to words' if filling else 'exact'}",
              not bad, bad)
        bad = [n for n in range(1, 70) if not check_cut(
            n, build([whole[i:i + n] for i in range(0, len(whole), n)], fill=filling), want)]
        check(f"chunks of every size from 1, {'filled to words' if filling else 'exact'}", not bad,
              bad)


def lost_data(parts):
    """Never joined across lost data: the cut record goes, those before and after it stay."""
    whole, start = b"".join(parts), len(parts[0])
    bad = []
    for flag in (1, 4, 5):
        for k in range(1, len(parts[1]), 7):
            f = pd.File()
            f.comm(100, 100, "prog").mmap2(100, 100, 0x400000, 0x1000, "/bin/prog")
            first = whole[:start + k]
            f.trace(first, 0, pid=100, tid=100, time=1, flags=flag)
            f.trace(parts[2], len(first), pid=100, tid=100, time=2)
            open(PATH, "wb").write(f.bytes())
            got, other = ours()
            if sorted(g["ip"] for g in got) != [0x400000, 0x400008] or len(other) != 1:
                bad.append((flag, k, got, other))
    check("a record cut by lost data is not joined", not bad, bad)

    # The gap may lie inside one chunk; collisions are no gap; AUX of another CPU is not ours.
    f = pd.File(cpus=2)
    f.comm(100, 100, "prog")
    first = whole[:start + 20]
    f.aux(0, len(first), 1, cpu=0).aux(len(first), len(parts[2]), 0, cpu=0)
    f.auxtrace(first + parts[2], 0, cpu=0)
    f.aux(0, len(first), 8, cpu=1).auxtrace(whole, 0, cpu=1)
    open(PATH, "wb").write(f.bytes())
    runs = [line.split()[:-1][-1] for line in tool("runs") if line.startswith("cpu=")]
    filling = b"\0" * (-len(first + parts[2]) % 8)
    equal("a gap inside a chunk; none from a collision or another CPU", runs,
          [first.hex(), (parts[2] + filling).hex(), whole.hex()])
    check("what AUX records say is counted",
          "truncated=1 collisions=1 " in " ".join(tool("info")) and
          "snapshot=0" in " ".join(tool("info")), tool("info"))


def jumps(whole):
    """A jump of the offset, and snapshots that overlap."""
    f = pd.File()
    f.trace(whole[:50], 0).trace(whole[50:100], 4096).trace(whole[:60], 4000, flags=2)
    open(PATH, "wb").write(f.bytes())
    runs = [line.split()[:-1][-1][:2 * n]
            for line, n in zip([x for x in tool("runs") if x.startswith("cpu=")], (50, 50, 60))]
    check("a snapshot is known as one", "snapshot=1" in " ".join(tool("info")), tool("info"))
    equal("offsets that do not follow are not joined", runs,
          [whole[:50].hex(), whole[50:100].hex(), whole[:60].hex()])


def kept_tails():
    """Items of all sizes, kept from span to span, lose nothing."""
    big = bytes(i * 7 & 255 for i in range(5000)) * 8
    f = pd.File()
    offset = 0
    for n in (1, 3, 500, 4095, 4097, 9000, 12000):
        f.trace(big[offset:offset + n], offset, fill=False)
        offset += n
    open(PATH, "wb").write(f.bytes())
    bad = [n for n in (1, 2, 7, 64, 100, 2048, 5000, 8191, 16383)
           if [x.split()[-2] for x in tool("runs", PATH, str(n)) if x.startswith("cpu=")] !=
           [big[:offset].hex()]]
    check("tails of any size are joined without loss", not bad, bad)


def samples():
    """Every PERF_SAMPLE_* beside SPE, in both byte orders."""
    want = ("pid=10 tid=11 time=77 cpu=1 id=400 stream=5 event=rich comm=? dso=? ip=0x401000 "
            "addr=0xabcd period=9 "
            "weight=17179869505 data_src=0x1234 phys=0x80000000 chain=fffffffffffffe00,401000 "
            "branches=401000/402000/300051 read=1,1000,900,55,400,2 regs=11,22,33 iregs=44 "
            "raw=" + b"raw bytes!!!".hex() +
            " stack=8 aux=8 page=4096/65536 cgroup=6 transaction=153")
    for big in (False, True):
        f = pd.File(big=big, rich=True).rich()
        f.trace(pd.record(0x400000, ts=5), 0, cpu=0)
        open(PATH, "wb").write(f.bytes())
        got = [x for x in tool("events") if " SAMPLE " in x]
        check(f"a sample of all parts, {'big' if big else 'little'}-endian", len(got) == 1 and
              want in got[0] and not any("problem" in x for x in tool("events")), "\n".join(got))
        # Cut anywhere: no nonsense, the record after it is read
        data = f.bytes()
        size = int(re.search(r"size=(\d+)", got[0])[1])
        at = data.index(f.p("IHH", 9, 2, size))
        bad = []
        for short in range(8, size, 8):
            cut = data[:at] + f.p("IHH", 9, 2, short) + data[at + 8:at + short] + data[at + size:]
            cut = bytearray(cut)
            cut[48:56] = f.p("Q", len(f.data) - size + short)
            open(PATH, "wb").write(cut)
            records, other = ours()
            if len(records) != 1 or (short < size - 8 and not any("too short" in o for o in other)):
                bad.append((short, len(records), other))
        check(f"and cut at every word, {'big' if big else 'little'}-endian", not bad, bad[:3])


def attributes():
    """Old attributes: no sample_id_all, every size that there ever was."""
    for size in (64, 72, 80, 96, 104, 112, 120, 128, 136, 144):
        f = pd.File(attr_size=size)
        f.comm(100, 100, "prog").mmap2(100, 100, 0x400000, 0x1000,
                                       "/bin/prog").trace(pd.record(0x400000, ctx=100, ts=5))
        open(PATH, "wb").write(f.bytes())
        records, other = ours()
        check(f"attributes of {size} bytes", len(records) == 1 and records[0]["comm"] == "prog" and
              records[0]["dso"] == "/bin/prog" and not other, f"{records} {other}")
    for big in (False, True):
        f = pd.File(sample_id_all=False, big=big)
        f.comm(100, 100, "prog").mmap(100, 100, 0x400000, 0x1000,
                                      "/bin/prog").fork(100, 101, 100, 100, 0)
        f.trace(pd.record(0x400000, ctx=101, ts=5), flags=1)
        open(PATH, "wb").write(f.bytes())
        records, other = ours()
        # perf refuses SPE without it ("requires ordered events")
        check(f"no sample_id_all, {'big' if big else 'little'}-endian",
              not other and len(records) == 1 and
              (records[0]["comm"], records[0]["dso"], records[0]["pid"]) ==
              ("prog", "/bin/prog", 100), f"{records} {other}")


def compressed():
    """Compressed data cut anywhere (perf defect: a piece that yields
    nothing by itself stops it)."""
    want = None
    for kind, piece in ((0, 0), (1, 1), (1, 7), (1, 50), (2, 16), (2, 100)):
        open(PATH,
             "wb").write(fill(pd.File(compress=kind, piece=piece, cpus=2, clock=True)).bytes())
        got = rows(ours()[0]), [x.split("misc=")[1] for x in tool("events") if " SAMPLE " in x or
                                " COMM " in x]
        want = want or got
        check(f"compressed in pieces of {piece} bytes, kind {kind}", got == want and not ours()[1],
              f"{got}\n{want}")
    # One stream flushed now and then, as perf makes it; a record may straddle two compressed ones
    for size in (5, 100, 777):
        f = pd.File()
        plain = pd.File()
        plain.data = b""
        for i in range(300):
            plain.comm(i, i, f"name{i * 7919 % 1000}", i + 1)
        for piece in pd.zstd_stream(plain.data, size):
            f.data += f.header(81, 8 + len(piece)) + piece
        f.features[27] = f.p("IIIII", 1, 1, 3, 3, 512 << 10)
        open(PATH, "wb").write(f.bytes())
        got = [x.rsplit("=", 1)[1] for x in tool("events") if " COMM " in x]
        equal(f"one compressed stream, {size} bytes a record", got,
              [f"name{i * 7919 % 1000}" for i in range(300)])
        _, out, errors = pd.perf("script", "-i", PATH, "--show-task-events", "-F", "comm",
                                 "--itrace=e")
        check(f"one compressed stream, {size} bytes a record: perf agrees",
              out.count("PERF_RECORD_COMM") == 300 and not errors, errors)


def described():
    """What feature sections say, and samples without IDENTIFIER."""
    f = pd.File()
    f.features[7] = f.p("II", 8, 4)
    f.features[14] = (f.p("IIQQ", 2, 0, 1, 1) + f.string("0-1,4") + f.p("IQQ", 3, 1, 1) +
                      f.string("2-3"))
    # blocks of 1 GiB: node 0 has the first and the fourth, node 3 the second; a
    # bitmap's size stands twice
    f.features[22] = (f.p("QQQ", 1, 1 << 30, 2) + f.p("QQQQ", 0, 4, 4, 0b1001) +
                      f.p("QQQQQ", 3, 66, 66, 0b10, 0b10))
    open(PATH, "wb").write(f.trace(pd.record(0x400000, ts=5)).bytes())
    info = tool("info")
    check("memory of nodes", "nodes of the first GiBs: 0 3 -1 0 -1 -1" in info and
          "memory nodes (nr 2" in pd.perf("report", "--header-only", "-I", "-i", PATH)[1], info)
    check("CPUs online and available, as perf takes them",
          "cpus_online=4" in info and "cpus_available=8" in info and
          "nrcpus online : 4" in pd.perf("report", "--header-only", "-i", PATH)[1], info)
    check("NUMA nodes", "node 0 total=1 cpus=0-1,4" in info and
          "node 3 total=1 cpus=2-3" in info and "nodes of CPUs 0 to 5: 0 0 3 3 0 -1" in info, info)
    f = pd.File(idents=False, clock=True)
    fill(f)
    open(PATH, "wb").write(f.bytes())
    records, other = ours()
    _, perf_rows, errors = pd.script(PATH)
    check("ID instead of IDENTIFIER: as perf",
          not differences(records, perf_rows, [k for k in KEYS if k != "phys"]) and
          not other and not errors, f"{other} {errors}")


matrix()
samples()
attributes()
compressed()
described()
vectors()
straddling()
done()
