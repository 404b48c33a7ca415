"""Profiles of every kind, with call stacks and allocations too, through every command that reads:
the same text, files, messages and exit status with 1, 2 and 8 threads, and with as many as a
machine of 16 CPUs has. With SPEX_LONG everything; `make check-races` runs that under
ThreadSanitizer."""
import glob
import lzma

from heaplog import *

sys.path.insert(0, os.path.join(HERE, "..", "perfdata"))
import pd

need_cxx("profiles with call stacks")
LONG = os.environ.get("SPEX_LONG")  # else what a few seconds are enough for
ONLY = os.environ.get("SPEX_ONLY", "")
os.chdir(WORK)
MAKE, PROG = (os.path.join(BUILD, "tests/analysis", n) for n in ("make_profile", "prog"))
ONE = os.path.join(BUILD, "spex")  # with one thread, which need not be looked at
DUCKDB = glob.glob(f"{BUILD}/feeds/node_modules/@duckdb/node-bindings-linux-*[!l]/libduckdb.so")
CPUS = os.path.join(BUILD, "tests/guest/libcpus.so")
EXIT = 66  # of a program that ThreadSanitizer has something to say about
with open("suppressions", "w") as f:  # it does not see what DuckDB's own threads agree on
    f.write("race:^duckdb::\nrace:operator new\nrace:operator delete\n"
            "called_from_lib:libduckdb.so\n")
os.environ["TSAN_OPTIONS"] = f"exitcode={EXIT}:history_size=4:suppressions={WORK}/suppressions"
KEYS = re.findall(r"^  ([a-z-]+)  ", spex("help", "keys")[1].decode(), re.M)
FORMATS = re.findall(r"^  ([a-z]+)  ", spex("help", "formats")[1].decode(), re.M)
COLUMNS = re.findall(r'^COLUMN\(\w+,\s*"(\w+)"',
                     open(f"{SOURCE}/src/export/schema.def").read(), re.M)
QUESTIONS = [l.split()[0] for l in spex("query", "--list")[1].decode().splitlines()]

ALWAYS = [["report", "-g"], ["report", "-g", "--format", "json"],
          ["report", "--sort", "stack,symbol"], ["report", "--sort", "alloc,member,srcline"],
          ["mem"], ["mem", "--sort", "alloc,block-offset,caller"], ["c2c", "--all"],
          ["annotate", "--format", "json"], ["script"], ["script", "--format", "json"],
          ["script", "--format", "csv", "-F", ",".join(COLUMNS)],
          ["script", "--itrace=fmtbaMi7i"], ["export", "--to", "pprof"],
          ["export", "--to", "firefox"], ["export", "--to", "collapsed"],
          ["export", "--to", "parquet", "-F", ",".join(COLUMNS), "-o", "made"],
          ["html", "-o", "made"], ["branch"], ["diff", "--format", "json", None]]
REST = [["report", "--format", "json", "--sort", k] for k in KEYS]
REST += [["report", *w] for w in (
    [], ["--slices", 4], ["-v", "--format", "csv"], ["--time", "20%-60%"], ["--time", "10%/3"],
    ["--symbol", "*a*"], ["--op", "load"], ["--event", "l1d-miss"], ["--source", "dram"],
    ["--min-latency", 30], ["--no-replay"], ["--no-demangle"], ["--max-memory", "24M"],
    ["--sort", "pid,comm,tid,cpu,dso"], ["--sort", "type,member,data-symbol"],
    ["-F", "+time_ns,ops,latency_p95"], ["-g", "--symbol", "*a*"],
    ["--sort", "caller,target"], ["--sort", "stack,alloc,pc,line,time-bin"])]
REST += [[c, *w] for c in ("mem", "c2c", "branch", "annotate") for w in (
    [], ["--format", "json"], ["--format", "csv"], ["--time", "20%-60%"], ["--no-demangle", "-v"])]
REST += [["mem", "--sort", k] for k in ("data-symbol,data-dso", "type,member", "alloc", "page",
                                        "type-line", "alloc,type")]
REST += [["script", "--format", "csv", "-F", f"time,{c}"] for c in COLUMNS if c[:3] != "ev_"]
REST += [["script", *w] for w in (["-n", 300], ["--time", "30%-40%"], ["--full-path"],
                                  ["--no-demangle", "-F", "tid,symbol,callers"],
                                  ["--itrace=i1i", "--style", "perf-7"], ["--itrace=M"])]
