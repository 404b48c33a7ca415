"""spex query: SQL over profiles says what script and the other commands say; nothing is
fetched without --setup.

--next: the same with the DuckDB of Debian's coming release, which needs that release's C library:
the program runs under its loader.
"""
import collections, csv, glob, io, random, re, signal, stat
from feeds import *

FOUND = glob.glob(f"{FEEDS}/node_modules/@duckdb/node-bindings-linux-*[!l]/libduckdb.so")
LIBRARY = os.environ.get("SPEX_DUCKDB") or (FOUND[0] if FOUND else "")
PROGRAM = [SPEX]
if "--next" in sys.argv:
    LIBRARY = (glob.glob(f"{FEEDS}/duckdb-next/root/usr/lib/*/libduckdb.so") or [None])[0]
    loader = glob.glob(f"{FEEDS}/duckdb-next/root/usr/lib/*/ld-linux-*.so.*")
    if not LIBRARY or not loader:
        later("SQL with the next DuckDB", "check-feeds")
        done()
    os.makedirs(f"{DIR}/next/bin")
    # what is beside the program is looked for beside the loader
    os.symlink(f"{SOURCE}/share", f"{DIR}/next/share")
    os.symlink(f"{SOURCE}/scripts/query-setup", f"{DIR}/next/bin/query-setup")
    shutil.copy(loader[0], f"{DIR}/next/bin/spex")
    there = os.path.dirname(LIBRARY)
    PROGRAM = [f"{DIR}/next/bin/spex", "--library-path",
               f"{there}:/usr/lib/{os.path.basename(there)}:/lib/{os.path.basename(there)}", SPEX]
text = re.sub(r"/\*.*?\*/", "", open(f"{SOURCE}/src/export/schema.def").read(), flags=re.S)
COLUMNS = {name: kind for name, kind in re.findall(r'COLUMN\(\s*\w+,\s*"(\w+)",\s*(\w+)', text)
           if kind != "LIST"}
ALL = ",".join(COLUMNS)


# ASan of a program in C finds no __cxa_throw in a library that is loaded later
ASAN = {"LD_PRELOAD": "libstdc++.so.6"} if BUILD.endswith("-asan") else {}


def query(sql, *args, symbols=True, **env):
    env = {**ASAN, "SPEX_DUCKDB": LIBRARY, "HOME": DIR, "XDG_DATA_HOME": f"{DIR}/data",
           "COLUMNS": "", **env}
    code, out, err = run(*PROGRAM, "query", *(SYMBOLS if symbols else []), sql, *args, cwd=DIR,
                         env=env)
    return code, out.decode(), err


def rows(sql, *args, status=0):
    code, out, err = query(sql, "--format", "json", *args)
    if code != status:
        raise RuntimeError(f"{sql}: {code} {err}")
    return [json.loads(l) for l in out.splitlines()]


def stored(record, columns):
    return {n: int(record[n], 16) if COLUMNS[n] == "ADDRESS" and n in record else record.get(n)
            for n in columns}


def first_difference(got, want):
    return next((f"row {i}: {k}: {g[k]!r}, not {w[k]!r}" for i, (g, w) in enumerate(zip(got, want))
                 for k in w if g[k] != w[k]),
                "" if len(got) == len(want) else f"{len(got)} rows, not {len(want)}")


# ---- without DuckDB ----
code, out, err = query("SELECT 1", SPEX_DUCKDB="/nowhere/libduckdb.so")
check("without DuckDB a message has the command that gets it",
      code == 1 and not out and "spex query --setup" in err, err)
code, out, err = query("--list")
questions = [l.split()[0] for l in out.splitlines()]
equal("--list names the questions, with what they answer",
      (code, sorted(questions), all(len(l.split()) > 3 for l in out.splitlines())),
      (0, sorted(os.path.basename(f)[:-4] for f in glob.glob(f"{SOURCE}/share/queries/*.sql")),
       True))
code, out, err = query("hot-line")
check("a word that is no question: what it may be", code == 2 and "'hot-lines'" in err, err)
code, out, err = run(SPEX, "query", cwd=DIR)
check("nothing to ask", code == 2 and "--list" in err, err)

# --setup, with an npm that brings something else
os.makedirs(f"{DIR}/bin")
with open(f"{DIR}/bin/npm", "w") as f:
    f.write("#!/bin/sh\necho \"$@\" >>../../npm-asked\ncp ../../../other.tgz .\n")
