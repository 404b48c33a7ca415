"""Servers that answer much, half, hardly, or in the clear."""
import http.server
import os
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *

os.environ["no_proxy"] = "127.0.0.1,127.1.2.3"
WORK = tempfile.TemporaryDirectory(prefix="spex-servers-")
ROW = b"7\t" + b"x" * (1 << 20) + b"\n"
HEAD = b"n\ttext\nUInt64\tString\n"
MANY = 260  # rows of a megabyte


class Server(http.server.BaseHTTPRequestHandler):
    """What the statement asks for."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        query = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.close_connection = True
        if "much" in query:
            self.answer(len(HEAD) + MANY * len(ROW), [HEAD, *[ROW] * MANY])
        elif "short" in query:  # of an answer whose length is told
            self.answer(1000, [HEAD, b"1\tone\n2\ttw"])
        elif "row" in query:  # length not told: only the row says that it is cut
            self.answer(None, [HEAD, b"1\tone\n2\ttw"])
        elif "cells" in query:
            self.answer(None, [HEAD, b"1\tone\n2\n"])
        elif "slow" in query:
            self.answer(1000, [HEAD, *[b"1"] * 50], 0.2)
        else:
            self.answer(None, [HEAD, b"-5\t=1+1\n6\t-5\n"])

    def answer(self, length, parts, wait=0):
        self.send_response(200)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for part in parts:
                self.wfile.write(part)
                if wait:
                    self.wfile.flush()
                    time.sleep(wait)
        except OSError:
            pass

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
URL = f"http://127.0.0.1:{server.server_port}"


def ask(what, *args, url=URL, **kw):
    return spex("query", f"SELECT {what} FROM x", "--url", url, "--retry", "0", "--format", "csv",
                *args, cwd=WORK.name, **kw)


code, out, err = ask("much", "-o", "much.csv")
size = os.path.getsize(os.path.join(WORK.name, "much.csv")) if not code else 0
check("an answer of 260 MB is whole", code == 0 and size == len(b"n,text\n") + MANY * len(ROW),
      (code, size, err))
for what in ("short", "row", "cells"):
    code, out, err = ask(what, "-o", "cut.csv")
    check(f"an answer that ends early ({what}) is an error, and no file",
          code == 1 and err and not os.path.exists(os.path.join(WORK.name, "cut.csv")), (code, err))
code, out, err = ask("slow", "--patience", "2")
check("a server that trickles is given up", code == 1 and "slow" in err.lower(), (code, err))
code, out, err = ask("formula")
equal("CSV: text that a spreadsheet would take for a formula is marked, numbers are not",
      (code, out), (0, b"n,text\n-5,'=1+1\n6,-5\n"))
secret = os.path.join(WORK.name, "secret")
with open(secret, "w") as f:
    f.write("user me\npassword s3cret\n")
os.chmod(secret, 0o600)
for url, told in ((URL, False), ("http://127.0.0.1.example.invalid:1", True),
                  ("http://localhost.invalid:1", True), ("https://127.0.0.1:1", False),
                  ("http://ch.invalid:1", True)):
    code, out, err = ask("any", "--credentials", secret, url=url)
    check(f"a password over {url.replace(URL, 'http://127.0.0.1')}: "
          f"{'a word about it' if told else 'nothing'}", ("unencrypted" in err) == told, err)
done()
