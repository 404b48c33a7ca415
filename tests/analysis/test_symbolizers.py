"""Names and lines of a thousand random code addresses of files that nobody here made, against
binutils' addr2line and llvm-symbolizer: Debian's arm64 libc and loader with their debug files in a
sysroot; own programs built in several ways."""
import atexit, json, random, shutil, subprocess, tempfile
import os, re, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

CROSS = "aarch64-linux-gnu-"
LOOKUP = os.path.join(BUILD, "tests/analysis/lookup")
LLVM = next((p for p in ("llvm-symbolizer-14", "llvm-symbolizer") if shutil.which(p)), None)
D = tempfile.mkdtemp(prefix="spex-symbolizers-")
atexit.register(shutil.rmtree, D)
ENV = {**os.environ, "HOME": D, "DEBUGINFOD_URLS": ""}
COUNT = 1000


def out(*command, stdin=None):
    return subprocess.run(command, input=stdin, capture_output=True, text=True, env=ENV,
                          errors="replace").stdout


def functions(path):
    """Start -> all names there; and ranges with a size."""
    names, ranges = {}, []
    for line in out(f"{CROSS}readelf", "-sW", path).splitlines():
        f = line.split()
        if len(f) >= 8 and f[3] in ("FUNC", "IFUNC") and f[6] != "UND":
            start, size = int(f[1], 16), int(f[2], 0)
            names.setdefault(start, set()).add(re.sub(r"@.*", "", f[7]))
            if size:
                ranges.append((start, size))
    return names, sorted(set(ranges))


def compare(what, image, debug):
    names, ranges = functions(debug)
    rng = random.Random(what)
    addresses = sorted({rng.randrange(s, s + n) & ~3
                        for s, n in rng.choices(ranges, weights=[n for _, n in ranges],
                                                k=2 * COUNT)})[:COUNT]
    stdin = "".join(f"{a:#x}\n" for a in addresses)
    got = [l.split("\t") for l in out(LOOKUP, image, stdin=stdin).splitlines()]
    if not check(f"{what}: every address is answered", len(got) == len(addresses), len(got)):
        return
    # the symbol: what the table says of its start, whichever alias was chosen
    starts = {}
    for s, n in ranges:
        for name in names[s]:
            starts.setdefault(name, []).append((s, n))
    odd = [(hex(a), g[0]) for a, g in zip(addresses, got)
           if not any(s <= a < s + n for s, n in starts.get(g[0], []))]
    check(f"{what}: {len(addresses)} names are of symbols that hold the address", not odd, odd[:5])
    binutils = re.split(r"^0x[0-9a-f]+\n", out(f"{CROSS}addr2line", "-afie", debug, stdin=stdin),
                        flags=re.M)[1:]
    lines, odd = 0, []
    for a, g, block in zip(addresses, got, binutils):
        rows = block.splitlines()
        place = re.sub(r" \(discriminator \d+\)", "", rows[1])
        if place.endswith(("?", ":0")):
            continue
        lines += 1
        # binutils 2.40 takes file names of DWARF 5 from the wrong row: the
        # line and the depth are right
        if (place.split(":")[-1], len(rows) // 2) != (g[1].split(":")[-1], len(g) - 1):
            odd.append((hex(a), rows, g))
    check(f"{what}: {lines} lines and depths as addr2line has them",
          not odd and len(binutils) == len(addresses), odd[:4])
    if not LLVM:
        skip(f"{what}: llvm-symbolizer", "not installed")
        return
    rows = [json.loads(l).get("Symbol", [])
            for l in out(LLVM, f"--obj={debug}", "--output-style=JSON", "--functions=short",
                         "--no-demangle", stdin=stdin).splitlines()]
    lines, odd = 0, []
    for a, g, r in zip(addresses, got, rows):
        if not r or not r[0].get("Line"):
            continue
        lines += 1
        want = (f"{os.path.basename(r[0]['FileName'])}:{r[0]['Line']}",
                [x["FunctionName"] for x in r[:-1]])
        if want != (os.path.basename(g[1]), g[2:]):
            odd.append((hex(a), want, g))
    check(f"{what}: {lines} files, lines and inlined functions as llvm-symbolizer has them",
          not odd and len(rows) == len(addresses), (odd[:4], len(rows)))


SOURCE_FILE = os.path.join(SOURCE, "tests/guest/programs/work.c")
for what, flags in [("PIE", []), ("static", ["-static"]), ("LTO", ["-flto"]),
                    ("split DWARF", ["-gsplit-dwarf"]), ("-g1", ["-g1"]),
                    ("DWARF 4", ["-gdwarf-4"]), ("compressed", ["-gz"]),
                    ("shared library", ["-shared", "-fPIC"])]:
    path = os.path.join(D, re.sub(r"\W", "", what))
    p = subprocess.run([f"{CROSS}gcc", "-O2", "-g", *flags, "-pthread", SOURCE_FILE, "-o", path],
                       capture_output=True, text=True, cwd=D)
    if p.returncode:
        check(f"{what}: builds", False, p.stderr)
        continue
    compare(what, path, path)

# ---- what an indirect function chooses from has its name, in a stripped file ----
with open(os.path.join(D, "chooses.c"), "w") as f:
    f.write("""
static __attribute__((noipa)) int plain(int x) { return x * 3; }
static __attribute__((noipa)) int quick(int x) { return x * 5; }
static __attribute__((noipa)) int other(int x) { return x * 7; }
static int (*choose(unsigned long caps))(int) { return caps & 1 ? quick : plain; }
int work(int) __attribute__((ifunc("choose")));
int exported(int x) { return other(x) + work(x); }
""")
library, stripped = os.path.join(D, "chooses.so"), os.path.join(D, "stripped.so")
code, _, err = run(f"{CROSS}gcc", "-O2", "-shared", "-fPIC", "-o", library,
                   os.path.join(D, "chooses.c"))
check("a library with an indirect function builds", code == 0, err)
run(f"{CROSS}strip", "-o", stripped, library)
at = {l.split()[2]: int(l.split()[0], 16) for l in out(f"{CROSS}nm", library).splitlines()
      if l[:1] != " "}
got = {name: out(LOOKUP, stripped, stdin=f"{at[name]:#x}\n").split("\t")[0].strip()
       for name in ("plain", "quick", "other", "exported")}
equal("a stripped library: what the resolver chooses from, by the name of the indirect function",
      (got["plain"], got["quick"], got["exported"]), ("work@ifunc", "work@ifunc", "exported"))
check("and no other function", "work" not in got["other"] and "other" not in got["other"], got)

ARM64 = os.path.join(BUILD, "arm64-symbols")
code, _, err = run("sh", os.path.join(SOURCE, "scripts/fetch-debs"), ARM64, "libc6", "libc6-dbg",
                   timeout=300)
if code:
    skip("Debian's arm64 libc", "cannot be fetched: " + err.strip().splitlines()[-1])
    done()
for name in ("libc.so.6", "ld-linux-aarch64.so.1", "libm.so.6"):
    image = os.path.join(ARM64, "root/lib/aarch64-linux-gnu", name)
    ident = re.search(r"Build ID: ([0-9a-f]+)", out(f"{CROSS}readelf", "-n", image)).group(1)
    debug = os.path.join(ARM64, "root/usr/lib/debug/.build-id", ident[:2], ident[2:] + ".debug")
    compare(name, image, debug)
done()