REST += [["export", "--to", f, "-o", "made", *w] for f in FORMATS for w in (
    [], ["--weight", "time"], ["--time", "20%-60%"])]
REST += [["export", "--to", "parquet", "-o", "made/"],
         ["export", "--to", "parquet", "-o", "made/", "--partition"]]
REST += [["dump", *w] for w in (["--style", "spex"], ["--style", "perf"], ["--style", "perf-7"],
                                ["--format", "json"], ["--time", "20%-60%"])]
REST += [["verify"], ["verify", "--features", "neoverse-n1", "--format", "json"], ["truth"],
         ["stat"], ["archive", "-o", "made"], ["recover", "-o", "made"],
         ["html", "-o", "made", None], ["html", "-o", "made", "--no-source"],
         ["html", "-o", "made", "--time", "20%-60%"]]
REST += [["diff", "--sort", k, None] for k in ("symbol", "srcline,op", "source", "comm")]
QUERIES = [["query", "--format", "csv", q] for q in QUESTIONS]
QUERIES += [["query", "--format", "csv", q] for q in (
    "SELECT * FROM samples ORDER BY ALL", "SELECT count(*), sum(latency) FROM samples",
    "SELECT * FROM stacks ORDER BY ALL", "SELECT * FROM files ORDER BY ALL",
    "SELECT * FROM losses ORDER BY ALL",
    "SELECT callers, data_symbol, srcline, count(*) FROM samples GROUP BY ALL ORDER BY ALL")]
UNTHREADED = {"stat", "archive", "recover"}  # they have no --threads


def made():
    """What -o has written, and no more of it."""
    found = {}
    for where, _, names in os.walk("made"):
        for n in names:
            found[os.path.relpath(f"{where}/{n}", "made")] = open(f"{where}/{n}", "rb").read()
    if os.path.isdir("made"):
        shutil.rmtree("made")
    elif os.path.exists("made"):
        found = open("made", "rb").read()
        os.unlink("made")
    if os.path.exists("made.old"):
        os.unlink("made.old")
    return found


def answer(command, files, threads, env):
    words = [files[-1] if w is None else w for w in command]
    if words[0] == "query":
        words, sql = words[:-1], words[-1:]
    else:
        sql = []
    if words[-1] == "made/":
        os.makedirs("made")
    how = ["--threads", threads] if threads and words[0] not in UNTHREADED else []
    if words[0] in ("recover", "truth"):
        inputs = files[:1]
    else:
        inputs = [w for f in files for w in ("-i", f)]
    if "--raw" in files:
        inputs = ["--raw", *(w for f in files[:-1] for w in ("-i", f))]
    if command[0] in ("dump", "verify", "recover"):
        inputs = [w for w in inputs if w != "-i"]
    program = ONE if threads == 1 else SPEX
    code, out, err = run(program, *words, *how, *inputs, *sql, env=env)
    return code, out, err, made()


def same(what, files, commands):
    for command in commands:
        title = f"{what}: {' '.join(str(w or 'it') for w in command)}"[:110]
        if ONLY and not re.search(ONLY, title):
            continue
        env = {"SPEX_DUCKDB": DUCKDB[0]} if command[0] == "query" else {}
        want = answer(command, files, 1, env)
        ways = [(n, env) for n in (2, 8)]
        if LONG:
            ways.append((None, {**env, "LD_PRELOAD": CPUS}))
        got = [answer(command, files, n, e) for n, e in ways]
        raced = [a[2] for a in got if a[0] == EXIT or "ThreadSanitizer" in a[2]]
        wrong = [(n, a[0], a[2][-300:]) for (n, _), a in zip(ways, got) if a != want]
        check(title, not wrong and not raced and want[0] in (0, 1, 2),
              f"{raced[0][:6000]}" if raced else f"{wrong} {want[0]} {want[2][-500:]}")


def recorded(name, *args, **kw):
    code, out, err, path = record(*args, name=name, **kw)
    equal(f"{name} is recorded", code, 0)
    return os.path.basename(path)


