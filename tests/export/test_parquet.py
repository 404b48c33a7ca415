"""Parquet files: readers that we did not write find every value that `spex
script --format json` prints.

In `make check` some thousand records of each kind by hyparquet; in `make check-feeds`
(SPEX_LONG=1) a million by DuckDB.
"""
import re
from feeds import *

text = re.sub(r"/\*.*?\*/", "", open(f"{SOURCE}/src/export/schema.def").read(), flags=re.S)
COLUMNS = {name: (kind, int(bits))
           for name, kind, bits in re.findall(r'COLUMN\(\s*\w+,\s*"(\w+)",\s*(\w+),\s*(\d+)', text)
           if kind != "LIST"}
ALL = ",".join(COLUMNS)


def stored(record):
    """A record of script as the columns hold it."""
    row = {}
    for name, (kind, bits) in COLUMNS.items():
        value = record.get(name)
        if value is not None and kind == "ADDRESS":
            value = int(value, 16)
        if value is not None and kind in ("ADDRESS", "NUMBER") and bits == 64:
            value = str(value)
        row[name] = value
    return row


def same(name, file, *args, fields=ALL):
    code, err = export("parquet", file, "-F", fields, *args)
    want = [{k: v for k, v in stored(r).items() if k in fields.split(",")}
            for r in records(file, "-F", fields, *args)]
    if not check(f"{name}: export ends with 0", code == 0, err):
        return
    readers = {"hyparquet": lambda: node("read.mjs", "out.parquet")}
    if LONG:
        readers["pandas"] = lambda: pandas(f"{EXPORT}/pandas_rows.py", "out.parquet")
        readers["Polars"] = lambda: node("polars.mjs", "out.parquet")
    for reader, read in readers.items():
        got = [json.loads(l) for l in (read() or "").splitlines() if l]
        bad = next((f"row {i}: {k}: {g.get(k)!r}, script says {w[k]!r}"
                    for i, (g, w) in enumerate(zip(got, want)) for k in w if g.get(k) != w[k]), "")
        check(f"{name}: {reader} reads what script prints ({len(want)} records)",
              len(got) == len(want) and not bad, bad or f"{len(got)} rows, {len(want)} records")


def raw(name, *args):
    spex("generate", "-o", f"{DIR}/{name}", *args)
    return name


if not package("hyparquet"):
    skip("hyparquet reads what script prints", "no hyparquet: scripts/feeds-setup fetches it")
