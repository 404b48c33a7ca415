"""Which programs read what spex writes, their versions and what they found: docs/readers.md.

Usage: readers.py FILE (make readers). One program is recorded, with and without call stacks; each
reader that scripts/readers-setup or scripts/feeds-setup has fetched reads that profile, or what
spex export makes of it, and what it counts is compared with what spex counts. A reader that is
not there has a row that says so; exit status 1 if one that is there reads something else.
"""
import datetime
import re
from feeds import *

HOT = f"{DIR}/hot"
READERS = os.path.join(BUILD, "readers")
ROWS = []
WRONG = []


def must(code, err):
    if code:
        sys.exit(f"readers: {err}")


def ask(name, reads, version, judge):
    """One row: judge() returns (what it read, whether that is right)."""
    number = version()
    if not number:
        ROWS.append((name, "", reads, "was not there"))
        return
    found, right = judge()
    if not right:
        WRONG.append(name)
    ROWS.append((name, number, reads, f"{'' if right else '**differs**: '}{found}"))
    print(f"{name} {number}: {found}{'' if right else ': DIFFERS'}", flush=True)


def first(pattern, *words, **kw):
    """What a program says of its version."""
    try:
        code, out, err = run(*words, **kw)
    except OSError:
        return None
    m = re.search(pattern, out.decode(errors="replace") + err)
    return m[1] if m else None


def npm(name):
    path = f"{FEEDS}/node_modules/{name}/package.json"
    return json.load(open(path))["version"] if NODE and os.path.exists(path) else None


def loaded(root):
    """A command line that runs perf of another Debian with its own libraries."""
    loader = glob.glob(f"{root}/usr/lib/*/ld-linux-*.so.*")
    return [loader[0], "--library-path", os.path.dirname(loader[0]),
            f"{root}/usr/bin/perf"] if loader else ["/nonexistent"]


def same(got, want, what):
    return f"{got:,} of {want:,} {what}", got == want


# ---- the profile ----
must(*run("aarch64-linux-gnu-gcc", "-g", "-gdwarf-4", "-O1", "-static", "-Wl,-q", "-o", HOT,
          f"{EXPORT}/hot.c")[::2])
for name, words in (("n1", ["--truth"]), ("stacks", ["-g"])):
    must(*spex("record", "-q", *words, "-c", "256", "-o", f"{DIR}/{name}.data", HOT, cwd=DIR)[::2])
lines = [json.loads(l) for l in on("script", "n1.data", "--format", "json")[1].splitlines()]
RECORDS = len(lines)
for to, file in (("collapsed", "stacks.data"), ("speedscope", "stacks.data"),
                 ("pprof", "stacks.data"), ("firefox", "stacks.data"), ("parquet", "n1.data"),
                 ("callgrind", "n1.data"), ("bolt", "n1.data"), ("profgen", "n1.data"),
                 ("llvm", "n1.data"), ("autofdo", "n1.data")):
    code, err = export(to, file, symbols=False)
    must(code, err)
STACKS = len(on("script", "stacks.data", "-F", "pc")[1].splitlines())


# ---- perf ----
def perf_reads(perf):
    def judge():
        code, out, err = run(*perf, "script", "-i", f"{DIR}/n1.data", "--itrace=i1i", "-F", "ip",
                             cwd=DIR)
        samples = len(out.splitlines())
        code, out, err = run(*perf, "report", "-D", "-i", f"{DIR}/n1.data", cwd=DIR)
        packets = len(re.findall(rb"^\.  [0-9a-f]{8}: .* PC 0x", out, re.M))
        code, out, err = run(*perf, "mem", "report", "-i", f"{DIR}/n1.data", "--stdio", cwd=DIR)
        mem = code == 0 and b"hit" in out
        code, out, err = run(*perf, "c2c", "report", "-i", f"{DIR}/n1.data", "--stdio", cwd=DIR)
        return (f"{samples:,} samples and {packets:,} records of {RECORDS:,}; mem report and c2c "
                f"report {'work' if mem and not code else 'fail'}",
                samples == packets == RECORDS and mem and not code)
    return judge


