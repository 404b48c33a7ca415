"""Call stacks as columns: script, Parquet and SQL say the same, and the questions what
report says of callers."""
import collections, glob, hashlib
from feeds import *

if not shutil.which("qemu-aarch64"):
    skip("call stacks as columns", "no qemu-aarch64 (package qemu-user)")
    done()
FOUND = glob.glob(f"{FEEDS}/node_modules/@duckdb/node-bindings-linux-*[!l]/libduckdb.so")
LIBRARY = os.environ.get("SPEX_DUCKDB") or (FOUND[0] if FOUND else "")
PROGRAM = r"""
#define DO __attribute__((noinline))
volatile long sum;
DO void leaf(int n) { for (int i = 0; i < n; i++) sum += i; }
DO void left(int n) { leaf(n); sum++; }
DO void right(int n) { leaf(2 * n); left(n); sum++; }
DO void down(int depth, int n) { if (depth) down(depth - 1, n); else right(n); leaf(3); sum++; }
int main(void) { for (int i = 0; i < 400; i++) { left(40); right(20); down(i % 20, 30); } \
return 0; }
"""
open(f"{DIR}/calls.c", "w").write(PROGRAM)
code, _, err = run("aarch64-linux-gnu-gcc", "-g", "-O1", "-fno-optimize-sibling-calls", "-static",
                   "-Wl,--build-id", "-o", f"{DIR}/calls", f"{DIR}/calls.c")
check("the program is built", code == 0, err)
for name, more in (("calls", []), ("again", [])):
    code, out, err = spex("record", "-q", "-g", "-c", "64", "-o", f"{DIR}/{name}.data", *more,
                          f"{DIR}/calls", cwd=DIR)
    check("recorded with stacks", code == 0, err)


def script(*args):
    code, out, err = spex("script", "-i", "calls.data", "-F", "offset,stack,callers,symbol", *args,
                          cwd=DIR)
    return out.decode().splitlines()


rows = [json.loads(l) for l in script("--format", "json")]
named = {int(r["offset"]): (int(r["stack"], 16) if "stack" in r else None, r.get("callers"))
         for r in rows}
check("most records have a stack",
      sum(s is not None for s, c in named.values()) > 0.99 * len(rows) > 900, len(rows))
check("in text people see the callers",
      [l for l in script() if "leaf" in l and "right < down < down" in l], script()[:5])
csv = [l.split(",", 2)[:2] for l in script("--format", "csv")[1:]]
equal("CSV has the numbers of JSON", {int(o): int(s, 16) if s else None for o, s in csv},
      {o: s for o, (s, c) in named.items()})

code, out, err = run(f"{BUILD}/tests/install/reader", "stacks", "calls.data", cwd=DIR)
mine = collections.Counter(tuple(l.split("\t")) for l in out.decode().splitlines())
code, out, err = spex("script", "-i", "calls.data", "-F", "pc,callers", "--format", "json", cwd=DIR)
theirs = collections.Counter((r["pc"], r.get("callers", "").replace("... < ", ""))
                             for r in map(json.loads, out.decode().splitlines()))
equal("a program of the public headers finds the same stacks", mine, theirs)

# ---- Parquet ----
for directory in ("calls", "again"):
    os.makedirs(f"{DIR}/{directory}.d")
    code, err = export("parquet", f"{directory}.data", out=f"{directory}.d", symbols=False)
    check("exported into a directory", code == 0, err)
equal("the same program gives the same numbers",
      *(open(f"{DIR}/{d}.d/stacks.parquet", "rb").read() for d in ("calls", "again")))
for threads in (1, 2):
    export("parquet", "calls.data", "--threads", threads, out=f"t{threads}.parquet", symbols=False)
equal("one thread and two write the same",
      *(open(f"{DIR}/t{t}.parquet", "rb").read() for t in (1, 2)))
