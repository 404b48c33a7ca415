"""A profile whose every name means harm: control characters, no UTF-8, quotes, turned
directions, 64 KB; in D."""
import atexit, csv, io, json, os, pty, re, select, shutil, struct, subprocess, sys, tempfile
import unicodedata
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../perfdata"))
from support.tap import *
import pd

NAMES = [  # of functions; with the letter D in front, of data
    b"esc\x1b[31mred\x1b]0;title\x07\x1bP",
    b"two\nlines\ttab\rback",
    b"quo\"te's,comma;semi`$(id)\\back",
    b"\x9b31m\x80\x9fraw",
    "\u009b31m\u0085".encode(),
    "\u202egpj.exe\u2066\u200f\u2028\ufeff".encode(),
    b"\xff\xfe\xc3(\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf",
    "gr\u00f6\u00dfe \u2192 \u540d\u524d \U0001f600".encode(),
    b"=cmd|' /C calc'!A0",
    b"-x @y\x7f\x01",
    b"cut\xe2\x82",
    b"L" * 64000 + b"\x1b[2J\xff\"," + b"l" * 1500,
]
CODE, DATA, STEP = 0x401000, 0x410000, 0x100
SOURCE_FILE = b"dir\x1b[1m/so\"u,r\xffce.c"
COMMS = [b"co\x1b[31mm,\"\n", b"\xe2\x80\xae\xff\x9b!", b"C" * 50000 + b"\x1b"]
DSO = b"pr\x1b]0;o\x07g\xff,\"\n\xe2\x80\xae"
LOST = b"/no/such\x1b[31m\xff/" + b"d" * 60000


def plain(c):
    return unicodedata.category(c) not in ("Cc", "Cf", "Zl", "Zp", "Cs")


def shown(name):
    """As text and CSV have it: what is no UTF-8 or no plain character is shown byte by byte."""
    out = ""
    for c in name.decode("utf-8", "surrogateescape"):
        out += c if plain(c) else "".join(f"\\x{b:02x}"
                                          for b in c.encode("utf-8", "surrogateescape"))
    return out


def exact(name):
    """As JSON has it: only what is no UTF-8 is shown as bytes."""
    return "".join(c if not 0xdc80 <= ord(c) <= 0xdcff else f"\\x{ord(c) - 0xdc00:02x}"
                   for c in name.decode("utf-8", "surrogateescape"))


def text(name):
    return name.decode("utf-8", "surrogateescape")


# ---- a program with such names: assembled with others of the same length,
# which are then replaced ----

D = tempfile.mkdtemp(prefix="spex-names-")
atexit.register(shutil.rmtree, D)


def stand_in(kind, i, size):
    word = f"{kind}{i:02d}_".encode()
    return word + b"z" * (size - len(word))


def program(path):
    swaps = [(stand_in("f", i, len(n)), n) for i, n in enumerate(NAMES)]
    swaps += [(stand_in("d", i, len(n) + 1), b"D" + n) for i, n in enumerate(NAMES)]
    swaps.append((stand_in("s", 0, len(SOURCE_FILE)), SOURCE_FILE))
    asm = f'.file 1 "{swaps[-1][0].decode()}"\n.text\n'
    for i in range(len(NAMES)):
        f = swaps[i][0].decode()
        asm += (f'.balign {STEP}\n.globl {f}\n.type {f}, %function\n{f}:\n'
                f'.loc 1 {i + 1} 0\nldr x0, [x0]\n')
        asm += f'.loc 1 {i + 2} 0\ncbnz x0, {f}\nret\n.size {f}, . - {f}\n'
    asm += ".data\n"
    for i in range(len(NAMES)):
        d = swaps[len(NAMES) + i][0].decode()
        asm += f".balign {STEP}\n.globl {d}\n.type {d}, %object\n.size {d}, 64\n{d}: .skip 64\n"
    with open(f"{D}/names.S", "w") as f:
        f.write(asm)
    subprocess.run(["aarch64-linux-gnu-gcc", "-nostdlib", "-static", "-no-pie", f"{D}/names.S",
                    "-o", f"{D}/names", f"-Wl,-e,{CODE},-Ttext={CODE:#x},-Tdata={DATA:#x}"],
                   check=True)
    data = open(f"{D}/names", "rb").read()
    for a, b in swaps:
        assert a in data and len(a) == len(b), a[:20]
        data = data.replace(a + b"\0", b + b"\0")
    with open(path, "wb") as f:
        f.write(data)
    at, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", data, at + size * i) for i in range(count)]
    return [(h[3], h[2]) for h in headers if h[0] == 1 and h[6]]  # PT_LOAD: address, offset


os.makedirs(f"{D}/root/bin".encode())
SEGMENTS = program(f"{D}/root/bin/".encode() + DSO)


def profile(path, seed=0):
    f = pd.File(cpus=2)
    for a in f.attrs:
        a["name"] = "arm_spe_0/\x1b[31m\udcff,\"/"
    f.features[3] = f.string("ho\x1bst\n")
    f.features[11] = f.p("I", 2) + f.string("pe\x1brf") + f.string("\udcff")
    f.features[12] = f.p("II", len(f.attrs), f.attr_size) + b"".join(
        f.attr(a) + f.p("I", 1) + f.string(a["name"]) + f.p("Q", a["id"]) for a in f.attrs)
    for tid, comm in enumerate(COMMS, 100):
        f.comm(100, tid, text(comm), time=1)
    for address, offset in SEGMENTS:
        f.mmap2(100, 100, address & ~0xfff, 0x4000, "/bin/" + text(DSO), pgoff=offset & ~0xfff,
                time=1, prot=3 if address >= DATA else 5)
    f.mmap(100, 100, 0x800000, 0x1000, text(LOST), time=1)
    for cpu in range(2):
        time, spe = 1000 + cpu, b""
        for i in range(16 * len(NAMES)):
            n = (i + seed) % len(NAMES)
            time += 10
            ctx = 100 + (cpu or i % 2 * 2)
            spe += pd.record(CODE + STEP * n, ctx=ctx, op=(1, (i // len(NAMES) + cpu) % 2),
                             va=DATA + STEP * n + 8 * cpu, source=9 if i % 3 else 0, ts=time)
            spe += pd.record(CODE + STEP * n + 4, ctx=ctx, op=(2, 1), events=0x82 if i % 3 else 2,
                             target=CODE + STEP * n, ts=time + 1)
            if i % 20 == 0:
                spe += pd.record(0x800100 + 4 * n, ctx=ctx, ts=time + 2)
        f.trace(spe, cpu=cpu, time=2)
    # PERF_RECORD_AUXTRACE_ERROR: type, code, cpu, pid, tid, fmt, ip, time, msg[64]
    f.raw(72, f.p("IIIiiIQQ", 1, 1, 0, 100, 100, 1, 0x401000, 5) +
          b"err\x1b]0;x\x07\xff\x9b\n\xe2\x80\xae,\"".ljust(64, b"\0"))
    with open(path, "wb") as out:
        out.write(f.bytes())


INPUT = b"in\x1b[31m\xff\n,\".data"
profile(D.encode() + b"/" + INPUT)
profile(f"{D}/other", 5)