os.chmod(f"{DIR}/bin/npm", 0o755)
os.makedirs(f"{DIR}/package")
open(f"{DIR}/package/libduckdb.so", "w").write("harm")
open(f"{DIR}/package/LICENSE", "w").write("none")
run("tar", "-czf", "other.tgz", "package", cwd=DIR)
code, out, err = run(SPEX, "query", "--setup", cwd=DIR,
                     env={"HOME": DIR, "XDG_DATA_HOME": f"{DIR}/data",
                          "PATH": f"{DIR}/bin:{os.environ['PATH']}"})
left = [os.path.join(a, n) for a, _, names in os.walk(f"{DIR}/data")
        for n in names if n != "npm-asked"]
check("--setup takes nothing whose hash differs", code == 1 and "hash differs" in err and not left,
      (code, err, left))
check("and asks for one version", re.search(r"@duckdb/node-bindings-linux-\w+@\d+\.\d+\.\d+",
                                            open(f"{DIR}/data/npm-asked").read())
      if os.path.exists(f"{DIR}/data/npm-asked") else False, os.listdir(DIR))

if not LIBRARY:
    skip("SQL over profiles", "no DuckDB: scripts/feeds-setup fetches it")
    done()

# ---- every value ----
def raw(name, *args):
    spex("generate", "-o", f"{DIR}/{name}", *args)
    return name


cases = [(s, profile(s, 3000), [])
         for s in ("mixed", "branches-untimed", "false-nocontext-pa", "mixed-loss")]
cases += [(f"generated, {f}", raw(f"q{s}.spe", "-n", "3000", "-s", s, "-F", f), ["--raw"])
          for s, f in ((1, "max"), (2, "v1p0"), (3, "neoverse-n1"))]
for name, file, args in cases:
    want = [stored(r, COLUMNS) for r in records(file, "-F", ALL, *args)]
    got = rows("SELECT * FROM samples", file, *args)
    for table in (want, got):
        table.sort(key=lambda r: r["offset"])
    bad = first_difference(got, want)
    check(f"{name}: SELECT * is what script prints ({len(want)} records)",
          not bad and list(got[0]) == list(want[0]), bad or list(got[0]))

for when in ("10%-40%", "10%/2"):
    want = sorted(r["offset"] for r in records("mixed.data", "-F", ALL, "--time", when))
    equal(f"--time {when}: those records",
          sorted(r["offset"] for r in rows("SELECT \"offset\" FROM samples", "mixed.data", "--time",
                                           when)), want)
    check(f"--time {when}: some, not all", 0 < len(want) < 3000, len(want))
code, out, err = query("SELECT 1", "--url", "http://localhost:1", "--time", "10%/2")
check("--time is not for servers", code == 2 and "--last" in err, err)

version = rows("SELECT version() AS v")[0]["v"]
check(f"DuckDB {version}", version.startswith("v1." if "--next" not in sys.argv else "v2."),
      version)
for name, file, args in cases:
    export("parquet", file, "-F", ALL, *args, out="all.parquet")
    both = rows("SELECT (SELECT count(*) FROM 'all.parquet') AS n, (SELECT count(*) FROM (SELECT * "
                "FROM 'all.parquet' EXCEPT ALL SELECT * FROM samples)) AS bad",
                file, *args)[0]
    equal(f"{name}: so is a Parquet file of it", (both["n"], both["bad"]),
          (3000 if "mixed" in name or "generated" in name else both["n"], 0))
want = {r["offset"]: r for r in [stored(r, COLUMNS) for r in records("mixed.data", "-F", ALL)]}
# a column by itself: what the pass finds out depends on what is asked for
alone = ("CREATE TABLE whole AS SELECT * FROM samples;"
         "CREATE TABLE counts (name VARCHAR, n BIGINT, wrong BIGINT);" +
         "".join(f"""INSERT INTO counts SELECT '{n}', count(*),
             count(*) FILTER (a."{n}" IS DISTINCT FROM b."{n}") FROM
             (SELECT "{n}", "offset" AS o FROM samples) a JOIN whole b ON a.o = b."offset";"""
                 for n in COLUMNS) + "SELECT * FROM counts")
equal("so is each column alone",
      {r["name"]: (r["n"], r["wrong"]) for r in rows(alone, "mixed.data")},
      {n: (len(want), 0) for n in COLUMNS})
for threads in 1, 4:
    equal(f"{threads} threads: the same sums",
          rows("SELECT count(*) n, sum(latency) l, sum(\"offset\") o FROM samples", "mixed.data",
               "--threads", threads),
          [{"n": len(want), "l": sum(r["latency"] or 0 for r in want.values()), "o": sum(want)}])

# ---- what docs/export.md gives for heat of physical pages ----
statement = re.search(r'spex query --format csv "(SELECT pa .*)"',
                      open(f"{SOURCE}/docs/export.md").read())[1]
