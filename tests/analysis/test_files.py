"""Where symbols and lines of a file are found: debug files by build id and by link in its
root, .gnu_debugdata, files shared by dwz, debuginfod. The unstripped program, read by
binutils, says what is right."""
import atexit, lzma, os, re, shutil, signal, socket, subprocess, sys, tempfile, time
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

CROSS = "aarch64-linux-gnu-"
D = tempfile.mkdtemp(prefix="spex-files-")
atexit.register(shutil.rmtree, D)
LOOKUP = os.path.join(BUILD, "tests/analysis/lookup")
ENV = {"HOME": D, "XDG_CACHE_HOME": f"{D}/no-cache", "DEBUGINFOD_URLS": ""}

SOURCES = {"a": """
#include <stdio.h>
#include <stdlib.h>
struct shared { int a; struct shared *next; char text[40]; };
static inline __attribute__((always_inline)) \
int step(struct shared *s, int n) { s->a = s->a * 31 + n;
    return s->a ^ n; }
static __attribute__((noipa)) int walk(struct shared *s, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += step(s, i);
    return sum;
}
static __attribute__((noipa)) \
int fill(struct shared *s) { return snprintf(s->text, 40, "%d", walk(s, 9)); }
int main(int argc, char **argv)
{
    struct shared s = {argc, NULL, ""};
    return fill(&s) + abs(step(&s, argc));
}
"""}
SOURCES["b"] = SOURCES["a"].replace("31", "37").replace("int main", "int other(struct shared *s) { "
                                                        "return walk(s, 3); }\nint main")


def shell(command, **kw):
    p = subprocess.run(command, shell=True, cwd=D, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, **kw)
    assert p.returncode == 0, (command, p.stdout)
    return p.stdout


for name, source in SOURCES.items():
    with open(f"{D}/{name}.c", "w") as f:
        f.write(source)
    shell(f"{CROSS}gcc -O2 -g {name}.c -o {name} && {CROSS}strip -o {name}.bare {name} && "
          f"{CROSS}objcopy --only-keep-debug {name} {name}.debug")
ID = re.search(r"Build ID: ([0-9a-f]+)", shell(f"{CROSS}readelf -n a")).group(1)
ID_DEBUG = f".build-id/{ID[:2]}/{ID[2:]}.debug"
# functions with a size: what addr2line says of the padding between is a guess
RANGES = [(int(a, 16), int(n, 16)) for a, n in re.findall(r"^(\S+) (\S+) [tT] (?:walk|fill|main)$",
                                                          shell(f"{CROSS}nm -S a"), re.M)]
CODE = [a for start, size in RANGES for a in range(start, start + size, 4)]
ADDRESSES = "".join(f"{a:x}\n" for a in CODE)



def truth(path):
    """(symbol, file:line, inlined functions) by binutils' addr2line."""
    rows = []
    out = shell(f"{CROSS}addr2line -afie {path}", input=ADDRESSES)
    for block in re.split(r"^0x[0-9a-f]+\n", out, flags=re.M)[1:]:
        lines = block.splitlines()
        names, places = lines[::2], lines[1::2]
        place = re.sub(r" \(discriminator \d+\)", "", places[0])
        rows.append((names[-1], place if not place.endswith(("?", ":0")) else "?",
                     tuple(names[:-1])))
    return rows


def lookup(path, *options, env=ENV):
    code, out, err = run(LOOKUP, *options, path, stdin=ADDRESSES.encode(), env=env)
    return [(f[0], f[1], tuple(f[2:]))
            for f in (l.split("\t") for l in out.decode().splitlines())], err.strip()


def names_and_lines(what, path, *options, lines=True, env=ENV, want=None):
    rows, err = lookup(path, *options, env=env)
    want = want or TRUTH
    odd = [(f"{CODE[i]:x}", r, w) for i, (r, w) in enumerate(zip(rows, want))
           if (r[0] != w[0] and w[0] != "??") or (lines and r[1:] != w[1:])]
    return check(what, len(rows) == len(want) and not odd and not err, (odd[:4], err))


TRUTH = truth("a")
check("addr2line knows names, lines and inlined functions",
      {"walk", "fill", "main"} <= {r[0] for r in TRUTH} and any("step" in r[2] for r in TRUTH))
names_and_lines("the program with all that it needs", f"{D}/a")

rows, err = lookup(f"{D}/a.bare", "-d", f"{D}/none")
check("stripped: told where its debug file is looked for",
      "stripped" in err and f"/none/{ID_DEBUG}" in err or f"usr/lib/debug/{ID_DEBUG}" in err, err)

# ---- below a root: a sysroot, an unpacked container ----
os.makedirs(f"{D}/root/usr/bin")
os.makedirs(f"{D}/root/usr/lib/debug/.build-id/{ID[:2]}")
shutil.copy(f"{D}/a.bare", f"{D}/root/usr/bin/prog")
rows, err = lookup(f"{D}/root/usr/bin/prog")
equal("stripped, in a root: the place is below the root", err.split()[-1],
      f"{D}/root/usr/lib/debug/{ID_DEBUG}")