def build_cc(name, source, *flags):
    equal(f"build {name}", run(CXX, "-O2", "-g", "-o", name, f"{HERE}/programs/{source}",
                               "-pthread", *flags)[0], 0)
    return f"{WORK}/{name}"


allocs, paths = build_allocs("allocs"), build_cc("paths", "paths.cc", "-ldl")
run(CC, "-O2", "-shared", "-fPIC", "-o", "libpaths.so", f"{HERE}/programs/paths_library.c")
library = f"{WORK}/libpaths.so"
stacks = recorded("stacks", "-g", "-c", 1024, "--", paths, 8, 1, library)
blocks = recorded("blocks", "-g", "--allocs", "-c", 512, "--", allocs, 6, 600)
same("call stacks of 8 threads", [stacks], ALWAYS if LONG else ALWAYS[1::3])
same("allocations of 6 threads", [blocks], ALWAYS)
if LONG:
    script = f"{WORK}/several.sh"
    with open(script, "w") as f:
        f.write(f"#!/bin/sh\n{allocs} 3 400 fork &\n{paths} 3 1 {library} &\n{allocs} 2 300\n"
                "wait\n")
    os.chmod(script, 0o755)
    PROFILES = {
        "processes": [recorded("processes", "-g", "--allocs", "-c", 512, "--", script)],
        "blocks alone": [recorded("alone", "--allocs", "-c", 512, "--", allocs, 4, 500)],
        "plain": [recorded("plain", "-c", 512, "--", allocs, 4, 500)],
        "truth": [recorded("counted", "-g", "--truth", "--model", "full", "-c", 1024, "--", allocs,
                           1, 500)],
        "just in time": [recorded("just", "--model", "none", "-c", 4096, "--", build("jit"), "map",
                                  WORK)]}
    with open("guest", "wb") as f:
        f.write(lzma.open(f"{SOURCE}/tests/report/guest.data.xz").read())
    PROFILES["a kernel"] = ["guest"]
    for n, (name, scenario) in enumerate((("64 CPUs", "mixed-n1-near-cpus64"),
                                          ("by switches", "mixed-switch"), ("a lock", "lock-cpus5"),
                                          ("losses", "mixed-n1-loss-cpus8"),
                                          ("untimed", "mixed-untimed-cpus4"))):
        run(MAKE, scenario, f"p{n}", PROG, 6000)
        PROFILES[name] = [f"p{n}"]
    os.makedirs("root/usr/bin")
    os.symlink(PROG, "root/usr/bin/prog")
    whole = open(blocks, "rb").read()
    with open("cut", "wb") as f:
        f.write(whole[:len(whole) * 3 // 5])
    data = bytearray(whole)
    for _ in range(100):
        data[random.Random(_).randrange(4096, len(data) - 4096)] ^= 1 << _ % 8
    with open("damaged", "wb") as f:
        f.write(data)
    c = pd.File(compress=1, cpus=4, clock=True)
    c.comm(10, 10, "main").mmap2(10, 10, 0x400000, 0x10000, PROG)
    for cpu in range(4):
        part = b"".join(pd.record(0x400000 + 4 * (i % 4000), ctx=10, va=0x7000 + 8 * i,
                                  ts=1000 + 50 * i + cpu) for i in range(3000))
        c.clock(10, 10, 0x400100, 2000 + cpu, cpu)
        c.trace(part, cpu=cpu, time=1000 + cpu)
    with open("compressed", "wb") as f:
        f.write(c.bytes())
    PROFILES.update({
        "cut": ["cut"], "damaged": ["damaged"], "compressed": ["compressed"],
        "several files": [blocks, stacks, "cut", "p0", "p1"],
        "of one program": [blocks, PROFILES["plain"][0]]})
    for vector in sorted(glob.glob(f"{SOURCE}/tests/vectors/*.perf.data")):
        name = os.path.basename(vector)
        shutil.copy(vector, name)
        PROFILES[name] = [name]
    for name, files in (("call stacks of 8 threads", [stacks]), ("allocations", [blocks])):
        same(name, files, REST + QUERIES)
    for name, files in PROFILES.items():
        same(name, files, ALWAYS + (REST + QUERIES if name in (
            "processes", "64 CPUs", "several files", "just in time") else REST[::3]))
done()
