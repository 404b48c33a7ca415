"""Small inputs that ask for much: perf.data files and ELF files, written byte by byte."""
import os
import struct
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../perfdata"))
import pd


def elf(path, symbols=(), text=b"\xc0\x03\x5f\xd6", address=0x400000, sections=()):
    """An AArch64 executable: .text at an address; symbols (name, offset, size); more
    (name, type, flags, bytes)."""
    names, strings, table = b"\0", b"\0", b"\0" * 24
    for name, offset, size in symbols:
        table += struct.pack("<IBBHQQ", len(strings), 0x12, 0, 1, address + offset, size)
        strings += name.encode() + b"\0"
    all_ = [(".text", 1, 6, text), (".symtab", 2, 0, table), (".strtab", 3, 0, strings), *sections]
    offset, body, headers = 0x1000, b"", b"\0" * 64
    for name, kind, flags, data in all_ + [(".shstrtab", 3, 0, None)]:
        at = len(names)
        names += name.encode() + b"\0"
        if data is None:
            data = names
        headers += struct.pack("<IIQQQQIIQQ", at, kind, flags, address if name == ".text" else 0,
                               offset + len(body), len(data), 3 if kind == 2 else 0,
                               1 if kind == 2 else 0, 8, 24 if kind == 2 else 0)
        body += data + b"\0" * (-len(data) % 8)
    count = len(all_) + 2
    head = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, address,
                                                            64, offset + len(body), 0,
                                                            64, 56, 1, 64, count, count - 1)
    head += struct.pack("<IIQQQQQQ", 1, 5, offset, address, address, len(text), len(text), 0x1000)
    with open(path, "wb") as f:
        f.write(head.ljust(offset, b"\0") + body + headers)


def many(f, make, count):
    """Records made one by one, without copying all of those before."""
    parts, start = [], f.data
    for i in range(count):
        f.data = b""
        make(i)
        parts.append(f.data)
    f.data = start + b"".join(parts)


def profile(address=0x400000, module="/prog", pcs=None, more=None, tid=10):
    """A process with one mapped file, and a sample at each pc."""
    f = pd.File()
    f.comm(tid, tid, "prog")
    if module:
        f.mmap2(tid, tid, address & ~0xfff, 1 << 24, module, pgoff=0x1000)
    if more:
        more(f)
    f.trace(b"".join(pd.record(pc, ctx=tid, ts=100 + i) for i, pc in enumerate(pcs or [address])))
    return f.bytes()