if package("hyparquet"):
    read = lambda name: [json.loads(l) for l in node("read.mjs", name).splitlines() if l]
    equal("Parquet: the stack of each record", {int(r["offset"]): int(r["stack"]) if r["stack"]
                                                else None for r in read("calls.d/samples.parquet")},
          {o: s for o, (s, c) in named.items()})
    table = collections.defaultdict(list)
    for r in sorted(read("calls.d/stacks.parquet"), key=lambda r: int(r["depth"])):
        table[int(r["stack"])].append(r)
    equal("stacks: those that samples have", set(table), {s for s, c in named.values()} - {None})
    equal("and their samples", {s: int(t[0]["samples"]) for s, t in table.items()},
          collections.Counter(s for s, c in named.values() if s))
    check("depths count from 1",
          all([int(r["depth"]) for r in t] == list(range(1, len(t) + 1)) for t in table.values()))
    equal("the functions are the callers",
          {s: " < ".join(("... < " if r["cut"] else "") + r["symbol"] for r in t)
           for s, t in table.items()},
          dict((s, c) for s, c in named.values() if s))

    def number(calls):
        """docs/schema.md: from the outermost call on."""
        n = 0
        for r in reversed(calls):
            file = bytes.fromhex(r["build_id"]) if r["build_id"] else (r["path"] or "").encode()
            h = hashlib.blake2b(n.to_bytes(8, "little") + int(r["address"]).to_bytes(8, "little") +
                                bytes([bool(r["cut"])]) + file, digest_size=8)
            n = int.from_bytes(h.digest(), "little") or 1
        return n

    equal("the number of a stack follows from its calls as docs/schema.md says",
          {s: number(t) for s, t in table.items()}, {s: s for s in table})
    check("calls have lines", any((r["file"] or "").endswith("calls.c") and int(r["line"]) == 6
                                  for t in table.values() for r in t if r["symbol"] == "right"))
else:
    skip("Parquet: stacks", "no hyparquet: scripts/feeds-setup fetches it")

# ---- SQL ----
if not LIBRARY:
    skip("SQL: stacks", "no DuckDB: scripts/feeds-setup fetches it")
    done()
ENV = {"SPEX_DUCKDB": LIBRARY, "HOME": DIR, "COLUMNS": "",
       **({"LD_PRELOAD": "libstdc++.so.6"} if BUILD.endswith("-asan") else {})}


def query(sql, *files):
    code, out, err = run(SPEX, "query", sql, *files, "--format", "json", cwd=DIR, env=ENV)
    if code:
        raise RuntimeError(f"{sql}: {err}")
    return [json.loads(l) for l in out.decode().splitlines()]


equal("SQL: stack and callers of each record",
      {r["offset"]: (r["stack"], r["callers"])
       for r in query('SELECT "offset", stack, callers FROM samples', "calls.data")}, named)
for name in ("files", "symbols", "stacks", "losses", "elapsed"):
    both = query(f"SELECT count(*) AS n FROM spe_{name}('calls.data') UNION ALL "
                 f"SELECT count(*) FROM (SELECT * FROM spe_{name}('calls.data') INTERSECT ALL "
                 f"SELECT * FROM 'calls.d/{name}.parquet') UNION ALL "
                 f"SELECT count(*) FROM 'calls.d/{name}.parquet'")
    equal(f"spe_{name}: the rows of {name}.parquet", len({r["n"] for r in both}), 1)
sources = ("calls.data", "calls.d", "calls.d/samples.parquet")
equal("stacks of a profile, of a directory and beside a file",
      len({str(query("SELECT count(*), sum(depth) FROM stacks", f)) for f in sources}), 1)
code, out, err = run(SPEX, "query", "SELECT * FROM stacks", "t1.parquet", cwd=DIR, env=ENV)
check("a file without them beside it: said", code == 1 and "stacks" in err, err)

report = json.loads(spex("report", "-i", "calls.data", "--sort", "symbol,caller", "--format",
                         "json", cwd=DIR)[1])["rows"]
mine = {(r["symbol"], r["caller"]): r for r in report}
check("report has callers", ("leaf", "right") in mine and ("down", "down") in mine, list(mine)[:5])
for f in sources:
    got = {(r["symbol"], r["caller"] or "-"): (r["samples"], r["p95"])
           for r in query("by-caller", f)}
    want = {(s, c if (s, c) in got else "-"): (r["samples"], r["latency_p95"])
            for (s, c), r in mine.items()}
    equal(f"by-caller, {f}: report --sort symbol,caller", got, want)
functions = json.loads(spex("report", "-g", "-i", "calls.data", "--format", "json",
                            cwd=DIR)[1])["functions"]
want = {r["symbol"]: (r["self_samples"], r["total_samples"])
        for r in functions if r["kind"] == "function"}
for f in sources:
    equal(f"with-callees, {f}: report -g",
          {r["symbol"]: (r["self_samples"], r["total_samples"]) for r in query("with-callees", f)},
          want)
equal("two files, of which stacks are the same",
      {r["symbol"]: r["total_samples"]
       for r in query("SELECT * FROM with_callees", "calls.data", "again.data")},
      {s: 2 * total for s, (own, total) in want.items()})
done()