shutil.copy(f"{D}/a.debug", err.split()[-1])
names_and_lines("what was told to do helps", f"{D}/root/usr/bin/prog")
names_and_lines("with the build id that was recorded", f"{D}/root/usr/bin/prog", "-i", ID)
names_and_lines("--symfs is the root", "/usr/bin/prog", "-s", f"{D}/root")
names_and_lines("--symfs is the root of a file recorded there", f"{D}/root/usr/bin/prog", "-s",
                f"{D}/root", "-i", ID)
names_and_lines("--symfs elsewhere: the very build that ran still counts", f"{D}/root/usr/bin/prog",
                "-s", f"{D}/none", "-i", ID)
rows, err = lookup(f"{D}/root/usr/bin/prog", "-s", f"{D}/none")
check("--symfs elsewhere, build not known: not read",
      all(r[0] == "?" for r in rows) and "no such file here" in err, err)
shutil.move(f"{D}/root/usr/lib/debug/{ID_DEBUG}", f"{D}/kept.debug")
os.makedirs(f"{D}/cache/.build-id/{ID[:2]}/{ID[2:]}")
shutil.copy(f"{D}/a.debug", f"{D}/cache/.build-id/{ID[:2]}/{ID[2:]}/debug")
names_and_lines("perf's cache", f"{D}/root/usr/bin/prog", "-b", f"{D}/cache")
os.makedirs(f"{D}/root/usr/lib/debug/usr/bin")
shutil.copy(f"{D}/b.debug", f"{D}/root/usr/lib/debug/{ID_DEBUG}")
rows, err = lookup(f"{D}/root/usr/bin/prog")
check("a debug file of another build below the right name is not used",
      "walk" not in {r[0] for r in rows}, err)
os.unlink(f"{D}/root/usr/lib/debug/{ID_DEBUG}")

# ---- by link, without a build id: the checksum decides ----
shell(f"{CROSS}objcopy -R .note.gnu.build-id a noid && {CROSS}objcopy --only-keep-debug "
      "noid linked.debug && "
      f"{CROSS}strip -o linked noid && {CROSS}objcopy --add-gnu-debuglink=linked.debug linked && "
      "mv linked root/usr/bin/linked && mv linked.debug root/usr/lib/debug/usr/bin/")
names_and_lines("debug link below the debug directory of the root", f"{D}/root/usr/bin/linked")
names_and_lines("... through --symfs", "/usr/bin/linked", "-s", f"{D}/root")
os.makedirs(f"{D}/root/usr/bin/.debug")
shutil.move(f"{D}/root/usr/lib/debug/usr/bin/linked.debug", f"{D}/root/usr/bin/.debug/linked.debug")
names_and_lines("debug link in .debug", f"{D}/root/usr/bin/linked")
with open(f"{D}/root/usr/bin/.debug/linked.debug", "ab") as f:
    f.write(b"x")
rows, err = lookup(f"{D}/root/usr/bin/linked")
check("a debug file with another checksum is refused and told",
      "walk" not in {r[0] for r in rows} and "another build" in err, err)

# ---- .gnu_debugdata, as Fedora makes it: symbols that .dynsym does not have, in xz format ----
shell(f"{CROSS}objcopy -g --remove-section .comment a.debug small.elf")
with open(f"{D}/small.elf", "rb") as f:
    small = f.read()


def with_debugdata(name, data):
    with open(f"{D}/{name}.xz", "wb") as f:
        f.write(data)
    shell(f"{CROSS}objcopy --add-section .gnu_debugdata={name}.xz a.bare {name}")
    return f"{D}/{name}"


rows, err = lookup(with_debugdata("small", lzma.compress(small)))
odd = [(r[0], w[0]) for r, w in zip(rows, TRUTH) if w[0] in ("walk", "fill") and r[0] != w[0]]
check(".gnu_debugdata: its names, and no advice",
      {"walk", "fill"} <= {r[0] for r in rows} and not odd and not err, (odd[:3], err))
for what, data in [("cut", lzma.compress(small)[:300]), ("no xz", b"x" * 1000), ("empty", b""),
                   ("no ELF", lzma.compress(b"y" * 5000))]:
    rows, err = lookup(with_debugdata("small", data))
    check(f".gnu_debugdata {what}: as if it was not there",
          len(rows) == len(TRUTH) and "stripped" in err, err)
rows, err = lookup(with_debugdata("small", lzma.compress(bytes(300 << 20), preset=0)))
check(".gnu_debugdata of 300 MB: as if it was not there",
      len(rows) == len(TRUTH) and "stripped" in err, err)

