"""Programs optimized with SPE profiles, without Arm hardware: what they did before
and after, counted exactly.

Usage: test_pgo.py [--write docs/optimize.md]. `make check-pgo` runs it; it takes some minutes, so
`make check` does not. What it needs is fetched by scripts/feeds-setup (BOLT, llvm-profgen) and
scripts/fetch-debs (sqlite3's source) into the build directory.
"""
import re, sys
sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/export")
from feeds import *

HERE = os.path.dirname(os.path.abspath(__file__))
CROSS = "aarch64-linux-gnu-"
COLUMNS = ("operations", "l1_miss", "llc_miss", "walk", "mispredicted branches", "taken branches",
           "cycles")
TABLES = {}


def must(name, *args, **kw):
    """A step without which the rest means nothing."""
    program = use if tool(args[0]) and "/" not in args[0] else run
    kw.setdefault("cwd", DIR)
    code, out, err = program(*args, **kw)
    if not check(name, code == 0, err[-2000:] + out.decode(errors="replace")[-2000:]):
        done()
    return out.decode(errors="replace") + err


def measure(name, program, *words, stdin=None, cpu="neoverse-v2,pbt", period="1024", model="full"):
    """Records a program and counts all that it does: (its output, {what: how often})."""
    must(f"{name} is recorded", SPEX, "record", "-q", "--truth", "--model", model, "--cpu", cpu,
         "-c", period, "-o", f"{name}.data", program, *words, stdin=stdin)
    code, out, err = run("qemu-aarch64", program, *words, stdin=stdin, cwd=DIR)
    sums = [0] * len(COLUMNS)
    for line in open(f"{DIR}/{name}.data.truth"):
        if line[0] != "#":
            sums = [a + int(b) for a, b in zip(sums, line.split()[2:])]
    return (code, out), dict(zip(COLUMNS, sums))


def compare(title, rows):
    """A table of docs/optimize.md: rows are (name, counts), the first is what the
    others are measured by."""
    what = ("operations", "taken branches", "mispredicted branches", "cycles")
    base = rows[0][1]
    lines = ["| | " + " | ".join(what) + " |", "|---" * (len(what) + 1) + "|"]
    for name, counts in rows:
        cells = [f"{counts[w]:,}" + ("" if counts is base or not base[w]
                                     else f" ({100 * (counts[w] / base[w] - 1):+.1f}%)")
                 for w in what]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    TABLES[title] = "\n".join(lines)
    print("\n".join("# " + l for l in lines), flush=True)


def bolt(name, program, profile, *options):
    """A program rewritten by BOLT with a profile."""
    must(f"{name}: export for BOLT", SPEX, "export", "--to", "bolt", "-i", f"{profile}.data", "-o",
         f"{name}.preagg")
    must(f"{name}: perf2bolt", "perf2bolt-22", "-pa", "-p", f"{name}.preagg", "-o", f"{name}.fdata",
         program)
    must(f"{name}: llvm-bolt", "llvm-bolt-22", program, "-o", f"{DIR}/{name}", "-data",
         f"{name}.fdata", "-reorder-blocks=ext-tsp",
         "-reorder-functions=cdsort", "-split-functions", "-split-all-cold", *options)
    return f"{DIR}/{name}"


for name in ("perf2bolt-22", "llvm-bolt-22", "llvm-profgen-22"):
    if not tool(name):
        check(f"{name} is at hand", False, "scripts/feeds-setup fetches it; is the network up?")
        done()

# ---- 1. cold code between hot blocks, moved away by BOLT ----
PLAIN = f"{DIR}/checked"
must("the program is built", CROSS + "gcc", "-O2", "-g", "-static", "-Wl,-q", "-o", PLAIN,
     f"{HERE}/checked.c")
output, before = measure("checked", PLAIN)
rows = [("gcc -O2", before)]
for name, cpu in (("bolt", None), ("bolt-n1", "neoverse-n1")):
    profile = "checked"
    if cpu:  # without the previous branch target
        profile = "checked-n1"
        must("recorded as an N1", SPEX, "record", "-q", "--cpu", cpu, "-c", "1024", "-o",
             f"{profile}.data", PLAIN)
    same, after = measure(name, bolt(f"checked.{name}", PLAIN, profile))
    equal(f"{name}: the program does what it did", same, output)
    check(f"{name}: fewer taken branches", after["taken branches"] < 0.9 * before["taken branches"],
          (before, after))
    rows.append(("BOLT, with the previous branch target" if not cpu
                 else "BOLT, Neoverse N1 (no previous branch target)", after))
