"""Today's dialect: the tables, every value, sending again what was left half, report and questions
on ClickHouse 26 (chDB)."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../analysis"))
from common import *
import today

if not os.path.exists(today.LIBRARY):
    later("ClickHouse of today", "check-fleet")
    done()

server = today.Today(DIR)
ddl = spex("export", "--to", "clickhouse", "--print-ddl", "--url", server.url)[1].decode()
check("statements are printed for the server's version", "LowCardinality" in ddl and "TTL" in ddl,
      ddl[:500])
for statement in ddl.split(";\n"):
    lines = [l for l in statement.splitlines() if l.strip() and not l.startswith("--")]
    if lines:
        server.ask("\n".join(lines), "default")
for policy in re.findall(r"^-- (CREATE ROW POLICY .*);$", ddl, re.M):
    answer, wrong = server.query(policy)
    check("a row policy is understood", not wrong or b"Not enough privileges" in answer, answer)

text = re.sub(r"/\*.*?\*/", "", open(f"{SOURCE}/src/export/schema.def").read(), flags=re.S)
COLUMNS = {name: (kind, int(bits)) for name, kind, bits, shown in re.findall(
    r'COLUMN\(\s*\w+,\s*"(\w+)",\s*(\w+),\s*(\d+),\s*"[^"]*",\s*"[^"]*",'
    r'\s*"[^"]*",\s*\w+,\s*"(\w*)"', text) if kind != "LIST" and "p" in shown}
MIXED = profile("mixed", 5000)


def send(*args):
    code, out, err = on("export", MIXED, "--to", "clickhouse", "--url", server.url, "--host", "one",
                        *args)
    return code, err


def state():
    return tuple(int(server.ask(q)[0][0])
                 for q in ("SELECT count() FROM samples", "SELECT sumMerge(samples) FROM minutes",
                           "SELECT sum(rows) FROM batches"))


code, err = send()
check("a file is sent", code == 0 and state() == (5000, 5000, 5000), (err, state()))
want = []
for r in records(MIXED, "-F", ",".join(COLUMNS), "--threads", "1"):
    row = {n: int(r[n], 16) if kind == "ADDRESS" and n in r else r.get(n)
           for n, (kind, bits) in COLUMNS.items()}
    want.append(json.dumps({n: int(v) if isinstance(v, bool) else v
                            for n, v in {**row, "host": "one"}.items()}, sort_keys=True))
listed = ", ".join(f"`{c}`" for c in COLUMNS)
got = [json.dumps(json.loads(l), sort_keys=True) for l in server.query(
    f"SELECT {listed} FROM spex.samples SETTINGS output_format_json_quote_64bit_integers = "
    "0 FORMAT JSONEachRow")[0].decode().splitlines()]
bad = next(((g, w) for g, w in zip(sorted(got), sorted(want)) if g != w), (len(got), len(want)))
check("every value is what script prints", sorted(got) == sorted(want), bad)
code, err = send()
check("sent again it adds nothing",
      code == 0 and "nothing was added" in err and state() == (5000, 5000, 5000), (err, state()))
server.ask("ALTER TABLE samples DELETE WHERE tid = 101 SETTINGS mutations_sync = 1")
half = state()
code, err = send()
check("a part that was left half is sent again", code == 0 and
      half != state() == (5000, 5000, 5000) and "left half" in err, (half, err, state()))

NOT_KNOWN = {"runs", "time_error", "time_low", "time_high", "ops_low", "ops_high",
             "translation_p50", "translation_p95", "translation_p99"}  # to roll-ups
want = {r["symbol"]: r for r in data("report", MIXED)["rows"]}
code, out, err = spex("report", "--url", server.url, "--host", "one", "--last", "1h", "--format",
                      "json")
got = {r["symbol"]: r for r in json.loads(out)["rows"]} if not code else {}
bad = [(s, c, got[s].get(c), w[c]) for s, w in want.items() if s in got
       for c in w if c not in NOT_KNOWN and got[s].get(c) != w[c] and
       not (isinstance(w[c], float) and abs(got[s].get(c) / w[c] - 1) < 1e-6)]
check("report --url prints what report prints of the file",
      code == 0 and len(got) == len(want) and not bad, (err, bad))
for name in sorted(n[:-4] for n in os.listdir(f"{SOURCE}/share/queries/clickhouse")):
    code, out, err = spex("query", "--url", server.url, name, "--format", "csv")
    check(f"{name} has an answer", code == 0 and out.count(b"\n") > 1, err)
shutil.rmtree(DIR, ignore_errors=True)
try:
    done()
except SystemExit as end:  # threads of the library would wait for each other
    sys.stdout.flush()
    os._exit(end.code or 0)
