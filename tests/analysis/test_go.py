"""Go's table of functions and lines (.gopclntab) in each of its layouts: names and lines of a
program without any other symbol, against what was put in and, where Go is installed, against go
tool addr2line. Damaged tables end."""
import atexit, os, random, shutil, subprocess, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

CROSS = "aarch64-linux-gnu-"
D = tempfile.mkdtemp(prefix="spex-go-")
atexit.register(shutil.rmtree, D)
LOOKUP = os.path.join(BUILD, "tests/analysis/lookup")
ENV = {"HOME": D, "DEBUGINFOD_URLS": ""}
GO = shutil.which("go")
MAGIC = {"1.2": 0xfffffffb, "1.16": 0xfffffffa, "1.18": 0xfffffff0, "1.20": 0xfffffff1}
FILES = ["/src/main.go", "/src/other.go", "/usr/lib/go/src/runtime/proc.go"]
# name, instructions with a file and a line each
FUNCTIONS = [
    ("main.main", [(0, 10), (0, 10), (0, 11), (1, 4), (1, 4), (0, 12)]),
    ("main.(*tree).insert", [(0, 20)] * 5 + [(0, 18)] * 40),
    ("main.walk[...]", [(1, 7), (2, 300), (2, 301), (1, 8)]),
    ("runtime.mallocgc", [(2, 900 + i // 3) for i in range(200)]),
    ("type..eq.[2]interface {}", [(2, 1)]),
]


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def values(steps):
    """Pairs: zigzag change of the value, instructions that it stays for; 0 ends."""
    out, last, i = b"", -1, 0
    while i < len(steps):
        n = 1
        while i + n < len(steps) and steps[i + n] == steps[i]:
            n += 1
        change = steps[i] - last
        out += varint((change << 1) if change >= 0 else (~change << 1 | 1)) + varint(n)
        last = steps[i]
        i += n
    return out + b"\0"


def table(version, text):
    """Assembly of the section; text is its first function's label, or 0 (1.18:
    relocated by the linker)."""
    new, byunit = version in ("1.18", "1.20"), version != "1.2"
    word = ".4byte" if new else ".8byte"
    out = f"t: .4byte {MAGIC[version]:#x}\n.byte 0, 0, 4, 8\n.8byte {len(FUNCTIONS)}\n"
    if byunit:
        out += f".8byte {len(FILES)}\n" + (f".8byte {text}\n" if new else "")
        out += ".8byte names - t, units - t, files - t, values - t, functions - t\n"
        out += "functions:\n"
    for i, (name, steps) in enumerate(FUNCTIONS):
        base = "functions" if byunit else "t"
        out += f"{word} f{i}{' - f0' if new else ''}, body{i} - {base}\n"
    out += f"{word} end{' - f0' if new else ''}\n"
    if not byunit:
        out += ".4byte files - t\n"
    for i, (name, steps) in enumerate(FUNCTIONS):
        base = "names" if byunit else "t"
        vals = "values" if byunit else "t"
        out += (f".balign 4\nbody{i}: {word} f{i}{' - f0' if new else ''}\n"
                f".4byte name{i} - {base}, 0, 0, 0, file{i} - {vals}, line{i} - {vals}, 0\n")
        out += f".4byte {i % 2 * len(FILES)}\n" if byunit else ""
    out += ".balign 4\n"
    if byunit:  # two units with the same files
        out += ("units: .4byte " +
                ", ".join(f"path{i} - files" for _ in range(2) for i in range(len(FILES))) + "\n")
    else:  # numbers begin with 1
        out += (f"files: .4byte {len(FILES) + 1}, " +
                ", ".join(f"path{i} - t" for i in range(len(FILES))) + "\n")
    out += "files: .byte 0\n" if byunit else ""
    out += "".join(f'path{i}: .asciz "{f}"\n' for i, f in enumerate(FILES))
    out += "names: .byte 0\n" if byunit else ""
    out += "".join(f'name{i}: .asciz "{n}"\n' for i, (n, _) in enumerate(FUNCTIONS))
    out += "values: .byte 0\n" if byunit else ""
    for i, (name, steps) in enumerate(FUNCTIONS):
        for kind, column in (("file", 0), ("line", 1)):
            numbers = [s[column] + (column == 0 and not byunit) for s in steps]
            out += f"{kind}{i}: .byte " + ", ".join(map(str, values(numbers))) + "\n"
    return out + ".byte 0\n"


def program(version, name, pie=False):
    code = "".join(f"f{i}:\n.rept {len(steps)}\nnop\n.endr\n"
                   for i, (n, steps) in enumerate(FUNCTIONS))
    asm = (f".text\n.globl _start\n_start: .rept {9 if pie else 0}\nnop\n.endr\n"
           f"{code}end: .rept 20\nnop\n.endr\n"
           f'.section .gopclntab, "a{"w" if pie else ""}"\n.balign 8\n{table(version, "f0")}\n'
           '.section .gosymtab, "a"\n.byte 0\n')
    with open(f"{D}/go.S", "w") as f:
        f.write(asm)
    subprocess.run([f"{CROSS}gcc", "-nostdlib", "-static-pie" if pie else "-no-pie",
                    *([] if pie else ["-static"]), f"{D}/go.S", "-o", f"{D}/full",
                    "-Wl,--build-id=none"], check=True)
    nm = subprocess.run([f"{CROSS}nm", f"{D}/full"], capture_output=True, text=True).stdout
    start = next(int(l.split()[0], 16) for l in nm.splitlines() if l.endswith(" f0"))
    subprocess.run([f"{CROSS}strip", "-o", f"{D}/{name}", f"{D}/full"], check=True)
    return f"{D}/{name}", start


def lookup(path, addresses):
    code, out, err = run(LOOKUP, path, stdin="".join(f"{a:x}\n" for a in addresses).encode(),
                         env=ENV)
    return code, [l.split("\t")[:2] for l in out.decode(errors="replace").splitlines()], err


for version, pie in [(v, False) for v in MAGIC] + [("1.18", True)]:
    what = f"Go {version}{', PIE' if pie else ''}"
    path, start = program(version, f"go-{version}", pie)
    want, at = [], start
    for name, steps in FUNCTIONS:
        for file, line in steps:
            want.append((at, [name, f"{FILES[file]}:{line}"]))
            at += 4
    code, got, err = lookup(path, [a for a, _ in want])
    odd = [(hex(a), w, g) for (a, w), g in zip(want, got) if w != g]
    check(f"{what}: names and lines", len(got) == len(want) and not odd, (odd[:4], err))
    code, got, err = lookup(path, [start - 4, at, at + 40])
    check(f"{what}: nothing beyond its functions",
          all(g[1] == "?" and "main" not in g[0] and "type" not in g[0] for g in got), got)
    if GO:
        out = subprocess.run([GO, "tool", "addr2line", path],
                             input="".join(f"{a:#x}\n" for a, _ in want),
                             capture_output=True, text=True, env={**os.environ, "HOME": D})
        lines = out.stdout.splitlines()
        odd = [(hex(a), w, lines[2 * i:2 * i + 2])
               for i, (a, w) in enumerate(want) if lines[2 * i:2 * i + 2] != w]
        # of a PIE it takes the start of .text for that of Go's code; older ones do not know 1.20
        if not pie and not (version == "1.20" and lines[:1] == ["?"]):
            check(f"{what}: go tool addr2line says the same", not odd, (odd[:3], out.stderr))
    # damage: whatever stands in the table, each look-up ends
    with open(path, "rb") as f:
        data = bytearray(f.read())
    table_at = data.find(MAGIC[version].to_bytes(4, "little") + b"\0\0\4\x08")
    rng = random.Random(version)
    bad = []
    for round in range(60):
        broken = bytearray(data)
        for _ in range(1 + round % 8):
            broken[table_at + rng.randrange(8, 80 if round % 3 else 900)] = rng.choice(
                (0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)))
        with open(f"{D}/broken", "wb") as f:
            f.write(broken)
        code, got, err = lookup(f"{D}/broken", [a for a, _ in want[::5]])
        if code or len(got) != len(want[::5]):
            bad.append((round, code))
    check(f"{what}: damaged tables", not bad, bad)
if not GO:
    skip("go tool addr2line", "Go is not installed")
done()
