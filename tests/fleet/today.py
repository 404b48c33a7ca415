"""Today's ClickHouse without a server: chDB, its library form from npm, behind the HTTP interface
as far as spex uses it."""
import ctypes
import http.server
import os
import re
import struct
import tempfile
import threading
import urllib.parse

from support.tap import *

os.environ["no_proxy"] = "127.0.0.1"
LIBRARY = os.environ.get("SPEX_CHDB", f"{BUILD.removesuffix('-asan')}/fleet/chdb/libchdb.so")


class Today:
    def __init__(self, directory):
        self.lock = threading.Lock()
        self.directory = directory
        lib = self.lib = ctypes.CDLL(LIBRARY)
        lib.chdb_connect.restype = lib.chdb_query.restype = ctypes.c_void_p
        lib.chdb_connect.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
        lib.chdb_query.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
        for name, kind in (("buffer", ctypes.c_void_p), ("length", ctypes.c_size_t),
                           ("error", ctypes.c_char_p)):
            f = getattr(lib, f"chdb_result_{name}")
            f.restype, f.argtypes = kind, [ctypes.c_void_p]
        lib.chdb_destroy_query_result.argtypes = [ctypes.c_void_p]
        argv = (ctypes.c_char_p * 2)(b"clickhouse", f"--path={directory}/data".encode())
        self.connection = ctypes.cast(lib.chdb_connect(2, argv), ctypes.POINTER(ctypes.c_void_p))[0]
        today = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                args = {k: v[0] for k, v in urllib.parse.parse_qs(
                    urllib.parse.urlparse(self.path).query).items()}
                answer, wrong = today.handle(args, body)
                self.send_response(500 if wrong else 200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def query(self, text):
        """(answer, whether it is an error)."""
        result = self.lib.chdb_query(self.connection, text.encode(), b"TabSeparated")
        error = self.lib.chdb_result_error(result)
        answer = error or ctypes.string_at(self.lib.chdb_result_buffer(result),
                                           self.lib.chdb_result_length(result))
        self.lib.chdb_destroy_query_result(result)
        return answer, bool(error)

    def handle(self, args, body):
        with self.lock:
            if "database" in args:
                answer = self.query(f"USE `{args['database']}`")
                if answer[1]:
                    return answer
            if "query" not in args:
                return self.query(body.decode())
            with tempfile.NamedTemporaryFile(dir=self.directory, suffix=".native") as f:
                f.write(inflate(body))
                f.flush()
                insert = re.sub(r"\s*FORMAT Native$", "", args["query"])
                return self.query(f"{insert} FROM INFILE '{f.name}' FORMAT Native")

    def ask(self, text, database="spex"):
        answer, wrong = self.handle({"database": database}, text.encode())
        if wrong:
            raise RuntimeError(answer.decode()[:600] + "\n" + text[:300])
        return [l.split("\t") for l in answer.decode().splitlines()]


def inflate(body):
    """The frames of compressed data: checksum, method, size with this head, size before, zstd."""
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    zstd.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p,
                                     ctypes.c_size_t]
    at, whole = 0, []
    while at < len(body):
        method, size, before = struct.unpack_from("<BII", body, at + 16)
        data, to = body[at + 25:at + 16 + size], ctypes.create_string_buffer(before)
        if method != 0x90 or zstd.ZSTD_decompress(to, before, data, len(data)) != before:
            raise RuntimeError("a frame is no zstd")
        whole.append(to.raw)
        at += 16 + size
    return b"".join(whole)
