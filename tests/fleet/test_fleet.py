"""A fleet: what is in ClickHouse is what is in the files, to the row, whatever is killed when.

Two servers of Debian 12 (18.16) on loopback as the shards of a cluster. `make check-fleet`
(SPEX_LONG=1) does the same with 50 hosts and 20 million rows.
"""
import glob
import json
import os
import re
import resource
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../analysis"))
from common import *
import server

LONG = bool(os.environ.get("SPEX_LONG"))
why = server.why_not()
if why:
    skip("a fleet", why)
    done()

text = re.sub(r"/\*.*?\*/", "", open(f"{SOURCE}/src/export/schema.def").read(), flags=re.S)
COLUMNS = {name: (kind, int(bits)) for name, kind, bits, shown in re.findall(
    r'COLUMN\(\s*\w+,\s*"(\w+)",\s*(\w+),\s*(\d+),\s*"[^"]*",\s*"[^"]*",'
    r'\s*"[^"]*",\s*\w+,\s*"(\w*)"', text) if kind != "LIST" and "p" in shown}

fleet = server.Fleet(2)
A, B = fleet[0], fleet[1]
NOBODY = "http://127.0.0.1:1"


def send(to, file, *args, host="one", env=None, symbols=True):
    """(exit code, stderr) of an export."""
    code, out, err = on("export", file, "--to", "clickhouse", "--url", to if isinstance(to, str)
                        else to.url, "--host", host, *args, symbols=symbols)
    return code, err


def one(query, to=A, **kw):
    return to.ask(query, database="spex", **kw)[0][0]


def rows(where="1", to=A):
    return int(one(f"SELECT count() FROM samples WHERE {where}", to))


for s in fleet.servers:
    code, ddl, err = spex("export", "--to", "clickhouse", "--print-ddl", "--url", s.url,
                          "--cluster", "fleet")
    check("statements are printed for the server's version",
          code == 0 and b"18.16" in ddl and b"LowCardinality" not in ddl, err)
    s.run(ddl.decode())
    s.run(ddl.decode())  # twice changes nothing

# ---- every value ----

MIXED = profile("mixed", 5000)
code, err = send(A, MIXED)
check("a file is sent", code == 0 and "5,000 rows sent" in err, err)


def stored(record):
    """A record of script as the table holds it."""
    row = {}
    for name, (kind, bits) in COLUMNS.items():
        value = record.get(name)
        if value is not None and kind == "ADDRESS":
            value = int(value, 16)
        row[name] = (str(value) if value is not None and kind != "STRING" and bits == 64
                     else int(value) if isinstance(value, bool) else value)
    return row


def same(name, file, host, *args):
    want = [stored(r) for r in records(file, "-F", ",".join(COLUMNS), "--threads", "1", *args)]
    for w in want:
        w["host"] = host
    listed = ", ".join(f"`{c}`" for c in COLUMNS)
    got = [json.loads("\t".join(r))
           for r in A.ask(f"SELECT {listed} FROM samples WHERE host = '{host}' ORDER BY part, "
                          "offset, time FORMAT JSONEachRow", database="spex")]
    key = lambda r: json.dumps(r, sort_keys=True)
    want, got = sorted(want, key=key), sorted(got, key=key)
    bad = next((f"row {i}: {k}: {g.get(k)!r}, script says {w[k]!r}"
                for i, (g, w) in enumerate(zip(got, want)) for k in w if g.get(k) != w[k]), "")
    check(f"{name}: every value is what script prints ({len(want)} records)",
          len(got) == len(want) and not bad, bad or f"{len(got)} rows, {len(want)} records")


same("mixed", MIXED, "one")


spex("generate", "-o", f"{DIR}/g.spe", "-n", "2000", "-s", "1")
code, err = send(A, "g.spe", "--raw", host="two")
check("a bare stream is sent", code == 0, err)
same("generated records", "g.spe", "two", "--raw")

# ---- the usual table ----


def report(*args, to=A):
    code, out, err = spex("report", "--url", to.url, *args, env={"COLUMNS": ""})
    return code, out.decode(), err