def overlapping_ids(size=1 << 20, events=4000):
    """Events whose ids are the whole file, each."""
    f = pd.File()
    attr = f.attr(f.attrs[0])
    data = 104 + events * (len(attr) + 16)
    size = max(size, data + 8) & ~7
    head = f.magic() + struct.pack("<QQQQQQQQ", 104, len(attr) + 16, 104, events * (len(attr) + 16),
                                   data, size - data, 0, 0)
    return head + b"\0" * 32 + (attr + struct.pack("<QQ", 0, size)) * events + \
        struct.pack("<IHH", 68, 0, 8) * ((size - data) // 8)


def zstd_flood(count=18):
    """COMPRESSED records that each become 60 MB of COMM records; the header names no size."""
    f = pd.File(compress=True)
    del f.features[27]
    packed = pd.zstd((struct.pack("<IHHii", 3, 0, 32, 1, 1) + b"a".ljust(16, b"\0")) *
                     ((60 << 20) // 32))
    f.data += (f.header(81, 8 + len(packed)) + packed) * count
    return f.bytes()


def queues(count):
    """AUXTRACE records of as many CPUs, one sample each."""
    f = pd.File(index=False)
    one = pd.record(0x400000, ts=100)
    f.data += b"".join(f.header(71, 48) + f.p("QQQIiiI", 64, 0, 0, i, -1, i, 0) + one
                       for i in range(count))
    return f.bytes()


def modules(count):
    f = pd.File()
    f.comm(10, 10, "prog")
    many(f, lambda i: f.mmap2(10, 10, 0x100000 * (i + 1), 0x1000, f"/no/{i}.so"), count)
    f.trace(b"".join(pd.record(0x100000 * (i + 1), ctx=10, ts=100 + i) for i in range(count)))
    return f.bytes()


def builds(count):
    """One path, as many build ids."""
    f = pd.File()
    f.comm(10, 10, "prog")
    many(f, lambda i: f.mmap2(10, 10, 0x100000 * (i + 1), 0x1000, "/no/lib.so",
                              build_id=struct.pack(">5I", i, 1, 2, 3, 4)),
         count)
    f.trace(b"".join(pd.record(0x100000 * (i + 1), ctx=10, ts=100 + i) for i in range(count)))
    return f.bytes()


def jits(count):
    """As many processes that made their code."""
    f = pd.File()
    many(f, lambda i: f.comm(100 + i, 100 + i,
                             "jit").mmap2(100 + i, 100 + i, 0x100000, 0x1000, "//anon"), count)
    f.trace(b"".join(pd.record(0x100000, ctx=100 + i, ts=100 + i) for i in range(count)))
    return f.bytes()


def versions(count):
    """Code at one address that is replaced before each sample, which uses data that
    no file is mapped at."""
    f = pd.File()
    f.comm(10, 10, "prog")
    many(f, lambda i: f.mmap2(10, 10, 0x100000, 0x1000, "//anon" if i & 1 else f"/no/{i}",
                              time=(100 + i) * 10), count)
    f.trace(b"".join(pd.record(0x100000, ctx=10, ts=100 + i, va=0x7000000 + 64 * i)
                     for i in range(count)))
    return f.bytes()


def chosen_pcs(count):
    """Addresses whose products with the golden ratio share their low bits: one chain in a
    table without a seed."""
    golden = 0x9e3779b97f4a7c15
    inverse, pcs, i = pow(golden, -1, 1 << 64), [], 0
    while len(pcs) < count:
        i += 1
        product = (i * 0x100003 & 0xffffffff) << 32
        product |= product >> 32 & 0x3fffff | (i * 77 & 0x3ff) << 22
        pc = product * inverse & (1 << 64) - 1
        if not pc >> 55:
            pcs.append(pc)
    return profile(module=None, pcs=pcs)


def chosen_tids(count):
    """The same for the 32-bit hash of threads."""
    inverse = pow(0x9e3779b1, -1, 1 << 32)
    tids = [(i << 7 + 18) * inverse & 0x7fffffff for i in range(1, 128)]
    f = pd.File()
    many(f, lambda i: f.comm(tids[i % 127] + i // 127, tids[i % 127] + i // 127, "x"), count)
    return f.bytes()


def lines(count):
    """Loads from as many cache lines."""
    f = pd.File()
    f.comm(10, 10, "prog")
    f.trace(b"".join(pd.record(0x400000, ctx=10, va=0x10000000 + 64 * i, ts=100 + i)
                     for i in range(count)))
    return f.bytes()


def forks(count):
    """Events that each make the tables larger."""
    f = pd.File()
    many(f, lambda i: f.fork(100 + i, 100 + i, 99 + i, 99 + i, time=i), count)
    f.trace(pd.record(0x400000, ts=100))
    return f.bytes()


def cxx_bomb(steps):
    """A name of which each part is two of the part before."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    name = "_Z1f1AIcE"
    for i in range(steps):
        seq = f"S{digits[i]}_" if i < 36 else f"S{digits[i // 36]}{digits[i % 36]}_"
        name += "S_I" + seq + seq + "E"
    return name


def compressed_section(path, size):
    """.debug_info that says it is zlib of so many zeros."""
    packed = zlib.compress(b"\0" * min(size, 1 << 24))
    elf(path, [("main", 0, 4)],
        sections=[(".debug_info", 1, 0x800, struct.pack("<IIQQ", 1, 0, size, 8) + packed),
                  (".debug_abbrev", 1, 0, b"\0" * 8)])


def _dwarf(path, abbrev, units, ranges):
    """Units of DWARF 4 that share one list of ranges, in an ELF file with 64 KB of code."""
    info = b""
    for unit in units:
        body = struct.pack("<HIB", 4, 0, 8) + unit
        info += struct.pack("<I", len(body)) + body
    listed = b"".join(struct.pack("<QQ", 0x400000, 0x410000) for _ in range(ranges)) + bytes(16)
    elf(path, [("main", 0, 0x10000)], b"\x1f\x20\x03\xd5" * 0x4000,
        sections=[(".debug_info", 1, 0, info), (".debug_abbrev", 1, 0, abbrev),
                  (".debug_ranges", 1, 0, listed)])


def shared_by_calls(path, calls, ranges):
    """Inlined calls that share a list of ranges."""
    abbrev = (b"\x01\x11\x01\x11\x01\x12\x07\x00\x00" + b"\x02\x2e\x01\x03\x08\x00\x00" +
              b"\x03\x1d\x00\x55\x17\x00\x00" + b"\x00")
    die = b"\x03" + struct.pack("<I", 0)
    unit = (b"\x01" + struct.pack("<QQ", 0x400000, 0x10000) + b"\x02main\0" + die * calls +
            b"\0\0")
    _dwarf(path, abbrev, [unit], ranges)


def nested(path, depth):
    """Blocks in blocks of a function."""
    abbrev = (b"\x01\x11\x01\x11\x01\x12\x07\x00\x00" +
              b"\x02\x2e\x01\x03\x08\x11\x01\x12\x07\x00\x00" +
              b"\x03\x0b\x01\x00\x00" + b"\x00")
    place = struct.pack("<QQ", 0x400000, 0x10000)
    unit = b"\x01" + place + b"\x02main\0" + place + b"\x03" * depth + b"\0" * (depth + 2)
    _dwarf(path, abbrev, [unit], 1)


def shared_by_units(path, units, ranges):
    """The same for units."""
    abbrev = b"\x01\x11\x00\x11\x01\x55\x17\x00\x00" + b"\x00"
    _dwarf(path, abbrev, [b"\x01" + struct.pack("<QI", 0, 0)] * units, ranges)


def go_lines(path, functions, pairs):
    """A Go table without other symbols: functions of as many pairs of a line and the instructions
    that it holds for. Each begins one pair later than the one before in the same list."""
    def varint(n):
        return bytes([n & 127]) if n < 128 else bytes([n & 127 | 128, n >> 7])

    values = b"\0" + b"\4\1" + b"\2\1" * (pairs + functions) + b"\0" * 2
    file = len(values)
    values += b"\2" + varint(16383) + b"\0"
    names, units, files = b"main.f\0", struct.pack("<I", 0), b"/no/main.go\0"
    at, parts = 72, []
    for part in (names, units, files, values):
        parts.append(at)
        at += len(part) + -len(part) % 8
    table, bodies = b"", b""
    for i in range(functions):
        table += struct.pack("<II", 4 * pairs * i, 8 * functions + 4 + len(bodies))
        bodies += struct.pack("<10I", 4 * pairs * i, 0, 0, 0, 0, file, 1 + 2 * i, 0, 0, 0)
    table += struct.pack("<I", 4 * pairs * functions)
    body = b"".join(p.ljust(len(p) + -len(p) % 8, b"\0") for p in (names, units, files, values))
    head = struct.pack("<IBBBB8Q", 0xfffffff1, 0, 0, 4, 8, functions, 1, 0x400000, *parts, at)
    elf(path, text=b"\x1f\x20\x03\xd5" * (pairs * functions),
        sections=[(".gopclntab", 1, 2, head + body + table + bodies + b"\0")])
