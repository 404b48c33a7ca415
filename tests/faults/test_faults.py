"""Every call site of malloc, read, write, mmap, close and so on in our objects fails once, in turn.

Then spex either does what it does without the fault, or says what is wrong and exits 1 or 2;
nothing crashes, leaks, hangs or has half a file under its name. Each site once in `make check`; in
`make check-faults` (SPEX_LONG=1) with each command that reaches it, at the first and at the second
call. Other commands join by a line in COMMANDS.
"""
import collections
import concurrent.futures
import gzip
import http.server
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *

LONG = bool(os.environ.get("SPEX_LONG"))
WORK = tempfile.TemporaryDirectory(prefix="spex-faults-")
FAULTS = os.path.join(os.path.dirname(SPEX), "tests/faults/spex-faults")
# beside the plugin, where spex looks for it; QEMU can load that of the
# build without sanitizer alone
PROGRAM = os.path.join(WORK.name, "spex")
PLUGIN = os.path.join(BUILD.removesuffix("-asan"), "libspex-qemu.so")
shutil.copy(FAULTS, PROGRAM)
os.symlink(PLUGIN, os.path.join(WORK.name, "libspex-qemu.so"))
VECTORS = os.path.join(SOURCE, "tests/vectors")
RAW = os.path.join(VECTORS, "altra_issue123.spe")
DATA = os.path.join(VECTORS, "kunpeng920_branch_b.v1.perf.data")
TINY = os.path.join(WORK.name, "tiny")
ENGINE = (os.path.exists(PLUGIN) and shutil.which("qemu-aarch64") and
          shutil.which("aarch64-linux-gnu-gcc") and
          not run("aarch64-linux-gnu-gcc", "-g", "-O1", "-static", "-o", TINY,
                  os.path.join(SOURCE, "tests/guest/programs/tiny.c"))[0])
PROFILE = os.path.join(WORK.name, "profile")
if ENGINE:
    run(PROGRAM, "record", "--truth", "-c", "256", "-m", ",8K", "-o", PROFILE, TINY)
else:
    shutil.copy(DATA, PROFILE)

CUT = os.path.join(WORK.name, "cut")
with open(CUT, "wb") as f:  # as perf leaves a file when it is killed: without size and features
    whole_file = open(PROFILE, "rb").read()
    f.write(whole_file[:48] + bytes(8) + whole_file[56:72] + bytes(32) + whole_file[104:-1000])



class Fleet(http.server.BaseHTTPRequestHandler):
    """As much of a ClickHouse server as takes everything, and knows of one function. What it was
    sent it has for as long as the connection lasts: attempts do not see each other."""
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.parts = {}  # number -> rows, rows beside them

    def answer(self, query):
        counts = {"count() FROM samples": 0, "sumMerge(samples) FROM": 0, "sum(n) FROM": 1}
        entry = re.search(r"INTO batches .* SELECT '\w+', (\d+), \d, (\d+), .*, (\d+), now\(\)$",
                          query)
        if "FROM spex_schema" in query:
            return "spex.samples.1\t\t2\n" if "cluster" in query else "spex.samples.1\t\n"
        if entry:
            part, *rows = map(int, entry.groups())
            self.parts[part] = rows
            return ""
        for words, which in counts.items():
            if f"SELECT part, {words}" in query:
                return "".join(f"{part}\t{rows[which]}\n" for part, rows in self.parts.items())
        if "WITH TOTALS" in query:
            sums = query.count("sumMerge(") + query.count("sum(toFloat64(") - 2  # of ORDER BY
            cells = ("\t5" * sums +
                     "\t[1,2,3]" * query.count("quantilesExactWeightedMerge"))
            return f"walk{cells}\n\n{cells}\n"
        if "TabSeparatedWithNames" in query:
            return "symbol\tn\nString\tUInt64\nwalk\t5\n"
        return ""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode(errors="replace")
        statement = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query).get("query", [""])
        answer = self.answer(statement[0] or body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


fleet = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Fleet)
threading.Thread(target=fleet.serve_forever, daemon=True).start()
os.environ["no_proxy"] = "127.0.0.1"
URL = ["--url", f"http://127.0.0.1:{fleet.server_port}", "--retry", "0"]