def near(a, b):
    return a == b or (isinstance(a, (int, float)) and isinstance(b, (int, float)) and
                      abs(a - b) <= 1e-6 * max(abs(a), abs(b)))


NOT_KNOWN = {"runs", "time_error", "time_low", "time_high", "ops_low", "ops_high",
             "translation_p50", "translation_p95", "translation_p99"}  # to roll-ups
want = {r["symbol"]: r for r in data("report", MIXED)["rows"]}
for _ in range(2):  # second time after the parts were merged
    code, out, err = report("--host", "one", "--format", "json", to=B)
    got = {r["symbol"]: r for r in json.loads(out)["rows"]}
    bad = [f"{s}: {c}: {got[s].get(c)!r}, report of the file says {w[c]!r}" for s, w in want.items()
           if s in got for c in w if c not in NOT_KNOWN and not near(got[s].get(c), w[c])]
    check(f"report --url prints what report prints of the file, {len(want)} rows with "
          f"{len(next(iter(want.values())))} columns",
          code == 0 and len(got) == len(want) and len(set(got) & set(want)) >= len(want) - 1 and
          not bad, "\n".join(bad) or (err, list(got), list(want)))
    outside = [(s, c, got[s][c]) for s, w in want.items() if s in got
               for c in ("time_low", "time_high")
               if not w["time_low"] * (1 - 1e-6) <= got[s][c] <= w["time_high"] * (1 + 1e-6)]
    check("the interval of a time lies within that of the file", not outside, outside)
    A.ask("OPTIMIZE TABLE spex.minutes_local FINAL")
code, out, err = report("--host", "one", "--last", "1h")
check("as text, of the last hour", code == 0 and "5,000 samples of 1 host" in out and
      "walk" in out and "time" in out, (out, err))
code, out, err = report("--sort", "host")
check("by host", code == 0 and out.split("\n")[1].split()[-1] == "host" and "5,000" in out and
      "2,000" in out, (out, err))
check("of hosts that are not there: said",
      report("--host", "nobody*")[2] and report("--host", "nobody")[0] == 0)
check("as an object without rows",
      json.loads(report("--host", "nobody", "--format", "json")[1])["rows"] == [])
for args in (("--last", "soon"), ("--sort", "pc"), ("--comm", "x"), ("x.data",)):
    check(f"report --url {' '.join(args)} is refused", report(*args)[0] == 2)

# ---- questions ----


def question(name, *args, to=A):
    code, out, err = spex("query", "--url", to.url, name, "--format", "json", *args)
    return code, [json.loads(l) for l in out.decode().splitlines()], err


NAMES = sorted(n[:-4] for n in os.listdir(f"{SOURCE}/share/queries") if n.endswith(".sql"))
FLEET = sorted(n[:-4] for n in os.listdir(f"{SOURCE}/share/queries/clickhouse"))
equal("a fleet is asked the same questions as a file, and one more", sorted(set(FLEET) - {"hosts"}),
      NAMES)
equal("which --list names",
      [l.split()[0] for l in spex("query", "--list", "--url", A.url)[1].decode().splitlines()],
      FLEET)
rows_of = {n: question(n, "--host", "one") for n in FLEET if n != "hosts"}
check("each has an answer", all(code == 0 and rows for code, rows, err in rows_of.values()) and
      question("hosts")[1][0]["samples"] == 5000,
      {n: (c, len(r), e) for n, (c, r, e) in rows_of.items()})
feeds = os.environ.get("SPEX_FEEDS", BUILD + "/feeds")
# not that for musl, which npm of Debian 12 brings as well
duck = (glob.glob(f"{feeds}/node_modules/@duckdb/node-bindings-linux-*[!l]/libduckdb.so") or
        [None])[0]