OLD, NEXT, NEW = ["perf"], loaded(f"{READERS}/perf-6.12/root"), [f"{BUILD}/perf7/perf"]
for name, perf in (("perf of Debian 12", OLD), ("perf of Debian 13", NEXT),
                   ("perf of Debian 13's backports", NEW)):
    ask(name, "the profile", lambda: first(r"version ([\d.]+)", *perf, "--version"),
        perf_reads(perf))

# ---- hotspot: what perf makes of the AUX data, as ordinary samples ----
PARSER = (glob.glob(f"{READERS}/hotspot/root/usr/lib/*/libexec/hotspot-perfparser") or [""])[0]


def hotspot():
    code, out, err = run(*NEW, "inject", "--strip", "--itrace=i1i", "-f", "-i", f"{DIR}/n1.data",
                         "-o", f"{DIR}/plain.data", cwd=DIR)
    must(code, err)
    code, out, err = run(PARSER, "--input", f"{DIR}/plain.data", "--print-stats", "--app", DIR,
                         "--sysroot", DIR,
                         env={"LD_LIBRARY_PATH": os.path.dirname(os.path.dirname(PARSER))}, cwd=DIR)
    m = re.search(r"^samples: *(\d+)", out.decode() + err, re.M)
    return same(int(m[1]) if m else 0, RECORDS, "samples of `perf inject --strip`")


def hotspot_version():
    found = glob.glob(f"{READERS}/hotspot/version")
    return open(found[0]).read().strip() if found and PARSER else None


ask("hotspot's perfparser", "the profile after perf inject --strip", hotspot_version, hotspot)


# ---- optimizers ----
def perf2bolt(*words, path=None):
    def judge():
        code, out, err = use("perf2bolt-22", *words, "-o", "out.fdata", HOT,
                             env={"PATH": f"{path}:{os.environ['PATH']}"} if path else {})
        rows = len(open(f"{DIR}/out.fdata").read().splitlines()) if not code else 0
        odd = re.search(r"mismatching disassembled function contents: \d+ \(([\d.]+)%\)",
                        out.decode() + err)
        return (f"{rows} branches" + (f", {odd[1]}% that do not fit the code" if odd else ""),
                code == 0 and rows > 4)
    return judge


def llvm(name):
    def version():
        m = tool(name) and re.search(r"version ([\d.]+)", use(name, "--version")[1].decode())
        return m and m[1]
    return version


ask("perf2bolt --spe", "the profile, by perf 7", llvm("perf2bolt-22"),
    perf2bolt("--spe", "-p", "n1.data", path=f"{BUILD}/perf7"))
ask("perf2bolt -pa", "export --to bolt", llvm("perf2bolt-22"), perf2bolt("-pa", "-p", "out.bolt"))


def profgen():
    code, out, err = use("llvm-profgen-22", "--binary=hot", "--unsymbolized-profile=out.profgen",
                         "--output=out.prof", "--format=text")
    text = open(f"{DIR}/out.prof").read() if code == 0 else ""
    names = re.findall(r"^(\w\S*):\d+:\d+", text, re.M)
    return f"the hottest function: {names[0] if names else None}", names[:1] == ["work"]


ask("llvm-profgen", "export --to profgen", llvm("llvm-profgen-22"), profgen)


def profdata():
    use("llvm-profdata-22", "merge", "--sample", "out.llvm", "-o", "out.profdata")
    code, out, err = use("llvm-profdata-22", "show", "--sample", "out.profdata")
    names = re.findall(rb"^Function: (\w+):", out, re.M)
    return f"functions: {len(names)}", code == 0 and b"work" in names


ask("llvm-profdata", "export --to llvm", llvm("llvm-profdata-22"), profdata)


def gcov():
    use("create_gcov", f"--binary={HOT}", "--profiler=text", "--profile=out.autofdo",
        "--gcov=out.gcov", "--gcov_version=2")
    code, out, err = use("dump_gcov", "--gcov_version=2", "out.gcov")
    names = re.findall(rb"^(\w+) total:", out, re.M)
    return f"functions: {len(names)}", code == 0 and names[:1] == [b"work"]


