"""Answers of ClickHouse as a library (npm: @chdb/lib-linux-x64-gnu), one JSON array of rows a line:
chdb.py LIBRARY QUERY..."""
import ctypes, json, os, sys

lib = ctypes.CDLL(sys.argv[1])
lib.chdb_connect.restype = ctypes.POINTER(ctypes.c_void_p)
lib.chdb_query.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
for name in ("chdb_query", "chdb_result_buffer"):
    getattr(lib, name).restype = ctypes.c_void_p
lib.chdb_result_length.restype = ctypes.c_size_t
lib.chdb_result_error.restype = ctypes.c_char_p
for name in ("buffer", "length", "error"):
    getattr(lib, f"chdb_result_{name}").argtypes = [ctypes.c_void_p]
connection = lib.chdb_connect(1, (ctypes.c_char_p * 1)(b"clickhouse"))
for query in sys.argv[2:]:
    result = lib.chdb_query(connection[0], query.encode(), b"JSONCompactEachRow")
    error = lib.chdb_result_error(result)
    if error:
        print(f"{query[:200]}: {error.decode()}", file=sys.stderr, flush=True)
        os._exit(1)  # its threads would not let us go
    text = ctypes.string_at(lib.chdb_result_buffer(result), lib.chdb_result_length(result)).decode()
    print(json.dumps([json.loads(line) for line in text.splitlines() if line]))
sys.stdout.flush()
os._exit(0)