for name in NAMES:
    if not duck:
        skip(f"{name}: ClickHouse answers what DuckDB answers",
             "no DuckDB: scripts/feeds-setup fetches it")
        continue
    os.environ["SPEX_DUCKDB"] = duck
    code, out, err = on("query", (name, MIXED), "--format", "json")
    plain = (lambda v: str(round(v, 3)) if isinstance(v, float) and v != int(v) else str(int(v))
             if isinstance(v, (int, float)) else v or None)
    drop = {"host", "minute"}
    want = sorted(json.dumps([plain(v) for k, v in json.loads(l).items() if k not in drop])
                  for l in out.splitlines())
    got = sorted(json.dumps([plain(v) for k, v in r.items() if k not in drop])
                 for r in rows_of[name][1])
    bad = next(((g, w) for g, w in zip(got, want) if g != w), (len(got), len(want)))
    check(f"{name}: ClickHouse answers what DuckDB answers ({len(want)} rows)",
          got == want and code == 0, f"{bad}\n{err}")
equal("any other statement",
      question("SELECT host, count() AS n FROM samples GROUP BY host ORDER BY n;")[1],
      [{"host": "two", "n": 2000}, {"host": "one", "n": 5000}])
check("a question of hosts that are not there has no rows",
      question("symbols", "--host", "nobody", "--last", "1h")[:2] == (0, []))
check("a mistake is told",
      question("SELECT nothing")[0] == 1 and "nothing" in question("SELECT nothing")[2])
for args in (("SELECT 1", "--host", "x"), ("symbols", "x.data"), ("symbols", "--format", "parquet"),
             ("no-such-question",)):
    check(f"query --url {' '.join(args)} is refused", question(*args)[0] == 2)

# ---- the tables beside samples ----

SIDES = ("files", "symbols", "stacks", "losses")
# numbers of 64 bits, which JSON of 18.16 quotes
BIG = {"samples", "address", "size", "stack", "time", "value"}


def sides(host):
    """By table: its rows, each as JSON."""
    got = {}
    for name in SIDES:
        rows = [json.loads("\t".join(r))
                for r in A.ask(f"SELECT * FROM {name} WHERE host = '{host}' FORMAT JSONEachRow",
                               database="spex")]
        got[name] = sorted(json.dumps({k: int(v) if k in BIG and v is not None else v
                                       for k, v in r.items()
                                       if k not in ("host", "until", "batch", "part")},
                                      sort_keys=True) for r in rows)
    return got


CALLS = None
if shutil.which("qemu-aarch64") and not run("aarch64-linux-gnu-gcc", "-g", "-O1", "-static", "-o",
                                            f"{DIR}/hot", f"{SOURCE}/tests/export/hot.c")[0]:
    code, out, err = spex("record", "-q", "-g", "-c", "1024", "-o", f"{DIR}/calls.data",
                          f"{DIR}/hot", cwd=DIR)
    CALLS = "calls.data" if code == 0 else None
    check("recorded with call stacks", CALLS, err)
    code, err = send(A, CALLS, host="calls")
    check("and sent", code == 0, err)
    same("with call stacks", CALLS, "calls")
send(A, profile("mixed-loss", 2000), host="lossy")
for file, host in ((CALLS, "calls"), ("mixed-loss.data", "lossy")):
    if not file or not duck:
        skip(f"{host}: the tables beside samples",
             "no QEMU" if not file else "no DuckDB: scripts/feeds-setup fetches it")
        continue
    got = sides(host)
    for name in SIDES:
        code, out, err = on("query", (f"SELECT * FROM spe_{name}('{file}')",), "--format", "json")
        want = sorted(json.dumps({k: int(v) if isinstance(v, bool) else v
                                  for k, v in json.loads(l).items()},
                                 sort_keys=True) for l in out.splitlines())
        check(f"{host}: {name} are those of the file ({len(want)} rows)",
              got[name] == want and code == 0, (err, got[name][:2], want[:2]))
if CALLS and duck:
    for name in ("by-caller", "with-callees"):
        code, out, err = on("query", (name, CALLS), "--format", "json")
        want = sorted(json.dumps([plain(v) for v in json.loads(l).values()])
                      for l in out.splitlines())
        got = sorted(json.dumps([plain(v) for v in r.values()])
                     for r in question(name, "--host", "calls", "--last", "1h")[1])
        check(f"{name} of call stacks: ClickHouse answers what DuckDB answers ({len(want)} rows)",
              got == want and len(want) > 3, (got[:3], want[:3], err))

# ---- exactly once ----