compare("bolt", rows)

# ---- 2. sample profiles for clang ----
FLAGS = ["--target=aarch64-linux-gnu", "-O2", "-g", "-gdwarf-4", "-fdebug-info-for-profiling",
         "-static"]
must("the program is built by clang", "clang", *FLAGS, "-o", f"{DIR}/clang", f"{HERE}/checked.c")
output, before = measure("clang", f"{DIR}/clang")
must("export for llvm-profgen", SPEX, "export", "--to", "profgen", "-i", "clang.data", "-o",
     "clang.unsym")
must("llvm-profgen", "llvm-profgen-22", "--binary=clang", "--unsymbolized-profile=clang.unsym",
     "--output=profgen.prof", "--format=text")
must("export as a sample profile", SPEX, "export", "--to", "llvm", "-i", "clang.data", "-o",
     "llvm.prof")
rows = [("clang -O2", before)]
for name, title in (("profgen", "profile of `profgen` and llvm-profgen"),
                    ("llvm", "profile of `llvm`")):
    must(f"clang with the {title}", "clang", *FLAGS, f"-fprofile-sample-use={name}.prof", "-o",
         f"{DIR}/{name}.better", f"{HERE}/checked.c")
    same, after = measure(f"{name}.better", f"{DIR}/{name}.better")
    equal(f"{title}: the program does what it did", same, output)
    check(f"{title}: fewer operations or mispredictions",
          after["operations"] < 0.99 * before["operations"] or
          after["mispredicted branches"] < 0.9 * before["mispredicted branches"], (before, after))
    rows.append((title, after))
compare("clang", rows)

# ---- 3. sqlite3 from Debian's source, BOLTed ----
SQLITE = f"{BUILD}/pgo/sqlite"
if not os.path.exists(f"{SQLITE}/shell.c"):
    shutil.rmtree(SQLITE, ignore_errors=True)
    must("sqlite3's source", f"{SOURCE}/scripts/fetch-debs", f"{BUILD}/pgo", "--source", "sqlite3",
         timeout=900)
    tar = next(f"{BUILD}/pgo/debs/{n}" for n in os.listdir(f"{BUILD}/pgo/debs")
               if n.startswith("sqlite3_") and ".orig.tar" in n)
    os.makedirs(SQLITE)
    must("is unpacked", "tar", "-xf", tar, "-C", SQLITE, "--strip-components=1")
    must("and put together", "sh", "-c",
         "./configure --disable-tcl --disable-readline >/dev/null && make -s sqlite3.c shell.c",
         cwd=SQLITE)
must("sqlite3 is built", CROSS + "gcc", "-O2", "-g1", "-static", "-Wl,-q", "-DSQLITE_THREADSAFE=0",
     "-DSQLITE_OMIT_LOAD_EXTENSION", f"-I{SQLITE}",
     "-o", f"{DIR}/sqlite3", f"{SQLITE}/sqlite3.c", f"{SQLITE}/shell.c", "-lm")
WORK = open(f"{HERE}/work.sql", "rb").read()
output, before = measure("before", f"{DIR}/sqlite3", ":memory:", stdin=WORK)
check("sqlite3 answers", output[0] == 0 and output[1].count(b"\n") > 30, output)
same, after = measure("after", bolt("sqlite3.bolt", f"{DIR}/sqlite3", "before"), ":memory:",
                      stdin=WORK)
equal("sqlite3: BOLTed, it answers the same", same, output)
check("sqlite3: fewer taken branches", after["taken branches"] < 0.9 * before["taken branches"],
      (before, after))
check("sqlite3: fewer cycles", after["cycles"] < before["cycles"], (before, after))
compare("sqlite", [("gcc -O2", before), ("BOLT", after)])
said = must("spex diff compares them", SPEX, "diff", "before.data", "after.data",
            env={"COLUMNS": "100"})
TABLES["diff"] = ("```\n$ spex diff before.data after.data\n" + "\n".join(said.splitlines()[:14]) +
                  "\n```")
print("\n".join("# " + l for l in TABLES["diff"].splitlines()))

if sys.argv[1:2] == ["--write"]:
    text = open(sys.argv[2]).read()
    for title, table in TABLES.items():
        text = re.sub(rf"(<!-- {title} -->\n).*?(<!-- end -->)",
                      lambda m: m.group(1) + table + "\n" + m.group(2), text, flags=re.S)
    open(sys.argv[2], "w").write(text)
done()
