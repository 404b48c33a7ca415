"""Arrow arrays say what spex script says, as a reader that knows only the interface sees them."""
import collections, ctypes, os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../export"))
from feeds import *
sys.path.insert(0, os.path.join(SOURCE, "examples"))
import arrow

LIBRARY = os.path.join(BUILD, "libspex-profile.so")
file = os.path.join(DIR, profile("mixed", 20000))
got = list(arrow.rows(file, "samples", LIBRARY))
columns = list(got[0])
code, out, err = spex("script", file, "--format", "json", "-F", ",".join(columns), cwd=DIR)
check("spex script", code == 0, err)
NUMBERS = {"time", "pc", "target", "va", "pa", "event_bits", "address", "estimated_time"}


def number(value):
    return int(value, 16) if isinstance(value, str) else value


want = [{c: number(row.get(c)) if c in NUMBERS else row.get(c) for c in columns}
        for row in map(json.loads, out.decode().splitlines())]


def key(row):
    return tuple((row[c] is not None, row[c]) if row[c] is not None else (False,) for c in columns)


check("more rows than an array has", len(got) == 20000 and len(columns) == 21, (len(got), columns))
wrong = [pair for pair in zip(sorted(got, key=key), sorted(want, key=key)) if pair[0] != pair[1]]
check("each sample in all columns", len(got) == len(want) and not wrong, wrong[:1])
check("some columns have rows without a value", all(any(r[c] is None for r in got)
                                                    for c in ("va", "target", "source")))
threads = sorted((r["tid"], r["comm"], r["samples"]) for r in arrow.rows(file, "threads", LIBRARY))
counts = collections.Counter((r["tid"], r["comm"]) for r in want)
equal("threads", threads, sorted((tid, comm, n) for (tid, comm), n in counts.items()))
files = {r["path"]: r["samples"] for r in arrow.rows(file, "files", LIBRARY)}
equal("files", files, dict(collections.Counter(r["path"] for r in want if r["path"])))
try:
    list(arrow.rows("none.data", "samples", LIBRARY))
    check("a file that is not there", False)
except OSError as e:
    check("a file that is not there", "none.data" in str(e), e)
reader = arrow.rows(file, "samples", LIBRARY)  # one that is not read to its end
next(reader)
reader.close()
code, out, err = run(sys.executable, os.path.join(SOURCE, "examples/arrow.py"), file, LIBRARY)
total = sum(int(line.split()[0]) for line in out.decode().splitlines())
equal("the example", (code, total), (0, 20000))

# DuckDB takes the stream by its own C API, without anything of ours between.
FOUND = glob.glob(f"{FEEDS}/node_modules/@duckdb/node-bindings-linux-*[!l]/libduckdb.so")
DUCKDB = os.environ.get("SPEX_DUCKDB") or (FOUND[0] if FOUND else "")


class Result(ctypes.Structure):
    _fields_ = [("counts", ctypes.c_uint64 * 3), ("columns", ctypes.c_void_p),
                ("message", ctypes.c_char_p), ("internal", ctypes.c_void_p)]


def in_duckdb(table, sql):
    """The rows of a query over a table of the profile, as texts; NULL is None."""
    duck = ctypes.CDLL(DUCKDB)
    duck.duckdb_value_varchar.restype = ctypes.c_void_p
    duck.duckdb_free.argtypes = [ctypes.c_void_p]
    for name in ("column_count", "row_count"):
        getattr(duck, f"duckdb_{name}").restype = ctypes.c_uint64
    database, connection, result = ctypes.c_void_p(), ctypes.c_void_p(), Result()

    def cell(column, row):
        text = duck.duckdb_value_varchar(ctypes.byref(result), ctypes.c_uint64(column),
                                         ctypes.c_uint64(row))
        value = ctypes.string_at(text).decode() if text else None
        duck.duckdb_free(text)
        return value

    with arrow.opened(file, table, LIBRARY) as stream:
        ok = (not duck.duckdb_open(None, ctypes.byref(database)) and
              not duck.duckdb_connect(database, ctypes.byref(connection)) and
              not duck.duckdb_arrow_scan(connection, b"stream", ctypes.byref(stream)) and
              # all columns: of a part of them DuckDB 1.5 takes the first ones of the stream
              not duck.duckdb_query(connection, f"CREATE TABLE {table} AS FROM stream".encode(),
                                    None) and
              not duck.duckdb_query(connection, sql.encode(), ctypes.byref(result)))
        check(f"DuckDB reads {table}", ok, result.message)
        found = [tuple(cell(c, r) for c in range(duck.duckdb_column_count(ctypes.byref(result))))
                 for r in range(duck.duckdb_row_count(ctypes.byref(result)))] if ok else []
        duck.duckdb_destroy_result(ctypes.byref(result))
        duck.duckdb_disconnect(ctypes.byref(connection))
        duck.duckdb_close(ctypes.byref(database))
    return found


if DUCKDB:
    numbers = [c for c in columns if any(isinstance(r[c], int) for r in want)]
    total = in_duckdb("samples", "SELECT " + ", ".join(
        f"CAST(sum(CAST({c} AS HUGEINT)) AS VARCHAR), CAST(count({c}) AS VARCHAR)"
        for c in numbers) + " FROM samples")
    equal("DuckDB: the sum of each column of numbers, and how many rows have one", total,
          [tuple(str(f([r[c] for r in want if r[c] is not None])) for c in numbers
                 for f in (sum, len))])
    equal("DuckDB: texts", sorted(in_duckdb(
        "samples", "SELECT symbol, source, CAST(count(*) AS VARCHAR) FROM samples "
        "GROUP BY ALL"), key=str),
          sorted(((s, f, str(n)) for (s, f), n in collections.Counter(
              (r["symbol"], r["source"]) for r in want).items()), key=str))
    equal("DuckDB: threads", sorted(in_duckdb(
        "threads", "SELECT CAST(tid AS VARCHAR), comm, CAST(samples AS VARCHAR) FROM threads")),
          sorted((str(t), c, str(n)) for t, c, n in threads))
else:
    skip("DuckDB takes the stream", "no DuckDB: scripts/feeds-setup fetches it")

# pyarrow, with the Python that it came with. It validates what it was given, and says each value.
IN_PYARROW = """
import ctypes, json, sys
sys.path.insert(0, sys.argv[1])
import arrow, pyarrow
with arrow.opened(*sys.argv[2:]) as stream:
    reader = pyarrow.RecordBatchReader._import_from_c(ctypes.addressof(stream))
    table = reader.read_all()
    reader.close()
table.validate(full=True)
for row in table.to_pylist():
    print(json.dumps(row))
"""


def in_pyarrow(table):
    out = pandas("-c", IN_PYARROW, os.path.join(SOURCE, "examples"), file, table, LIBRARY)
    return None if out is None else list(map(json.loads, out.splitlines()))


try:
    taken = in_pyarrow("samples")
except RuntimeError as e:
    taken = [str(e)]
if taken is None:
    later("pyarrow takes the stream", "check-feeds")
else:
    check("pyarrow: each sample in all columns", taken == got,
          [pair for pair in zip(taken, got) if pair[0] != pair[1]][:1] or len(taken))
    for table in ("files", "threads"):
        equal(f"pyarrow: {table}", in_pyarrow(table), list(arrow.rows(file, table, LIBRARY)))
done()
