"""`spex dump` in perf's styles against Debian's perf 6.1, and perf 7 where it can be fetched."""
import os, random, re, shutil, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *
from support.perfdata import wrap

PACKET = re.compile(rb"^\.  [0-9a-f]{8}: ( [0-9a-f]{2}){1,16} +\S")


def perf_lines(perf, stream, directory, midr):
    path = os.path.join(directory, "perf.data")
    with open(path, "wb") as f:
        f.write(wrap(stream, midr))
    code, out, err = run(perf, "report", "-D", "-i", path, timeout=300)
    lines = out.split(b"\n")
    start = [i for i, l in enumerate(lines) if b"ARM SPE data: size" in l]
    if not start:
        return [err.encode()]
    end = lines.index(b"", start[0])
    return lines[start[0] + 1:end]


def stale(line):
    """Class 0 with a subclass that perf 7 does not know: it prints the text
    of an earlier packet."""
    found = re.search(rb": (?: 2[0-3])? 48 ([0-9a-f]{2}) ", line)
    payload = int(found.group(1), 16) if found else 0
    return (payload & 0xf8) != 0 and (payload & 9) != 8


def compare(name, stream, directory, midr=None):
    stream += bytes(-len(stream) % 8)
    want = perf_lines(perf, stream, directory, midr)
    if midr is None:
        code, out, err = spex("dump", "--raw", "--style", style, "-", stdin=stream)
        got = out.split(b"\n")[:-1]
    else:
        code, out, err = spex("dump", "--style", style, os.path.join(directory, "perf.data"))
        got = out.split(b"bytes\n", 1)[1].split(b"\n")[:-1]
    if style == "perf-7":
        got, want = ([l[:62] if stale(l) else l for l in lines] for lines in (got, want))
    detail = [f"perf {w!r}\nspex {g!r}" for w, g in zip(want, got) if w != g][:3]
    check(f"{name}: {len(want)} lines as perf {known_as} prints them", got == want and code == 0,
          "\n".join(detail) + f"\n{len(got)} and {len(want)} lines {err}")


SIZES = (1, 2, 4, 8)


def size_of(header):
    return SIZES[header >> 4 & 3]


# Headers that perf 6.1 knows: (header bytes, payload size).
KNOWN = [(bytes([h]), size_of(h)) for h in
         [0x71, *range(0x42, 0x82, 0x10), *range(0x43, 0x83, 0x10), *range(0x64, 0x68),
          *range(0x48, 0x4c), *range(0xb0, 0xb8), *range(0x98, 0xa0)]]
KNOWN += [(bytes([a, b]), size_of(b)) for a in range(0x20, 0x24)
          for b in [*range(0xb0, 0xb8), *range(0x98, 0xa0)]]
KNOWN += [(b"\x01", 0), (b"\0", 0)]


def version(program):
    if not shutil.which(program):
        return ""
    found = re.search(rb"version ([0-9.]+)", run(program, "--version")[1])
    return found.group(1).decode() if found else ""


def perf7():
    """perf 7, unpacked in the build directory: its program, or a name that does not exist."""
    where = os.path.join(BUILD, "perf7")
    run(os.path.join(SOURCE, "scripts/perf7-setup"), where, timeout=600)
    return os.path.join(where, "perf")


def compare_all(d):
    compare("every operation payload in each class",
            b"".join(bytes([0x48 + c, p]) for c in range(4) for p in range(256)), d)
    every_event = b"".join(bytes([0x42 + 16 * s]) + (1 << bit).to_bytes(SIZES[s], "little")
                           for s in range(4) for bit in range(8 * SIZES[s]))
    compare("every events bit in each size", every_event, d)
    if style == "perf-7":
        compare("every events bit on a Neoverse N1", every_event, d, 0x413fd0c1)
        compare("every events bit on a Neoverse V1", every_event, d, 0x411fd401)
    compare("every known header with edge payloads",
            b"".join(h + payload.to_bytes(8, "little")[:n] for h, n in KNOWN for payload in
                     (0, 1, 9, 10, 99, 100, 0x7fff, 0xffff, (1 << 64) - 1, 1 << 63, 1 << 62,
                      1 << 61, 1 << 60, 0xf << 56, 0x0123456789abcdef)), d)
    compare("padding runs", b"".join(bytes(n) + b"\x01" for n in range(1, 70)), d)
    rng = random.Random(18)
    stream = b""
    for _ in range(30000):
        header, size = rng.choice(KNOWN)
        stream += header + rng.randbytes(size) + bytes(rng.choice((0, 0, 0, 1, 5, 16, 40)))
    compare("random packets", stream, d)
    known = {h[0] for h, _ in KNOWN if len(h) == 1}
    reserved = [bytes([h]) for h in range(256) if h not in known and not 0x20 <= h < 0x24]
    reserved += [bytes([a, b]) for a in range(0x20, 0x24) for b in range(1, 256)
                 if b & 0x3f and (bytes([a, b]), size_of(b)) not in KNOWN]
    compare("reserved packets", b"".join(h + b"\x42\x02" for h in reserved) + bytes(16), d)
    # Up to a boundary of 2, 4 and 8 bytes. 0x23: of 16, and where perf has the data nobody knows.
    compare("extended headers with nothing behind",
            b"".join(bytes(n) + bytes([h, 0, 0x42, 2, 0x42, 2, 0x42, 2, 0x42, 2])
                     for h in range(0x20, 0x23) for n in range(1, 9)) + bytes(16), d)
    noise = bytes(b for b in rng.randbytes(60000) if b != 0x23)
    compare("noise", noise + bytes(16), d)


for perf, style, wanted in ("perf", "perf", r"6\.1\b"), (perf7(), "perf-7", r"7\."):
    known_as = version(perf)
    if not re.match(wanted, known_as):
        skip(f"comparison of --style {style}", f"there is no such perf: {known_as or 'none'}")
        continue
    with tempfile.TemporaryDirectory() as d:
        compare_all(d)
done()
