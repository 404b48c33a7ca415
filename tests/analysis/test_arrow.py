"""Arrow arrays say what spex script says, as a reader that knows only the interface sees them."""
import collections, ctypes, glob
from common import *
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
FOUND = glob.glob(f"{BUILD}/feeds/node_modules/@duckdb/node-bindings-linux-*[!l]/libduckdb.so")
DUCKDB = os.environ.get("SPEX_DUCKDB") or (FOUND[0] if FOUND else "")


class Result(ctypes.Structure):
    _fields_ = [("counts", ctypes.c_uint64 * 3), ("columns", ctypes.c_void_p),
                ("message", ctypes.c_char_p), ("internal", ctypes.c_void_p)]


def in_duckdb(table, sql):
    """The rows of a query over a table of the profile, as texts; NULL is None."""
    duck, lib = ctypes.CDLL(DUCKDB), ctypes.CDLL(LIBRARY)
    lib.spex_analysis_close.argtypes = [ctypes.c_void_p]
    duck.duckdb_value_varchar.restype = ctypes.c_void_p
    duck.duckdb_free.argtypes = [ctypes.c_void_p]
    for name in ("column_count", "row_count"):
        getattr(duck, f"duckdb_{name}").restype = ctypes.c_uint64
    profile, error, stream = ctypes.c_void_p(), arrow.Error(), arrow.Stream()
    database, connection, result = ctypes.c_void_p(), ctypes.c_void_p(), Result()
    options = arrow.Options(ctypes.sizeof(arrow.Options), 0)
    ok = (not lib.spex_analysis_open(file.encode(), ctypes.byref(options), ctypes.byref(profile),
                                     ctypes.byref(error)) and
          (table == "samples" or
           not lib.spex_analysis_run(profile, None, None, ctypes.byref(error))) and
          not lib.spex_arrow_stream(profile, arrow.TABLES[table], ctypes.byref(stream),
                                    ctypes.byref(error)) and
          not duck.duckdb_open(None, ctypes.byref(database)) and
          not duck.duckdb_connect(database, ctypes.byref(connection)) and
          not duck.duckdb_arrow_scan(connection, b"stream", ctypes.byref(stream)) and
          # all columns: of a part of them DuckDB 1.5 takes the first ones of the stream
          not duck.duckdb_query(connection, f"CREATE TABLE {table} AS FROM stream".encode(),
                                None) and
          not duck.duckdb_query(connection, sql.encode(), ctypes.byref(result)))
    check(f"DuckDB reads {table}", ok, (error.text, result.message))

    def cell(column, row):
        text = duck.duckdb_value_varchar(ctypes.byref(result), ctypes.c_uint64(column),
                                         ctypes.c_uint64(row))
        value = ctypes.string_at(text).decode() if text else None
        duck.duckdb_free(text)
        return value

    found = [tuple(cell(c, r) for c in range(duck.duckdb_column_count(ctypes.byref(result))))
             for r in range(duck.duckdb_row_count(ctypes.byref(result)))] if ok else []
    duck.duckdb_destroy_result(ctypes.byref(result))
    duck.duckdb_disconnect(ctypes.byref(connection))
    duck.duckdb_close(ctypes.byref(database))
    if stream.release:
        stream.release(ctypes.byref(stream))
    lib.spex_analysis_close(profile)
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
done()
