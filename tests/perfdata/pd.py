"""Builds perf.data files byte by byte, independent of spex's own writer: either byte
order, file or pipe, metadata 1 or 2, per CPU or per thread, compressed or not; and SPE
records to put into them."""
import ctypes
import ctypes.util
import re
import struct
import subprocess

SPE_TYPE = 12
SPE_ID, DUMMY_ID, CLOCK_ID, RICH_ID = 100, 200, 300, 400
N1 = 0x413fd0c1
ALL = 0xffffffff

(IP, TID, TIME, ADDR, READ, CHAIN, ID, CPU, PERIOD, STREAM, RAW, BRANCH, UREGS, STACK, WEIGHT, SRC,
 IDENT, TRANS, IREGS, PHYS, AUXS, CGROUP, DPAGE, CPAGE, WSTRUCT) = (1 << n for n in range(25))

# ---- SPE records ----


def address(index, value, el=0, ns=1):
    return (bytes([0xb0 | index]) +
            (value & (1 << 56) - 1 | el << 61 | ns << 63).to_bytes(8, "little"))


def counter(index, value):
    return bytes([0x98 | index]) + value.to_bytes(2, "little")


def record(pc, el=0, ctx=None, op=(1, 0), events=0x12, total=20, va=None, pa=None, source=None,
           target=None, ts=None):
    """One record in the order of Neoverse, without its padding; timestamps or
    an End packet close it."""
    b = address(0, pc, el)
    if ctx is not None:
        b += b"\x65" + ctx.to_bytes(4, "little")
    b += (bytes([0x48 | op[0], op[1]]) + b"\x52" + events.to_bytes(2, "little") + counter(1, 3) +
          counter(0, total))
    if target is not None:
        b += address(1, target, el)
    if va is not None:
        b += b"\xb2" + va.to_bytes(8, "little") + counter(2, 1)
    if pa is not None:
        b += address(3, pa)
    if source is not None:
        b += bytes([0x43, source])
    if ts is None:
        return b + b"\x00" * (62 - len(b)) + b"\x00\x01"
    return b + b"\x00" * (55 - len(b)) + b"\x71" + ts.to_bytes(8, "little")


# ---- zstd, for COMPRESSED records ----

_zstd = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
for _f in ("ZSTD_compressBound", "ZSTD_compress"):
    getattr(_zstd, _f).restype = ctypes.c_size_t


def zstd(data):
    room = _zstd.ZSTD_compressBound(ctypes.c_size_t(len(data)))
    out = ctypes.create_string_buffer(room)
    n = _zstd.ZSTD_compress(out, ctypes.c_size_t(room), data, ctypes.c_size_t(len(data)), 3)
    return out.raw[:n]


class _Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("position", ctypes.c_size_t)]


def zstd_stream(data, size):
    """One zstd stream, flushed every size bytes of data."""
    return zstd_flushes([data[i:i + size] for i in range(0, len(data), size)])


def zstd_flushes(parts):
    """One zstd stream, flushed after each part, as perf does for every read of its ring buffer."""
    _zstd.ZSTD_createCCtx.restype = ctypes.c_void_p
    _zstd.ZSTD_compressStream2.restype = ctypes.c_size_t
    context = ctypes.c_void_p(_zstd.ZSTD_createCCtx())
    pieces = []
    for part in parts:
        source = ctypes.create_string_buffer(part, len(part))
        room = ctypes.create_string_buffer(2 * len(part) + 1000)
        into = _Buffer(ctypes.addressof(room), len(room), 0)
        out_of = _Buffer(ctypes.addressof(source), len(source), 0)
        _zstd.ZSTD_compressStream2(context, ctypes.byref(into), ctypes.byref(out_of), 1)  # flush
        pieces.append(room.raw[:into.position])
    _zstd.ZSTD_freeCCtx(context)
    return pieces


# ---- the file ----