def state(to=A):
    """Rows in samples, in the roll-ups and in the ledger."""
    return (rows(to=to), int(one("SELECT sumMerge(samples) FROM minutes", to)),
            int(one("SELECT sum(rows) FROM batches", to)))


def settled(to):
    for table in ("samples", "minutes", "batches", *SIDES):
        while to.ask("SELECT count() FROM system.mutations WHERE table = "
                     f"'{table}_local' AND NOT is_done")[0][0] != "0":
            time.sleep(0.05)


def take(to, table, where):
    to.ask(f"ALTER TABLE spex.{table}_local DELETE WHERE {where}")
    settled(to)


before = state()
check("samples, roll-ups and the ledger have as many rows", len(set(before)) == 1, before)
code, err = send(A, MIXED)
check("a file that was sent before adds nothing",
      code == 0 and "nothing was added" in err and state() == before, (err, state()))
shutil.copy(f"{DIR}/{MIXED}", f"{DIR}/copy.data")
code, err = send(A, "copy.data")
check("nor does it under another name",
      code == 0 and "nothing was added" in err and state() == before, err)
for what, table, where in (("the ledger does not have yet", "batches", "host = 'one'"),
                           ("of which rows are missing", "samples", "host = 'one' AND tid = 101"),
                           ("of which roll-ups are missing", "minutes",
                            "host = 'one' AND symbol = 'walk'"),
                           ("of which a table beside samples lacks a row", "symbols",
                            "host = 'one' AND symbol = 'walk'")):
    beside = sides("one")
    take(A, table, where)
    changed = state(), sides("one")
    code, err = send(A, MIXED)
    check(f"a part {what} is sent again, and nothing twice",
          code == 0 and changed != (before, beside) and state() == before and
          sides("one") == beside and "left half" in err, (err, changed, state()))
same("after all that", MIXED, "one")

WANT = (1 << 18) + 20000  # two parts
MANY = profile("mixed", WANT, seed=5, name="many.data")


def begin(to, file, host, *args):
    return subprocess.Popen([SPEX, "export", "-i", file, *SYMBOLS, "--to", "clickhouse", "--url",
                             to.url, "--host", host, *args],
                            cwd=DIR, env={**os.environ, "HOME": DIR}, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)


def after_first_part(to, host):
    while int(to.ask(f"SELECT count() FROM samples_local WHERE host = '{host}'",
                     database="spex")[0][0]) == 0:
        time.sleep(0.02)


p = begin(B, MANY, "three")
after_first_part(B, "three")
B.kill()
time.sleep(0.3)
B.start()
err = p.communicate()[1]
got = [int(one(f"SELECT {x} WHERE host = 'three'", B))
       for x in ("count() FROM samples_local", "sumMerge(samples) FROM minutes_local",
                 "sum(rows) FROM batches_local")]
check("a server is killed while it loads and starts again: equal to the row",
      p.returncode == 0 and got == [WANT] * 3, (p.returncode, err, got))

p = begin(B, MANY, "four")
after_first_part(B, "four")
p.kill()
p.communicate()
left = rows("host = 'four'")
code, err = send(B, MANY, host="four")
check("an export is killed and begins again: equal to the row", code == 0 and 0 < left <= WANT and
      rows("host = 'four'") == WANT, (left, rows("host = 'four'"), err))
check("and goes on where it was",
      "were there" in err or "nothing was added" in err or "left half" in err, err)

both = [begin(B, MANY, "same") for _ in range(2)]
told = [p.communicate()[1] for p in both]
check("two export the same file at the same time: one waits, and all is there once",
      [p.returncode for p in both] == [0, 0] and rows("host = 'same'") == WANT and
      any("waiting for it" in t and "nothing was added" in t for t in told), told)
equal("in the tables beside samples, too", sides("same"), sides("four"))
# copies are not locked: whoever comes last sees it
both = [begin(B, f, "copies") for f in (MIXED, "copy.data")]
told = [p.communicate()[1] for p in both]
check("two copies at the same time: whoever sees it says what to do",
      all("send it again" in t for p, t in zip(both, told) if p.returncode), told)