physical = profile("false-nocontext-pa", 3000)
code, out, err = query(statement, "--format", "csv", physical)
pages = collections.Counter(int(r["pa"], 16) // 4096 * 4096
                            for r in records(physical, "-F", "pa") if "pa" in r)
equal("samples by physical page, as CSV", [list(map(int, r)) for r in csv.reader(io.StringIO(out))
                                           if r[0] != "page"],
      [[a, n] for a, n in sorted(pages.items(), key=lambda x: (-x[1], x[0]))])
check("there are some", pages and sum(pages.values()) > 100, len(pages))

# ---- tables ----
two = rows("SELECT count(*) AS n, count(DISTINCT time) AS d FROM samples", "mixed.data",
           "mixed-loss.data")[0]["n"]
equal("several files are one table", two, len(want) + len(records("mixed-loss.data")))
export("parquet", "mixed.data", out="one.parquet")
os.makedirs(f"{DIR}/lake/date=2026-11-16/host=a")
export("parquet", "mixed.data", out="lake/date=2026-11-16/host=a/samples.parquet")
sums = ("SELECT count(*) AS n, sum(va)::VARCHAR AS v, count(symbol) AS s, count(*) FILTER "
        "(ev_l1d_miss) AS m FROM ")
equal("a Parquet file, a directory of them and the profile say the same",
      [rows(sums + "samples", f) for f in ("one.parquet", "lake")] +
      [rows(sums + t) for t in ("'one.parquet'", "'mixed.data'", "spe('mixed.data')")],
      [rows(sums + "samples", "mixed.data")] * 5)
equal("the directory's names are columns",
      rows("SELECT DISTINCT host, date::VARCHAR AS date FROM samples", "lake"),
      [{"host": "a", "date": "2026-11-16"}])
equal("a file against itself",
      rows("SELECT count(*) AS n FROM 'mixed.data' a JOIN 'mixed.data' b USING (\"offset\")"),
      [{"n": len(want)}])
equal("a few rows of many",
      len(rows("SELECT * FROM samples LIMIT 7", profile("mixed", 70000, name="two.data"))), 7)
equal("no file is looked at that is not asked for", rows("SELECT 1 AS one", "no-such.data"),
      [{"one": 1}])
shutil.copy(f"{DIR}/mixed.data", f"{DIR}/it's.data")
equal("a name with a quote", rows("SELECT count(*) AS n FROM samples", "it's.data"),
      [{"n": len(want)}])

# ---- output ----
TYPES = ("SELECT 'a,\"b\nü' AS t, NULL AS n, 18446744073709551615::UBIGINT AS u, -3::TINYINT AS i, "
         "'-5000000000000000000000000000000'::HUGEINT AS h, 0.1 AS d, "
         "0.1::DOUBLE AS r, 1e300 * 1e300 AS inf, true AS b, DATE '2026-11-16' AS day, [1, 2] AS "
         "l, 'x' AS \"a \"\"b\"")
code, out, err = query(TYPES, "--format", "json")
line = out
equal("JSON", json.loads(line), {"t": 'a,"b\nü', "n": None, "u": 2**64 - 1, "i": -3,
                                 "h": -5 * 10**30, "d": 0.1, "r": 0.1, "inf": None, "b": True,
                                 "day": "2026-11-16", "l": "[1, 2]", 'a "b': "x"})
code, out, err = query(TYPES, "--format", "csv")
equal("CSV", list(csv.reader(io.StringIO(out)))[1][1:11],
      ["", str(2**64 - 1), "-3", str(-5 * 10**30), "0.1", "0.1", "inf", "true", "2026-11-16",
       "[1, 2]"])
wide = [0, -1, 2**127 - 1, -2**127, -2**64, 10**19]
code, out, err = query("SELECT " + ", ".join(f"'{n}'::HUGEINT" for n in wide) +
                       f", '{2**128 - 1}'::UHUGEINT", "--format", "csv")
equal("numbers of 128 bits", out.splitlines()[1].split(","), [str(n) for n in wide + [2**128 - 1]])
code, out, err = query("SELECT 'ab' AS name, 5 AS n UNION ALL SELECT 'long name', 12345 ORDER BY n")
equal("text", out, "name           n\nab             5\nlong name  12345\n")
code, out, err = query("SELECT range AS n, range % 7 AS m FROM range(3000)")
equal("text of many rows", (len(out.splitlines()), out.splitlines()[-1].split()),
      (3001, ["2999", "3"]))
code, out, err = query("SELECT symbol, latency FROM samples WHERE latency > 100", "mixed.data",
                       "--format", "parquet", "-o", "out.parquet")