class File:
    """attrs: list of (attr bytes fields dict). Records are appended by methods; bytes() ends it."""

    def __init__(self, big=False, pipe=False, metadata=1, per_thread=False, timed=True, cpus=1,
                 midr=N1, clock=False, attr_size=128, sample_id_all=True,
                 time_conv=(24, 10 << 24, 0), phys=False,
                 compress=False, piece=60000, index=True, idents=True, rich=False):
        self.e = ">" if big else "<"
        self.big, self.pipe, self.metadata, self.per_thread = big, pipe, metadata, per_thread
        self.timed, self.cpus, self.midr, self.attr_size = timed, cpus, midr, attr_size
        self.sample_id_all, self.compress, self.with_index = sample_id_all, compress, index
        self.piece = piece  # bytes of a COMPRESSED record
        self.type = TID | (TIME if timed else 0) | (0 if per_thread
                                                    else CPU) | (IDENT if idents else ID)
        self.data = b""
        self.plain = b""  # waits to be compressed
        self.index = []
        self.attrs = [dict(type=SPE_TYPE, config=0x10001, period=4096,
                           sample=self.type | IP | SRC | (PHYS if phys else 0),
                           flags=0x3 | (1 << 18 if sample_id_all else 0), id=SPE_ID,
                           name="arm_spe_0/ts_enable=1,jitter=1/"),
                      dict(type=1, config=9, period=1, sample=self.type | IP,
                           flags=0x842323 & (-1 if sample_id_all else ~(1 << 18)),
                           id=DUMMY_ID, name="dummy:u"),
        ]
        if clock:
            self.attrs.append(dict(type=1, config=0, period=100000,
                                   sample=self.type | IP | PERIOD | CHAIN,
                                   flags=0x3 | (1 << 18 if sample_id_all else 0), id=CLOCK_ID,
                                   name="cpu-clock"))
        if rich:  # an event whose samples carry everything there is
            self.attrs.append(dict(type=1, config=3, period=7, name="rich", id=RICH_ID,
                                   flags=0x3 | 1 << 18, read=0x1f,
                                   sample=self.type | IP | ADDR | READ | CHAIN | ID | PERIOD |
                                   STREAM | RAW | BRANCH | UREGS | STACK | WSTRUCT | SRC | TRANS |
                                   IREGS | PHYS | AUXS | CGROUP | DPAGE | CPAGE | 1 << 40,
                                   branch=1 << 17, uregs=0b1011, iregs=0b1, stack=64))
        self.features = {3: self.string("host"), 4: self.string("6.1.0"), 6: self.string("aarch64"),
                         7: self.p("II", cpus, cpus), 9: self.string("0x%016x" % midr),
                         11: self.p("I", 2) + self.string("perf") + self.string("record"),
                         14: self.p("IIQQ", 1, 0, 1 << 20, 1 << 20) +
                         self.string("0-%d" % (cpus - 1)),
        }
        self.features[12] = (self.p("II", len(self.attrs), attr_size) +
                             b"".join(self.attr(a) + self.p("I", 1) + self.string(a["name"]) +
                                      self.p("Q", a["id"]) for a in self.attrs))
        if compress:
            self.features[27] = self.p("IIIII", 1, 1, 3, 3, 512 << 10)
        if time_conv:
            self.raw(79, self.p("QQQQQBB6x", *time_conv[:2], time_conv[2] & (1 << 64) - 1, 0,
                                (1 << 56) - 1, 1, 1))
        if metadata == 1:
            self.raw(70, self.p("IIQQ", 4, 0, SPE_TYPE, 0 if per_thread else 1))
        elif metadata == 2:
            self.raw(70, self.p("IIQQQQ", 4, 0, 2, 4, SPE_TYPE, cpus) +
                     b"".join(self.p("7Q", 0x1010101010101010, c, 4, midr, SPE_TYPE, 1024,
                                     0xffff00ff00ff0fff) for c in range(cpus)))

    def p(self, form, *values):
        return struct.pack(self.e + form, *values)

    def string(self, text):
        data = text.encode(errors="surrogateescape") + b"\0"
        data += b"\0" * (-len(data) % 64)
        return self.p("I", len(data)) + data

    def attr(self, a):
        flags = a["flags"].to_bytes(8, "little")
        if self.big:  # bit fields are filled from the top of each byte
            flags = bytes(int(f"{x:08b}"[::-1], 2) for x in flags)
        b = self.p("IIQQQQ", a["type"], self.attr_size, a["config"], a["period"], a["sample"],
                   a.get("read", 0)) + flags
        b += self.p("IIQQ", 0, 0, a.get("config1", 0), a.get("config2", 0))
        b += self.p("QQIIQ", a.get("branch", 0), a.get("uregs", 0), a.get("stack", 0),
                    a.get("clockid", 0), a.get("iregs", 0))
        b += b"\0" * 200
        return b[:self.attr_size]

    # records

    def header(self, kind, size, misc=0):
        return self.p("IHH", kind, misc, size)

    def raw(self, kind, body, misc=0):
        self.flush()
        self.data += self.header(kind, 8 + len(body), misc) + body
        return self

    def sample_id(self, pid, tid, time, cpu, ident):
        if not self.sample_id_all:
            return b""
        b = self.p("ii", pid, tid)
        if self.timed:
            b += self.p("Q", time)
        if self.type & ID:
            b += self.p("Q", ident)
        if not self.per_thread:
            b += self.p("II", cpu, 0)
        if self.type & IDENT:
            b += self.p("Q", ident)
        return b

    def event(self, kind, body, misc=0, pid=0, tid=0, time=0, cpu=0, ident=DUMMY_ID):
        b = body + self.sample_id(pid, tid, time, cpu, ident)
        b = self.header(kind, 8 + len(b), misc) + b
        if self.compress:
            self.plain += b
        else:
            self.data += b
        return self

    def flush(self):
        if self.plain:
            packed = zstd(self.plain)
            self.plain = b""
            for i in range(0, len(packed), self.piece):
                piece = packed[i:i + self.piece]
                if self.compress == 2:
                    fill = b"\0" * (-len(piece) % 8)
                    self.data += (self.header(83, 16 + len(piece) + len(fill)) +
                                  self.p("Q", len(piece)) + piece + fill)
                else:
                    self.data += self.header(81, 8 + len(piece)) + piece

    @staticmethod
    def text(s, align=8):
        b = s.encode(errors="surrogateescape") + b"\0"
        return b + b"\0" * (-len(b) % align)

    def comm(self, pid, tid, name, time=0, exec_=False):
        return self.event(3, self.p("ii", pid, tid) + self.text(name), 0x2000 if exec_ else 0, pid,
                          tid, time)

    def mmap2(self, pid, tid, start, size, name, pgoff=0, time=0, misc=2, prot=5, build_id=None):
        middle = self.p("IIQQ", 8, 1, 42, 0)
        if build_id:
            misc |= 0x4000
            middle = bytes([len(build_id), 0, 0, 0]) + build_id.ljust(20, b"\0")
        return self.event(10, self.p("iiQQQ", pid, tid, start, size, pgoff) + middle +
                          self.p("II", prot, 2) + self.text(name), misc, pid, tid, time)

    def mmap(self, pid, tid, start, size, name, pgoff=0, time=0, misc=2):
        return self.event(1, self.p("iiQQQ", pid, tid, start, size, pgoff) + self.text(name), misc,
                          pid, tid, time)

    def fork(self, pid, tid, ppid, ptid, time=0, kind=7):
        return self.event(kind, self.p("iiiiQ", pid, ppid, tid, ptid, time), 0, ppid, ptid, time)

    def exit(self, pid, tid, ppid, ptid, time=0):
        return self.fork(pid, tid, ppid, ptid, time, 4)

    def switch(self, cpu, prev, next_, time):
        self.event(15, self.p("ii", *next_), 0x2000, *prev, time, cpu)
        return self.event(15, self.p("ii", *prev), 0, *next_, time, cpu)

    def itrace_start(self, pid, tid, time=0, cpu=0):
        return self.event(12, self.p("ii", pid, tid), 0, pid, tid, time, cpu, SPE_ID)

    def clock(self, pid, tid, ip, time, cpu=0, period=1000, chain=()):
        b = self.p("Q", CLOCK_ID) if self.type & IDENT else b""
        b += self.p("Qii", ip, pid, tid)
        b += self.p("Q", time) if self.timed else b""
        b += self.p("Q", CLOCK_ID) if self.type & ID else b""
        b += b"" if self.per_thread else self.p("II", cpu, 0)
        b += self.p("Q", period) + self.p("Q", len(chain)) + b"".join(self.p("Q", x) for x in chain)
        b = self.header(9, 8 + len(b), 2) + b
        if self.compress:
            self.plain += b
        else:
            self.data += b
        return self

    def rich(self):
        """A sample with every part, and one more than is known at its end."""
        b = self.p("QQiiQQQQIIQ", RICH_ID, 0x401000, 10, 11, 77, 0xabcd, RICH_ID, 5, 1, 0, 9)
        # group of one: value, id, lost
        b += self.p("QQQ", 1, 1000, 900) + self.p("QQQ", 55, RICH_ID, 2)
        b += self.p("QQQ", 2, 0xfffffffffffffe00, 0x401000)
        b += self.p("I", 12) + b"raw bytes!!!"
        flags = 1 | 5 << 4 | 3 << 20  # mispredicted, cycles 5, type 3
        if self.big:  # a bit field from the top
            flags = 1 << 63 | 5 << 44 | 3 << 40
        b += self.p("QQQQQ", 1, 0, 0x401000, 0x402000, flags)
        b += self.p("QQQQ", 2, 0x11, 0x22, 0x33)
        b += self.p("Q", 16) + b"stack of the use" + self.p("Q", 8)
        b += self.p("QQQ", 321 | 4 << 32, 0x1234, 0x99)
        b += self.p("QQ", 2, 0x44)
        b += self.p("QQQQ", 0x80000000, 6, 4096, 65536)
        b += self.p("Q", 8) + b"auxbytes" + self.p("Q", 0xdead)
        self.data += self.header(9, 8 + len(b), 2) + b
        return self

    def aux(self, offset, size, flags=0, pid=-1, tid=-1, time=0, cpu=0):
        return self.event(11, self.p("QQQ", offset, size, flags), 0, pid, tid, time, cpu, SPE_ID)

    def auxtrace(self, payload, offset, cpu=0, tid=-1, idx=None, fill=True):
        """fill: round up to whole words as perf does."""
        self.flush()
        if self.per_thread:
            cpu = -1
        if idx is None:
            idx = max(cpu, 0)
        if fill:
            payload += b"\0" * (-len(payload) % 8)
        self.index.append(len(self.data))
        self.data += (self.header(71, 48) +
                      self.p("QQQIiiI", len(payload), offset, 0x1234, idx, tid, cpu, 0) + payload)
        return self

    def trace(self, payload, offset=0, cpu=0, pid=-1, tid=-1, time=0, flags=0, fill=True, idx=None):
        """AUX record and AUXTRACE chunk."""
        self.aux(offset, len(payload), flags, pid, tid, time, cpu)
        return self.auxtrace(payload, offset, cpu, tid if self.per_thread else -1, idx, fill)

    # the whole

    def magic(self):
        return self.p("Q", int.from_bytes(b"PERFILE2", "little"))

    def bytes(self):
        self.flush()
        if self.pipe:
            b = self.magic() + self.p("Q", 16)
            for a in self.attrs:
                b += self.header(64, 8 + self.attr_size + 8) + self.attr(a) + self.p("Q", a["id"])
            for n, content in sorted(self.features.items()):
                content += b"\0" * (-len(content) % 8)
                b += self.header(80, 16 + len(content)) + self.p("Q", n) + content
            return b + self.data
        ids = 104
        attrs = ids + 8 * len(self.attrs)
        data = attrs + (self.attr_size + 16) * len(self.attrs)
        features = dict(self.features)
        if self.with_index:
            features[18] = (self.p("Q", len(self.index)) +
                            b"".join(self.p("QQ", data + i, 48) for i in self.index))
        bits = sum(1 << n for n in features)
        b = self.magic() + self.p("QQQQQQQQ", 104, self.attr_size + 16, attrs,
                                  (self.attr_size + 16) * len(self.attrs),
                                  data, len(self.data), 0, 0)
        b += b"".join(self.p("Q", bits >> 64 * i & (1 << 64) - 1) for i in range(4))
        b += b"".join(self.p("Q", a["id"]) for a in self.attrs)
        for i, a in enumerate(self.attrs):
            b += self.attr(a) + self.p("QQ", ids + 8 * i, 8)
        b += self.data
        at = len(b) + 16 * len(features)
        for n in sorted(features):
            b += self.p("QQ", at, len(features[n]))
            at += len(features[n])
        return b + b"".join(features[n] for n in sorted(features))