else:
    for scenario in ("mixed", "branches-untimed", "false-nocontext-pa"):
        same(scenario, profile(scenario, 2000))
    for seed, features in ((1, "max"), (2, "v1p0"), (3, "neoverse-n1")):
        same(f"generated records, {features}",
             raw(f"g{seed}.spe", "-n", "2000", "-s", seed, "-F", features), "--raw")
    same("nothing", raw("none.spe", "-n", "0"), "--raw")
    same("one record", raw("one.spe", "-n", "1"), "--raw")
    same("loads alone", profile("mixed", 3000), "--op", "load")
    # several pages and groups
    same("65536 records, one page", profile("mixed", 65536, name="pages65536.data"),
         fields="time,offset,symbol,saturated")
    same("70000 records, two pages", profile("mixed", 70000, name="two.data"),
         fields="time,va,target,latency,symbol,source,ev_l1d_miss,tid")

    export("parquet", profile("mixed", 70000, name="two.data"))
    meta = json.loads(node("read.mjs", "out.parquet", "--metadata"))
    group = meta["row_groups"][0]
    notes = {n["key"]: n["value"] for n in meta["key_value_metadata"]}
    equal("the file names its schema", notes["spex.schema"], "spex.samples.1")
    equal("and how it was sampled",
          (notes["spex.period"], notes["spex.event"], notes["spex.samples"]),
          ("1024", "ts_enable=1,jitter=1", "70000"))
    names = [c["meta_data"]["path_in_schema"][0] for c in group["columns"]]
    arrays = {c["name"]: c["numpy_type"] for c in json.loads(notes["pandas"])["columns"]}
    equal("pandas is told of a type for each column", list(arrays), names)
    equal("that holds 64 bits and null", {n: arrays[n] for n in ("pc", "va", "time", "tid")},
          {"pc": "UInt64", "va": "UInt64", "time": "UInt64", "tid": "UInt32"})
    equal("rows are sorted by time, and say so",
          [(names[s["column_idx"]], s["descending"]) for s in group["sorting_columns"]],
          [("time", False)])
    check("each column has statistics, an offset index and a column index",
          all("statistics" in c["meta_data"] and c["offset_index_length"] and
              c["column_index_length"] for c in group["columns"]))
    by_name = {c["meta_data"]["path_in_schema"][0]: c["meta_data"] for c in group["columns"]}
    times = [r["time"] for r in records("two.data", "-F", "time")]
    equal("minimum and maximum are those of the column",
          (by_name["time"]["statistics"]["min_value"], by_name["time"]["statistics"]["max_value"]),
          (str(min(times)), str(max(times))))
    spent = sum(r["estimated_time"] for r in records("two.data", "-F", "estimated_time"))
    total = json.loads(spex("report", "-i", f"{DIR}/two.data", "--format",
                            "json")[1])["totals"]["time_ns"]
    check("the time of all samples is that of the report",
          total > 0 and abs(spent / 1000 / total - 1) < 0.001, (spent, total))
    check("times are DELTA_BINARY_PACKED", "DELTA_BINARY_PACKED" in by_name["time"]["encodings"],
          by_name["time"]["encodings"])
    export("parquet", profile("branches-untimed", 3000))
    check("records without time are not called sorted",
          not json.loads(node("read.mjs", "out.parquet",
                              "--metadata"))["row_groups"][0].get("sorting_columns"))

    # ---- the tables beside samples ----
    os.makedirs(f"{DIR}/tables", exist_ok=True)
    code, err = export("parquet", profile("mixed-loss", 2000), out="tables")
    equal("a directory gets six tables", (code, sorted(os.listdir(f"{DIR}/tables"))),
          (0, ["elapsed.parquet", "files.parquet", "losses.parquet", "samples.parquet",
               "stacks.parquet", "symbols.parquet"]))
    tables = {n: [json.loads(l) for l in node("read.mjs", f"tables/{n}.parquet").splitlines() if l]
              for n in ("elapsed", "files", "losses", "samples", "stacks", "symbols")}
    rows = records("mixed-loss.data", "-F", "path")
    equal("files: each with its samples", {r["path"]: int(r["samples"]) for r in tables["files"]},
          {p: sum(r["path"] == p for r in rows) for p in {r["path"] for r in rows}})
    named = {}
    for r in tables["samples"]:
        if r["symbol"]:
            start = int(r["address"]) - int(r["symbol_offset"])
            named.setdefault((r["symbol"], r["path"], start), []).append(int(r["symbol_offset"]))
    equal("symbols: each with its file, its place and its samples",
          {(r["symbol"], r["path"], int(r["address"])): int(r["samples"])
           for r in tables["symbols"]}, {k: len(v) for k, v in named.items()})
    check("and its size", all(int(r["size"]) > max(named[r["symbol"], r["path"], int(r["address"])])
                              for r in tables["symbols"]), tables["symbols"])
    check("where samples were lost nothing is estimated",
          all(r["operations"] is None and int(r["period"]) == 1024 for r in tables["samples"]),
          tables["samples"][0])
    equal("losses: one row per buffer that was cut", [r["kind"] for r in tables["losses"]],
          ["truncated"] * data("report", "mixed-loss.data")["totals"]["truncated"])
    equal("samples: all of them", len(tables["samples"]), len(rows))
    os.makedirs(f"{DIR}/lake")
    os.utime(f"{DIR}/mixed-loss.data", (1790000000, 1790000000))  # 2026-09-21
    for host in ("a/b", "a/b", ""):
        code, err = export("parquet", "mixed-loss.data", "--partition",
                           *(["--host", host] if host else []), out="lake")
    where = sorted(os.path.relpath(os.path.join(a, n), f"{DIR}/lake")
                   for a, _, names in os.walk(f"{DIR}/lake")
                   for n in names if n.endswith(".parquet"))
    ids = {re.search(r"-([0-9a-f]{16})\.parquet", n).group(1) for n in where}
    equal("partitions by date and host; the same profile is there once", (len(ids), where),
          (1, sorted(f"date=2026-09-21/host={h}/{n}-{min(ids)}.parquet"
                     for h in ("a%2Fb", "__HIVE_DEFAULT_PARTITION__") for n in tables)))
    code, err = export("parquet", "mixed-loss.data", "--partition", out="one.parquet")
    check("--partition wants a directory", code == 2 and "directory" in err, err)
    code, err = export("pprof", "mixed-loss.data", out="tables")
    check("other formats do not write into a directory", code == 2 and "directory" in err, err)

# ---- the file itself ----
file = profile("mixed", 3000)
code, err = export("parquet", file, out="a.parquet")
first = open(f"{DIR}/a.parquet", "rb").read()
export("parquet", file, out="a.parquet")
equal("the same profile gives the same bytes", open(f"{DIR}/a.parquet", "rb").read(), first)
equal("an older file is kept", open(f"{DIR}/a.parquet.old", "rb").read(), first)
for count in (65536, 70000):  # a page and no more; a page and a part
    many = profile("mixed", count, name=f"pages{count}.data")
    for threads in (1, 2):
        export("parquet", many, "--threads", threads, out=f"threads{threads}.parquet")
    equal(f"{count} records: one thread and two write the same",
          *(open(f"{DIR}/threads{t}.parquet", "rb").read() for t in (1, 2)))