equal("Parquet", (code, sorted(map(str, rows("SELECT * FROM 'out.parquet'")))),
      (0, sorted(str({"symbol": r["symbol"], "latency": r["latency"]})
                 for r in want.values() if (r["latency"] or 0) > 100)))
code, out, err = query("SELECT 2 AS a; CREATE TABLE t AS SELECT 1 AS x; INSERT INTO t VALUES (2); "
                       "SELECT ';' AS s, sum(x) AS sum FROM t; -- the end",
                       "--format", "json")
equal("several statements: the answer of the last", (code, out), (0, '{"s":";","sum":3}\n'))
for text, shown in (("SELECT ';SELECT 2 --' AS s", ";SELECT 2 --"),
                   ("SELECT 'it''s; SELECT 3' AS s", "it's; SELECT 3"),
                   ("SELECT 1; SELECT $$;SELECT 4 --$$ AS s", ";SELECT 4 --"),
                   ("SELECT 'a' AS s /* ; SELECT 5 /* ; */ */", "a"),
                   ("SELECT 'a' AS s -- ; SELECT 'don''t'", "a"),
                   ("SELECT $a$;$b$;SELECT 6$a$ AS s; -- the end", ";$b$;SELECT 6"),
                   ("SELECT E'\\';SELECT 7 --' AS s", "';SELECT 7 --")):
    code, out, err = query(text, "--format", "json")
    check(f"a statement is not split inside text: {text}",
          (code, out) == (0, '{"s":"' + shown + '"}\n'), (code, out, err))
open(f"{DIR}/mine.sql", "w").write("-- mine\nSELECT count(*) AS n FROM samples;\n")
equal("a file of SQL", rows("mine.sql", "mixed.data"), [{"n": len(want)}])

# ---- what goes wrong ----
for sql, what in (("SELECT nothing FROM samples", "nothing"), ("SELEC 1", "SELEC"),
                  ("SELECT * FROM spe('no-such.data')", "no-such.data"),
                  ("SELECT 'a'::INT", "a"), ("/* nothing */", "no statement")):
    code, out, err = query(sql, "mixed.data")
    check(f"{sql}: a message", code == 1 and not out and what in err, (code, out, err))