# ---- dwz: DWARF that two files share ----
if shutil.which("dwz"):
    for f in "ab":
        shutil.copy(f"{D}/{f}.debug", f"{D}/{f}.dwz")
    shell("cp a a.full; cp b b.full; mkdir -p root/usr/lib/debug/.dwz && "
          "dwz -m root/usr/lib/debug/.dwz/both.debug -M "
          "/usr/lib/debug/.dwz/both.debug a.full b.full && "
          f"{CROSS}readelf -SW a.full | grep -q gnu_debugaltlink && cp a.full root/usr/bin/full")
    shell(f"{CROSS}objcopy --only-keep-debug a.full a.dwz && cp a.dwz "
          f"root/usr/lib/debug/{ID_DEBUG}")
    names_and_lines("dwz: the shared file below the root of the debug file",
                    f"{D}/root/usr/bin/prog")
    alt = re.search(r"Build ID: ([0-9a-f]+)",
                    shell(f"{CROSS}readelf -n root/usr/lib/debug/.dwz/both.debug")).group(1)
    shell(f"mkdir -p root/usr/lib/debug/.build-id/{alt[:2]} && "
          "mv root/usr/lib/debug/.dwz/both.debug "
          f"root/usr/lib/debug/.build-id/{alt[:2]}/{alt[2:]}.debug")
    names_and_lines("dwz: the shared file by its build id", f"{D}/root/usr/bin/prog")
    shell(f"rm root/usr/lib/debug/.build-id/{alt[:2]}/{alt[2:]}.debug")
    names_and_lines("dwz: without the shared file names and lines are still there",
                    f"{D}/root/usr/bin/prog", lines=False)
    os.unlink(f"{D}/root/usr/lib/debug/{ID_DEBUG}")
else:
    skip("dwz", "dwz is not installed")


# ---- debuginfod ----

if shutil.which("debuginfod"):
    port = free_ports(1)[0]
    os.makedirs(f"{D}/served")
    shutil.copy(f"{D}/a.debug", f"{D}/served/a.debug")
    shutil.copy(f"{D}/b", f"{D}/served/b")
    url = f"http://127.0.0.1:{port}"
    client = {**ENV, "DEBUGINFOD_URLS": url, "XDG_CACHE_HOME": f"{D}/xdg",
              "DEBUGINFOD_CACHE_PATH": f"{D}/fetched"}
    log = open(f"{D}/server.log", "wb")
    server = subprocess.Popen(["debuginfod", "-p", str(port), "-d", ":memory:", "-F",
                               f"{D}/served"],
                              stdout=log, stderr=log, env={**os.environ, "DEBUGINFOD_URLS": ""})
    try:
        bid = re.search(r"Build ID: ([0-9a-f]+)", shell(f"{CROSS}readelf -n b")).group(1)
        while server.poll() is None:  # until it has read its files
            code, out, err = run("python3", "-c", "import sys, urllib.request as u; "
                                 "u.urlopen(sys.argv[1]).read(1); u.urlopen(sys.argv[2]).read(1)",
                                 f"{url}/buildid/{ID}/debuginfo", f"{url}/buildid/{bid}/executable")
            if code == 0:
                break
            time.sleep(0.1)
        if check("debuginfod serves", server.poll() is None, open(log.name).read()):
            names_and_lines("debuginfod: the debug file", f"{D}/root/usr/bin/prog", env=client)
            check("... is in the client's cache", os.path.exists(f"{D}/fetched/{ID}/debuginfo"),
                  os.listdir(D))
            names_and_lines("debuginfod: a program that is not here at all", "/nowhere/b", "-i",
                            bid, env=client, lines=False, want=[("??", "", ())] * len(TRUTH))
            rows, err = lookup(f"{D}/root/usr/bin/linked", env=client)
            check("debuginfod: a file without a build id is not asked for", "another build" in err,
                  err)
            rows, err = lookup(f"{D}/root/usr/bin/prog", env={**client, "DEBUGINFOD_URLS": ""})
            check("without DEBUGINFOD_URLS nobody is asked", "stripped" in err, err)
    finally:
        server.terminate()
        server.wait()
    rows, err = lookup(f"{D}/root/usr/bin/prog",
                       env={**client, "DEBUGINFOD_CACHE_PATH": f"{D}/empty"})
    check("debuginfod: a server that is not there is told, and the rest is named",
          "DEBUGINFOD_URLS" in err and len(rows) == len(TRUTH), err)
    # a server that takes the connection and never answers
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(8)
        rows, err = lookup(f"{D}/root/usr/bin/prog",
                           env={**client,
                                "DEBUGINFOD_URLS": f"http://127.0.0.1:{deaf.getsockname()[1]}",
                                "DEBUGINFOD_CACHE_PATH": f"{D}/empty", "DEBUGINFOD_TIMEOUT": "2",
                                "DEBUGINFOD_RETRY_LIMIT": "0"})
        check("debuginfod: a deaf server ends with a message",
              "DEBUGINFOD_URLS" in err and len(rows) == len(TRUTH), err)
else:
    skip("debuginfod", "debuginfod is not installed")
done()