ask("create_gcov (autofdo)", "export --to autofdo",
    lambda: tool("create_gcov") and "0.19", gcov)


# ---- viewers ----
def pprof():
    go = os.path.dirname(os.path.dirname(os.path.realpath(tool("go"))))
    env = {"GOROOT": go, "HOME": DIR, "PPROF_TMPDIR": DIR, "GOFLAGS": "", "GOCACHE": f"{DIR}/go"}
    code, out, err = run(f"{go}/bin/go", "tool", "pprof", "-raw", "-sample_index=samples",
                         "out.pprof", env=env, cwd=DIR)
    part = out.decode().split("Samples:", 1)[1].split("Locations", 1)[0]
    return same(sum(int(m) for m in re.findall(r"^ +(\d+)(?: +\d+)*:", part, re.M)), STACKS,
                "samples")


ask("go tool pprof", "export --to pprof",
    lambda: tool("go") and first(r"go([\d.]+) ", os.path.realpath(tool("go")), "version",
                                 env={"HOME": DIR, "GOROOT": os.path.dirname(os.path.dirname(
                                     os.path.realpath(tool("go"))))}), pprof)


def speedscope():
    errors = json.loads(node("ajv.mjs", f"{FEEDS}/node_modules/speedscope/dist/release/"
                             "file-format-schema.json", "out.speedscope"))
    weights = sum(sum(p["weights"]) for p in json.load(open(f"{DIR}/out.speedscope"))["profiles"])
    return (f"its schema finds {len(errors)} errors; weights are {weights:,} of {STACKS:,} samples",
            not errors and weights == STACKS)


ask("speedscope (schema)", "export --to speedscope", lambda: npm("speedscope"), speedscope)


def callgrind():
    code, out, err = run("callgrind_annotate", "out.callgrind", cwd=DIR)
    m = re.search(rb"^ *([\d,]+).*PROGRAM TOTALS", out, re.M)
    want = sum(int(l.split()[2], 0) for l in open(f"{DIR}/n1.data.truth") if l[0] != "#")
    return same(int(m[1].replace(b",", b"")) if m else 0, want, "operations")


ask("callgrind_annotate", "export --to callgrind",
    lambda: first(r"valgrind-([\d.]+)", "valgrind", "--version"), callgrind)

# ---- tables ----
ask("DuckDB", "export --to parquet", lambda: npm("@duckdb/node-api"),
    lambda: same(int(json.loads(node("duck.mjs", "SELECT count(*) AS n FROM 'out.parquet'")
                                .splitlines()[0])[0]["n"]), RECORDS, "rows"))
ask("hyparquet", "export --to parquet", lambda: npm("hyparquet"),
    lambda: same(len([l for l in node("read.mjs", "out.parquet").splitlines() if l]), RECORDS,
                 "rows"))


def pandas_version():
    out = pandas("-c", "import pandas, pyarrow; print(pandas.__version__, pyarrow.__version__)")
    return out and "{} + pyarrow {}".format(*out.split())


ask("pandas", "export --to parquet", pandas_version,
    lambda: same(int(pandas("-c", "import pandas; print(len(pandas.read_parquet("
                            f"'{DIR}/out.parquet')))")), RECORDS, "rows"))

with open(sys.argv[1], "w") as f:
    f.write(f"""# Readers

Programs that nobody here wrote, on a profile of {RECORDS:,} records, and on another of {STACKS:,}
with call stacks: what each reads, and what it counts there. `make readers` makes this page
({datetime.date.today()}); the targets `check`, `check-feeds`, `check-vm` and `check-fleet` ask more
of each, record by record. Arm's spe-parser is neither in Debian nor in npm, so it is missing.

| reader | version | reads | finds |
|---|---|---|---|
""")
    for row in ROWS:
        f.write("| " + " | ".join(row) + " |\n")
sys.exit(f"readers: {', '.join(WRONG)}: differs" if WRONG else 0)