code, out, err = run(SPEX, "export", "-i", file, "--to", "parquet", cwd=DIR)
equal("standard output gets the same, without symbols", out[:4] + out[-4:], b"PAR1PAR1")
before = sorted(os.listdir(DIR))
code, err = export("parquet", "no-such.data", out="b.parquet")
equal("no input, no file", (code, sorted(os.listdir(DIR))), (1, before))
code, out, err = run("sh", "-c", f"ulimit -f 20; exec {SPEX} export -i "
                     f"{profile('mixed', 70000, name='two.data')} --to parquet -o c.parquet",
                     cwd=DIR)
check("death while writing leaves no half file",
      code != 0 and not any("c.parquet" == n for n in os.listdir(DIR)), (code, err))
for n in os.listdir(DIR):
    if n.startswith("c.parquet.run"):
        shutil.rmtree(f"{DIR}/{n}")
code, err = export("parquet", file, out="/dev/full")
check("a device that takes nothing is said", code == 1 and "cannot write" in err, (code, err))
code, err = export("parquet", file, "-F", "pc,nothing")
check("a column that is none is named", code == 2 and "'nothing'" in err, err)
code, out, err = spex("export", "--to", "nothing")
check("so is a format", code == 2 and "parquet" in err, err)

# ---- a million ----
if not package("@duckdb/node-api"):
    later("DuckDB reads what script prints", "check-feeds")
else:
    count = 1000000 if LONG else 3000
    types = {"STRING": "VARCHAR", "NUMBER": "UBIGINT", "ADDRESS": "VARCHAR", "BOOL": "BOOLEAN"}
    columns = "{" + ",".join(f"'{n}': '{types[k]}'" for n, (k, b) in COLUMNS.items()) + "}"

    def value(name, kind):
        return f"'0x' || lower(to_hex(p.{name}))" if kind == "ADDRESS" else f"p.{name}"

    bad = " + ".join(f"({value(n, k)} IS DISTINCT FROM j.{n})::INT"
                     for n, (k, b) in COLUMNS.items())
    CHDB = f"{FEEDS}/node_modules/@chdb/lib-linux-x64-gnu/libchdb.so"
    house = {"STRING": "String", "NUMBER": "UInt64", "ADDRESS": "String", "BOOL": "Bool"}

    def in_house(name):
        """The same by ClickHouse, some columns at a time."""
        if not os.path.exists(CHDB):
            later(f"ClickHouse: {name} records", "check-feeds")
            return
        names = list(COLUMNS)
        parts = [names[i:i + 12] for i in range(0, len(names), 12)]
        mine = lambda n: f"printf('0x%x', p.{n})" if COLUMNS[n][0] == "ADDRESS" else f"p.{n}"
        typed = lambda part: ", ".join(f"`{n}` Nullable({house[COLUMNS[n][0]]})"
                                       for n in dict.fromkeys(part + ["offset"]))
        queries = ["SELECT count(), "
                   f"sum({' + '.join(f'(NOT ({mine(n)} <=> j.{n}))' for n in part)}) FROM "
                   "file('many.parquet') p "
                   f"JOIN file('many.json', 'JSONEachRow', '{typed(part)}') j ON p.offset = "
                   "assumeNotNull(j.offset)" for part in parts]
        code, out, err = run(sys.executable, f"{EXPORT}/chdb.py", CHDB, *queries, cwd=DIR)
        answers = [json.loads(l)[0] for l in out.decode().splitlines()]
        equal(f"ClickHouse: {count} {name} records, no value differs",
              (code, [[int(x) for x in a] for a in answers], err),
              (0, [[count, 0]] * len(parts), ""))

    for name, file, args in (("mixed", profile("mixed", count, name="many.data"), []),
                             ("generated", raw("many.spe", "-n", str(count), "-s", "5"),
                              ["--raw"])):
        code, err = export("parquet", file, "-F", ALL, *args, out="many.parquet")
        with open(f"{DIR}/many.json", "wb") as f:
            f.write(on("script", file, "--format", "json", "-F", ALL, *args)[1].encode())
        answers = node("duck.mjs", "SELECT count(*) AS n FROM 'many.parquet'",
                       f"SELECT count(*) AS n, coalesce(sum({bad}), 0) AS bad FROM "
                       "'many.parquet' p POSITIONAL JOIN "
                       "read_json('many.json', format='newline_delimited', "
                       f"columns={columns}) j").splitlines()
        rows, both = (json.loads(a)[0] for a in answers)
        equal(f"DuckDB: {count} {name} records, no value differs",
              (int(rows["n"]), int(both["n"]), int(both["bad"])), (count, count, 0))
        in_house(name)
done()