bytes_ = bytearray(open(f"{DIR}/mixed.data", "rb").read())
for i in range(100):
    bytes_[len(bytes_) // 2 + i] = 0xff
open(f"{DIR}/damaged.data", "wb").write(bytes_)
code, out, err = query("SELECT count(*) AS n FROM samples", "damaged.data", "--format", "json")
equal("of a damaged file the good records, and exit status 1",
      (code, json.loads(out)["n"], "byte" in err),
      (1, data("report", "damaged.data")["totals"]["records"], True))
before = set(os.listdir(DIR))
code, out, err = query("SELECT * FROM nowhere", "--format", "csv", "-o", "none.csv")
equal("no answer, no file", (code, set(os.listdir(DIR))), (1, before))
code, out, err = query("SELECT * FROM samples", "no-such.data")
check("one message for a file that is not there", code == 1 and err.count("no-such.data") == 1, err)

p = subprocess.Popen([*PROGRAM, "query",
                      "SELECT a.range FROM range(1000000000) a, range(1000000000) b", "--format",
                      "csv"],
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=DIR,
                     env={**os.environ, **ASAN, "SPEX_DUCKDB": LIBRARY})
p.stdout.read(1000)
p.send_signal(signal.SIGINT)
while p.stdout.read(1 << 20):
    pass
err = p.stderr.read().decode()
equal("Ctrl-C ends it", (p.wait(), "interrupted" in err), (-signal.SIGINT, True))

# ---- questions: the commands say the same ----
big = profile("mixed", 40000, name="questions.data")


def of(table, *keys):
    return {tuple(r[k] for k in keys): r for r in table}


report = {tuple(r["srcline"].rsplit(":", 1)) + (r["source"],): r
          for r in data("report", big, "--sort", "srcline,source")["rows"] if r["loads"] +
          r["stores"]}
lines = {(os.path.basename(r["file"]), str(r["line"]), r["source"]): r
         for r in rows("hot-lines", big) if r["file"]}
named = {k: r for k, r in report.items() if len(k) == 3 and k[1].isdigit()}
equal("hot-lines: those of report --sort srcline,source",
      {k: (r["samples"], r["p50"], r["p95"], r["p99"]) for k, r in lines.items()},
      {k: (r["samples"], r["latency_p50"], r["latency_p95"], r["latency_p99"])
       for k, r in named.items()})
minutes = rows("latency-by-minute", big)
whole = [r["latency"] for r in records(big, "-F", "time,latency") if "time" in r and "latency" in r]
rank = lambda q: sorted(whole)[-(-len(whole) * q // 100) - 1]
equal("latency-by-minute: of script's records",
      [(r["samples"], r["p50"], r["p95"], r["p99"]) for r in minutes],
      [(len(whole), rank(50), rank(95), rank(99))] if len(minutes) == 1 else None)
pages = of(rows("pages-by-node", big), "page")
mem = {(r["page"],): r for r in data("mem", big)["pages"]}
equal("pages-by-node: the pages of mem",
      {k: (r["samples"], r["remote"], r["local_dram"]) for k, r in pages.items()},
      {k: (r["samples"], r["from_remote"] + r["from_remote_dram"], r["from_dram"])
       for k, r in mem.items()})
for file in (big, profile("false-nocontext-pa", 20000, name="physical.data")):
    shared = {r["line"]: r for r in rows("false-sharing", file)}
    c2c = {r["address"]: r for r in data("c2c", file, "--all")["lines"]}
    check(f"false-sharing, {file}: c2c's lines that are not truly shared", c2c and
          all(a in shared and (shared[a]["samples"], shared[a]["loads"], shared[a]["stores"],
                               shared[a]["threads"], shared[a]["writers"]) ==
              (r["samples"], r["loads"], r["stores"], r["threads"], r["writers"])
              for a, r in c2c.items() if r["kind"] != "true"), (len(shared), len(c2c)))
branch = data("branch", big)
found = rows("mispredicts", big)
by_pc = {}
for r in found:
    place = "prog+" + r["branch"]  # linked to be there
    by_pc[place] = by_pc.get(place, 0) + r["mispredicts"]
equal("mispredicts: by branch, those of branch", by_pc,
      {r["pc"]: r["mispredicts"] for r in branch["branches"] if r["mispredicts"]})
names = {r["target"]: r["name"].removesuffix("+0x0")
         for r in rows("SELECT DISTINCT printf('0x%x', target) AS target, target_symbol AS name "
                       "FROM samples WHERE target_symbol IS NOT NULL", big)}
equal("and by target of indirect ones",
      {("prog+" + r["branch"], names[r["target"]]): (r["samples"], r["mispredicts"])
       for r in found if "indirect" in r["op"]},
      {(r["pc"], r["target"]): (r["samples"], r["mispredicts"])
       for r in branch["targets"] if r["mispredicts"]})
functions = {r["symbol"]: r for r in rows("symbols", big) if r["symbol"]}
want = {r["symbol"]: r
        for r in data("report", big, "--sort", "symbol")["rows"] if r["symbol"] in functions}
equal("symbols: those of report",
      {k: (r["samples"], r["p95"], round(r["time_ms"], 2)) for k, r in functions.items()},
      {k: (r["samples"], r["latency_p95"], round(r["time_ns"] / 1e6, 2)) for k, r in want.items()})
view = rows("SELECT op, count(*) AS n, min(pc) AS pc, count(vaddr) AS v FROM spe_parser "
            "GROUP BY op ORDER BY op", big)
kinds = {}
for r in records(big, "-F", "op_class,op_payload,kind"):
    kind = ("B" if r["kind"] == "branch" else "OTHER" if r["op_class"] != 1 else "ST"
            if r["op_payload"] & 1 else "LD")
    kinds[kind] = kinds.get(kind, 0) + 1
equal("spe_parser is a view", {r["op"]: r["n"] for r in view}, kinds)
first = rows("SELECT * FROM spe_parser WHERE op = 'LD' ORDER BY ts LIMIT 1", big)[0]
equal("with spe-parser's names",
      [n for n in "cpu op pc el atomic excl ar event issue_lat total_lat vaddr xlat_lat paddr "
       "data_source br_tgt pbt context ts".split() if n not in first], [])
check("and its forms",
      first["pc"].startswith("0x") and re.fullmatch(r"[A-Z0-9-]+(:[A-Z0-9-]+)*", first["event"]) and
      first["data_source"] in ("L1D", "L2D", "PEER-CPU", "LOCAL-CLUSTER", "LL-CACHE",
                               "PEER-CLUSTER", "REMOTE", "DRAM"), first)
os.makedirs(f"{DIR}/questions")
export("parquet", big, out="questions")
for name in questions:
    same = [sorted(map(str, rows(f"SELECT * FROM {name.replace('-', '_')}", f)))
            for f in (big, "questions/samples.parquet")]
    check(f"{name}: the same of a Parquet file", same[0] == same[1] and same[0],
          first_difference([dict(x=r) for r in same[0]], [dict(x=r) for r in same[1]]))
done()
