"""`spex dump --style perf --raw` against Debian's perf 6.1 on the same bytes in a perf.data."""
import os, random, re, shutil, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *
from support.perfdata import wrap

PACKET = re.compile(rb"^\.  [0-9a-f]{8}: ( [0-9a-f]{2}){1,16} +\S")


def perf_lines(stream, directory):
    path = os.path.join(directory, "perf.data")
    with open(path, "wb") as f:
        f.write(wrap(stream))
    code, out, err = run("perf", "report", "-D", "-i", path)
    lines = out.split(b"\n")
    start = [i for i, l in enumerate(lines) if b"ARM SPE data: size" in l]
    if not start:
        return [err.encode()]
    end = lines.index(b"", start[0])
    return lines[start[0] + 1:end]


def compare(name, stream, directory):
    stream += bytes(-len(stream) % 8)
    want = perf_lines(stream, directory)
    code, out, err = spex("dump", "--raw", "--style", "perf", "-", stdin=stream)
    got = out.split(b"\n")[:-1]
    detail = [f"perf {w!r}\nspex {g!r}" for w, g in zip(want, got) if w != g][:3]
    check(f"{name}: {len(want)} lines as perf 6.1 prints them", got == want and code == 0,
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


def version():
    if not shutil.which("perf"):
        return None
    code, out, err = run("perf", "--version")
    m = re.search(rb"version (6\.1)\b", out)
    return m and m.group(1).decode()


if not version():
    skip("comparison with perf", "perf 6.1 is not installed")
    done()

with tempfile.TemporaryDirectory() as d:
    compare("every operation payload in each class",
            b"".join(bytes([0x48 + c, p]) for c in range(4) for p in range(256)), d)
    compare("every events bit in each size",
            b"".join(bytes([0x42 + 16 * s]) + (1 << bit).to_bytes(SIZES[s], "little")
                     for s in range(4) for bit in range(8 * SIZES[s])), d)
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
    # 0x20 0x00 was a packet once: how far perf then goes depends on where the bytes lie in its memory
    reserved += [bytes([a, b]) for a in range(0x20, 0x24) for b in range(1, 256)
                 if b & 0x3f and (bytes([a, b]), size_of(b)) not in KNOWN]
    compare("reserved packets", b"".join(h + b"\x42\x02" for h in reserved) + bytes(16), d)
    noise = bytes(b for b in rng.randbytes(60000) if not 0x20 <= b < 0x24)
    compare("noise", noise + bytes(16), d)
done()