# What is run; OUT stands for a file that is to be written, RUN for a run that was killed, SPOOL for
# a directory with a profile. What exits with 1 without a fault, too, and why, is in ENDS_WITH_1.
COMMANDS = [
    ["report", "-i", PROFILE], ["report", "-i", PROFILE, "--sort", "line", "--format", "json"],
    ["report", "-i", DATA],
    ["annotate", "-i", PROFILE, "main"], ["mem", "-i", PROFILE], ["c2c", "-i", PROFILE],
    ["branch", "-i", PROFILE],
    ["diff", PROFILE, PROFILE], ["script", "-i", PROFILE],
    ["script", "-i", DATA, "--format", "json"],
    ["script", "-i", PROFILE, "--format", "csv", "--threads", "1"], ["dump", DATA],
    ["dump", "--raw", RAW],
    ["dump", "--style", "perf", DATA], ["verify", PROFILE], ["verify", "--raw", RAW],
    ["generate", "--seed", "3"],
    ["recover", CUT, "-o", "OUT"], ["html", "-i", PROFILE, "-o", "OUT"],
    ["archive", "-i", PROFILE, "-o", "OUT"],
    *(["export", "--to", to, "-i", PROFILE, "-o", "OUT"]
      for to in ("parquet", "pprof", "firefox", "speedscope", "collapsed", "bolt",
                 "brstack", "profgen", "llvm", "autofdo", "callgrind", "cachegrind")),
    ["export", "--to", "clickhouse", "--host", "x", "-i", PROFILE, *URL],
    ["ship", "--once", "--spool", "SPOOL", "--host", "x", *URL],
    ["export", "--to", "clickhouse", "--print-ddl"],
    ["report", *URL], ["query", "SELECT symbol, count() AS n FROM samples", *URL],
    ["spu", "run", os.path.join(SOURCE, "tests/spu/buffer.spu")], ["help"], ["help", "record"],
]
if ENGINE:
    COMMANDS += [["truth", PROFILE],
                 ["record", "-q", "-c", "256", "-m", ",8K", "--truth", "-o", "OUT", TINY],
                 ["record", "-q", "-c", "256", "-o", "-", TINY], ["recover", "RUN", "-o", "OUT"],
                 ["stat", "-c", "256", TINY], ["top", "-c", "256", TINY]]
ENDS_WITH_1 = [["verify", "--raw", RAW]]  # it ends in the middle of a record

RUN = os.path.join(WORK.name, "killed")
if ENGINE:  # a run whose spex died when it would have given the file its name
    here = tempfile.mkdtemp(dir=WORK.name)
    sites = os.path.join(here, "sites")
    run(PROGRAM, "record", "-c", "256", "-m", ",8K", "-o", os.path.join(here, "x"), TINY,
        env={"SPEX_FAULT_LOG": sites})
    os.unlink(os.path.join(here, "x"))
    rename = next(l.split()[1] for l in open(sites) if l.startswith("rename "))
    run(PROGRAM, "record", "-c", "256", "-m", ",8K", "-o", os.path.join(here, "x"), TINY,
        env={"SPEX_FAULT": rename + ":1"})
    os.rename(next(os.path.join(here, n) for n in os.listdir(here) if ".run-" in n), RUN)
    check("a run to recover", os.path.exists(os.path.join(RUN, "data")))


def attempt(command, env):
    """Runs one command in a directory of its own: exit code, what it wrote, what it said,
    files that have a name."""
    here = tempfile.mkdtemp(dir=WORK.name)
    if "RUN" in command:
        shutil.copytree(RUN, os.path.join(here, "run"))
    spool = os.path.join(here, "spool", "a.data")
    if "SPOOL" in command:
        os.mkdir(os.path.dirname(spool))
        shutil.copy(PROFILE, spool)
    places = {"OUT": "out", "RUN": "run", "SPOOL": "spool"}
    words = [os.path.join(here, places[w]) if w in places else w for w in command]
    try:
        code, out, err = run(PROGRAM, *words, env={
            "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1:exitcode=99",
            "TMPDIR": here, "NO_COLOR": "1", "COLUMNS": "200", **env},
                             cwd=here, timeout=120)
    except Exception as problem:
        code, out, err = None, b"", f"hangs: {problem}"
    files = {}
    for name in ("out", "out.truth"):
        path = os.path.join(here, name)
        if os.path.exists(path):
            files[name] = open(path, "rb").read()
    if "SPOOL" in command and not os.path.exists(spool):
        files["sent"] = b""
    left = [n for n in os.listdir(here) if ".run-" in n or n == "run"]
    shutil.rmtree(here, ignore_errors=True)
    return code, out, err, files, left