send(B, MIXED, host="copies")
check("and then all is there once", rows("host = 'copies'") == 5000 and
      int(one("SELECT sumMerge(samples) FROM minutes WHERE host = 'copies'")) == 5000,
      (rows("host = 'copies'"), told))

B.kill()
code, out, err = report("--sort", "host")
check("a shard is away: the answer says that it is partial, and the exit status", code == 1 and
      "PARTIAL: 1 of 2 shards" in out and "PARTIAL" in err and "one" in out and "three" not in out,
      (code, out, err))
check("so does the answer of a question",
      question("hosts")[0] == 1 and "PARTIAL" in question("hosts")[2])
check("in JSON, too", "1 of 2" in json.loads(report("--format", "json")[1])["partial"])
B.start()
check("and it is whole again when the shard is", report()[0] == 0 and "PARTIAL" not in report()[1])

B.disk(full=True)
code, err = send(B, MIXED, "--retry", "1", host="five")
B.disk(full=False)
check("the server's disk is full: said after trying again",
      code == 1 and "trying again" in err and "error" in err, err)
code, err = send(B, MIXED, host="five")
check("and later all is there once", code == 0 and rows("host = 'five'") == 5000 and
      int(one("SELECT sumMerge(samples) FROM minutes WHERE host = 'five'")) == 5000, err)

OTHER = profile("mixed", 3000, seed=7, name="other.data")
send(A, OTHER, "--boot", "b2")
send(A, profile("mixed", 100, name="third.data"), "--boot", "b1", host="twin")
send(A, profile("mixed", 100, seed=2, name="fourth.data"), "--boot", "b2", host="twin")
A.ask("INSERT INTO spex.batches_local (batch, host, boot, first, until) SELECT 'x', 'twin', b, "
      "now() - 3600 + 60 * (b = 'b2'), now() FROM (SELECT arrayJoin(['b1', 'b2']) AS b)")
check("two machines of one name that are up at the same time are told",
      "two machines of one name were up at the same time: twin" in report()[1], report())
take(A, "batches", "batch = 'x'")
check("two hosts of one name: the rows of both are kept apart by batch", rows("host = 'one'") ==
      8000 and one("SELECT uniqExact(batch) FROM samples WHERE host = 'one'") == "2")