# ---- perf, the judge ----

QUIET = [  # what a correct file still provokes in perf 6.1
    "Warning:",
    "unwind: target platform=arm64 is not supported",  # x86-64 perf, if a mapped file exists
    "Only instruction-based sampling period is currently supported by Arm SPE.",
    "Arm SPE CONTEXT packets not found in the traces.",
    "Matching of TIDs to SPE events could be inaccurate.",
    "Arm SPE has a hardware-based sample period.",  # --itrace=iNi with N > 1
    "Additional instruction events will be discarded by --itrace",
]


def perf(*args, stdin=None, env=None):
    """perf's exit code, output and complaints (without the listed ones)."""
    r = subprocess.run(["perf", *args], input=stdin, capture_output=True, env=env, timeout=120,
                       stdin=subprocess.DEVNULL if stdin is None else None)
    errors = [line for line in r.stderr.decode(errors="replace").splitlines()
              if line.strip() and not any(q in line for q in QUIET)]
    return r.returncode, r.stdout.decode(errors="replace"), errors


LINE = re.compile(r"^\s*(?P<comm>.*?)\s+(?P<pid>-?\d+)/(?P<tid>-?\d+)\s+(?:\[(?P<cpu>"
                  r"-?\d+)\]\s+)?(?:(?P<time>\d+\.\d+):\s+)?"
                  r"(?P<event>[^\s]+):\s+(?P<addr>[0-9a-f]+)\s+(?P<src>[0-9a-f]+) "
                  r"\|.*?\|BLK.*?\s(?P<weight>\d+)\s+"
                  r"(?P<ip>[0-9a-f]+)(?: (?P<sym>[^\s(]\S*))?(?: "
                  r"\((?P<dso>[^)]*)\))?(?:\s+(?P<phys>[0-9a-f]+))?\s*$")


def script(path, itrace="i1i", cpu=True, time=True, phys=False, stdin=None):
    """perf script's synthesized samples as dicts of the fields."""
    fields = ("comm,pid,tid,event,ip,dso,addr,data_src,weight" + (",cpu" if cpu else "") +
              (",time" if time else "") +
              (",phys_addr" if phys else ""))
    code, out, errors = perf("script", "-i", path, "--itrace=" + itrace, "-F", fields, "--ns",
                             stdin=stdin)
    lines = []
    for line in out.splitlines():
        m = LINE.match(line)
        if m:
            d = m.groupdict()
            for k in ("addr", "src", "ip", "phys"):
                d[k] = int(d[k], 16) if d[k] else 0
            for k in ("pid", "tid", "cpu", "weight"):
                d[k] = int(d[k]) if d[k] is not None else -1
            d["time"] = int(d["time"].replace(".", "")) if d["time"] else 0
            lines.append(d)
        elif line.strip() and "cpu-clock" not in line and not re.match(r"\t|\s*0$", line):
            errors.append("unreadable: " + line)
    return code, lines, errors