def name_of(site):
    code, out, _ = run("addr2line", "-f", "-p", "-s", "-e", PROGRAM,
                       "0x" + format(int(site, 16) - 1, "x"))
    return out.decode().strip()


def whole(file):
    """Whether a file of any format ends as it should."""
    try:
        if file[:8] == b"PERFILE2":
            return spex("verify", "-", stdin=file)[0] == 0
        if file[:2] == b"\x1f\x8b":
            return bool(gzip.decompress(file))
        if file[:1] == b"{":
            return bool(json.loads(file))
    except (EOFError, ValueError, OSError):
        return False
    if file[257:262] == b"ustar":
        return file[-1024:] == bytes(1024)
    return file[-4:] == b"PAR1" if file[:4] == b"PAR1" else file[-1:] in (b"", b"\n")


# What has no name is shown by its address.
TOP = re.compile(rb"# [\d,]+ samples.*(\bmain|\b0x[0-9a-f]+|\btiny\+0x[0-9a-f]+)\n.* total\n", re.S)


def replayed(out):
    """The share that report's JSON says was replayed: without code that cannot be read."""
    try:
        return json.loads(out)["replay"]["share"]
    except (ValueError, KeyError, TypeError):
        return 0


def judge(command, normal, got):
    code, out, err, files, left = got
    if code is None or code < 0 or code == 99 or "Sanitizer" in err or "runtime error" in err:
        return f"exit {code}: " + "\n".join([l for l in err.splitlines() if l.strip()][:14])
    told = re.search(r"^spex", err, re.M) or replayed(out) < replayed(normal[1])
    if "sent" in files and code and "spool cannot be read" not in err:  # at the look after it
        return f"exit {code}, and the profile is gone"
    if "out" in files and files["out"] != normal[3].get("out"):
        # what is made of a profile may lack names, or what there was no memory
        # to read, if that is told
        if not whole(files["out"]) or not told and files["out"][:8] != b"PERFILE2":
            return "half a file has the name"
    if code == 0:
        # the environment moves the guest's stack
        same = (whole(out) if out[:8] == b"PERFILE2" else
                TOP.match(out) if command[0] == "top"
                else out == normal[1])
        # what a profile only names, programs and sources, may be missing: then it says so
        if (not same and not told) or set(files) != set(normal[3]):
            return f"exit 0, but the output is not what it is without the fault: {err[:300]}"
        return None
    if code not in (1, 2):
        return f"exit {code}"
    if not told:
        return f"exit {code} without a message: {err[:300]}"
    return None


def main():
    tested, problems, kinds = set(), [], collections.Counter()
    for command in COMMANDS:
        log = os.path.join(WORK.name, "log")
        open(log, "w").close()
        normal = attempt(command, {"SPEX_FAULT_LOG": log})
        ends = int(command in ENDS_WITH_1)
        if normal[0] != ends:
            check(f"spex {command[0]} ends with {ends} by itself", False, normal[2])
            continue
        sites = [l.split() for l in open(log)]
        new = [s for s in sites if LONG or s[1] not in tested]
        tested |= {s[1] for s in sites}
        bad = []
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            jobs = [(s, n, pool.submit(attempt, command, {"SPEX_FAULT": f"{s[1]}:{n}"}))
                    for s in new for n in ((1, 2) if LONG else (1,))]
            for site, n, job in jobs:
                wrong = judge(command, normal, job.result())
                kinds[site[0]] += 1
                if wrong:
                    bad.append(f"{site[0]} {n} at {name_of(site[1])}: {wrong}")
        shown = " ".join(os.path.basename(w) for w in command)
        check(f"spex {shown}: {len(jobs)} calls fail, {len(sites)} sites", not bad, "\n".join(bad))
    print("# " + ", ".join(f"{name} {count}" for name, count in kinds.most_common()))
    done()


main()