whole = open(f"{DIR}/{MIXED}", "rb").read()
open(f"{DIR}/cut.data", "wb").write(whole[:len(whole) * 2 // 3])
cut = len(records("cut.data"))
code, err = send(A, "cut.data", host="six")
check("a truncated file: what can be read of it is sent, and that it is damaged is said",
      code == 1 and 0 < cut < 5000 and rows("host = 'six'") == cut and "rows sent" in err,
      (code, cut, err))
code, err = send(A, "cut.data", host="six")
check("and not twice", "nothing was added" in err and rows("host = 'six'") == cut, err)

# ---- what goes wrong ----

total = rows()
shipper = {"SPEX_CLICKHOUSE_USER": "shipper"}


def refused(name, words, *args, **kw):
    env = kw.pop("env", {})
    os.environ.update(env)
    code, err = send(*args, **kw)
    for k in env:
        del os.environ[k]
    check(f"{name}: said, and nothing is sent",
          code in (1, 2) and all(w in err for w in words) and rows() == total, (code, err))


refused("a wrong password", ["password"], A, OTHER, host="x",
        env={**shipper, "SPEX_CLICKHOUSE_PASSWORD": "wrong"})
refused("a server that is away", ["127.0.0.1:1", "trying again"], NOBODY, OTHER, "--retry", "1",
        host="x")
refused("a URL that is none", ["http://HOST:8123"], "localhost:8123", OTHER, host="x")
refused("a password in the URL", ["--credentials"], "http://a:b@127.0.0.1:1", OTHER, host="x")
refused("a database without tables", ["--print-ddl"], A, OTHER, "--database", "default", host="x")
refused("columns", ["all columns"], A, OTHER, "-F", "pc", host="x")
code, out, err = on("export", OTHER, "--to", "clickhouse", "--url", A.url)
check("a host that is not known: said", code == 1 and "--host" in err, err)
A.ask("CREATE DATABASE old")
A.ask("CREATE VIEW old.spex_schema AS SELECT 'spex.samples.0' AS schema, '' AS cluster, tables "
      "FROM spex.spex_schema")
refused("tables of another schema", ["spex.samples.0", "spex.samples.1"], A, OTHER, "--database",
        "old", host="x")
A.ask("CREATE DATABASE older")
A.ask("CREATE VIEW older.spex_schema AS SELECT 'spex.samples.1' AS schema, '' AS cluster")
refused("tables of an older spex", ["another version", "--database"], A, OTHER, "--database",
        "older", host="x")
open(f"{DIR}/secret", "w").write("user shipper\npassword s3 cret'\n")
refused("credentials that everybody can read", ["chmod"], A, OTHER, "--credentials", "secret",
        host="x")
os.chmod(f"{DIR}/secret", 0o600)
code, err = send(A, OTHER, "--credentials", "secret", host="seven's \\ host")
check("credentials of a file, a host of any name",
      code == 0 and rows("host = 'seven\\'s \\\\ host'") == 3000, err)

if fleet.https:
    total = rows()
    refused("a certificate that nobody vouches for", ["ertificate"], fleet.https, OTHER, host="tls")
    code, err = send(fleet.https, OTHER, "--ca", fleet.ca, host="tls")
    check("over TLS, with the certificate that --ca names",
          code == 0 and rows("host = 'tls'") == 3000, err)
else:
    skip("over TLS", "no openssl to make a certificate")

# ---- spex ship ----

SPOOL = f"{DIR}/spool"
PROM = f"{DIR}/spex.prom"
os.makedirs(SPOOL)


def ship(*args, to=A, host="ship"):
    return [SPEX, "ship", "--spool", "spool", "--url", to if isinstance(to, str) else to.url,
            "--host", host, "--metrics", "spex.prom", "--retry", "1", *SYMBOLS, *args]


def shipped(*args, **kw):
    code, out, err = run(*ship("--once", *args, **kw), cwd=DIR, env={"HOME": DIR})
    return code, err


def metrics():
    return {l.split()[0].removeprefix("spex_ship_"): int(l.split()[1])
            for l in open(PROM) if not l.startswith("#")}


def put(name, file, age=0):
    shutil.copy(f"{DIR}/{file}", f"{DIR}/coming")
    os.utime(f"{DIR}/coming", (time.time() - age,) * 2)
    os.rename(f"{DIR}/coming", f"{SPOOL}/{name}")


def left():
    return sorted(n for n in os.listdir(SPOOL) if not n.startswith("."))


put("perf.data.1", MIXED, 60)
put("perf.data.2", "cut.data", 50)
open(f"{SPOOL}/junk", "w").write("this is no profile\n")
writing = open(f"{SPOOL}/perf.data", "wb")
writing.write(whole[:1000])
writing.flush()
code, err = shipped(to=NOBODY)
check("the server is away: everything waits",
      code == 1 and set(left()) >= {"perf.data", "perf.data.1", "perf.data.2"} and
      metrics()["server_up"] == 0 and metrics()["failures_total"] == 1, (err, left()))
code, err = shipped()
m = metrics()
equal("what is finished is sent and goes, what is written stays, what is no profile is set aside",
      left(), ["aside", "perf.data"])
check("every row is there once", rows("host = 'ship'") == 5000 + cut, err)
equal("with the reason", "junk.reason" in os.listdir(f"{SPOOL}/aside") and
      "junk" in open(f"{SPOOL}/aside/junk.reason").read(), True)
equal("the metrics count it", (m['files_total{result="sent"}'], m['files_total{result="aside"}'],
                               m["rows_total"], m["server_up"], m["spool_files"]),
      (2, 1, 5000 + cut, 1, 1))
put("perf.data.1", MIXED)
code, err = shipped()
check("a file that was sent before goes, and adds nothing",
      code == 0 and left() == ["aside", "perf.data"] and rows("host = 'ship'") == 5000 + cut, err)
writing.write(whole[1000:])
writing.close()
for i in range(3):
    put(f"old{i}", OTHER, 1000 - i)
code, err = shipped("--spool-limit", str(os.path.getsize(f"{DIR}/{OTHER}") + len(whole) + 100),
                    to=NOBODY)
equal("a spool that is full loses its oldest files, first what was set aside",
      (left(), os.listdir(f"{SPOOL}/aside")), (["aside", "old2", "perf.data"], []))
check("and counts them", metrics()['files_total{result="dropped"}'] == 4 and
      metrics()["dropped_bytes_total"] > 0 and "dropped" in err, (metrics(), err))
shutil.rmtree(SPOOL)
os.makedirs(SPOOL)


def no_room():
    """A disk on which no file grows, as for a process that may not write a byte."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


put("perf.data.1", MIXED)
put("junk", "secret", 9)
os.remove(PROM)
p = subprocess.run(ship("--once", host="full"), cwd=DIR, env={**os.environ, "HOME": DIR},
                   capture_output=True, text=True, preexec_fn=no_room, restore_signals=False)
check("the host's disk is full: what can be sent is sent and goes, and what could "
      "not be written is said",
      rows("host = 'full'") == 5000 and left() == ["aside"] and
      "junk" in os.listdir(f"{SPOOL}/aside") and "--metrics" in p.stderr and
      not os.path.exists(PROM),
      (p.returncode, left(), p.stderr))
shutil.rmtree(SPOOL)
os.makedirs(SPOOL)


def until(what):
    while not what():
        time.sleep(0.05)
    return True


def watch(*args, **kw):
    return subprocess.Popen(ship(*args, **kw), cwd=DIR, env={**os.environ, "HOME": DIR},
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


w = watch(to=B, host="watched")
until(lambda: os.path.exists(f"{SPOOL}/.spex-ship.lock"))
code, err = shipped()
check("a second one on the same directory is refused", code == 1 and "another spex ship" in err,
      err)
put("perf.data.1", MIXED)
check("a file that comes is sent", until(lambda: not left()) and rows("host = 'watched'") == 5000)
B.kill()
put("perf.data.2", OTHER)
until(lambda: metrics()["failures_total"] > 0)
B.start()
check("a file that came while the server was away, too",
      until(lambda: not left()) and rows("host = 'watched'") == 8000)
put("perf.data.3", MANY)
after = 8000 + WANT
until(lambda: rows("host = 'watched'") > 8000)
w.kill()
w.communicate()
# what it started ends with it
until(lambda: "another spex ship" not in shipped(to=B, host="watched")[1])
code, err = shipped(to=B, host="watched")
check("ship is killed while it sends, and begins again: equal to the row",
      until(lambda: rows("host = 'watched'") == after) and not left(),
      (code, err, rows("host = 'watched'")))
os.remove(PROM)
w = watch(to=B, host="watched")
until(lambda: os.path.exists(PROM))
w.terminate()
err = w.communicate()[1]
check("it ends on SIGTERM", w.returncode == 0 and "signal 15" in err, (w.returncode, err))

# ---- more time than 64 bits hold: 2^64 ps are 213 days of one CPU ----

HUGE = 15 * 10**18
A.ask("INSERT INTO samples_local (host, wall, symbol, estimated_time, operations) SELECT 'huge', "
      f"toDateTime(1700000000 + 60 * number), if(number < 3, 'f', 'g'), {HUGE}, {HUGE} "
      "FROM numbers(4)", database="spex")
code, out, err = report("--host", "huge", "--format", "json")
got = {r["symbol"]: [r[k] for k in ("time", "time_ns", "ops")] for r in json.loads(out)["rows"]}
want = {"f": [0.75, 3 * HUGE / 1000, 3 * HUGE], "g": [0.25, HUGE / 1000, HUGE]}
check("time of years of CPUs adds up",
      got.keys() == want.keys() and all(near(a, b) for k in want
                                        for a, b in zip(got[k], want[k])), (got, err))
got = {r["symbol"]: r["time_ms"] for r in question("symbols", "--host", "huge")[1]}
check("and in questions", got == {"f": 3 * HUGE / 1e9, "g": HUGE / 1e9}, got)

fleet.close()
done()
