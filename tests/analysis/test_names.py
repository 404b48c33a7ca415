"""Names that a file may hold: control characters, no UTF-8, quotes, turned directions, 64 KB.
Whatever command prints them in whatever format, JSON is valid and exact, CSV has its columns, and
nothing drives a terminal."""
import csv, io, json, os, pty, re, select, subprocess
from hostile import *


def command(*args):
    p = subprocess.run([SPEX, *args], cwd=D, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       stdin=subprocess.DEVNULL,
                       env={**os.environ, "HOME": D, "COLUMNS": ""}, timeout=300)
    return p.returncode, p.stdout, p.stderr


def trouble(data):
    """What a terminal must not see: a short excerpt, or None."""
    try:
        decoded = data.decode()
    except UnicodeDecodeError as e:
        return f"no UTF-8 at byte {e.start}: {data[max(0, e.start - 20):e.start + 20]!r}"
    for m in re.finditer(r"[^\n -~]", decoded):
        if not plain(m.group()):
            return f"{m.group()!r} at {m.start()}: {decoded[max(0, m.start() - 30):m.end() + 30]!r}"
    return None


def strings(value):
    if isinstance(value, dict):
        return set().union(*map(strings, value.values()), value.keys()) if value else set()
    if isinstance(value, list):
        return set().union(*map(strings, value)) if value else set()
    return {value} if isinstance(value, str) else set()


IN = ["-i", INPUT, "--symfs", "root"]
FUNCTIONS, OBJECTS = set(NAMES), {b"D" + n for n in NAMES}
# what, command, names that its JSON and CSV must hold
TABLES = [("report", ["report", *IN, "--sort", "symbol,dso,comm,srcline"],
           FUNCTIONS | set(COMMS) | {DSO}),
          ("report by data", ["report", *IN, "--sort", "data-symbol,data-dso"], OBJECTS),
          ("mem", ["mem", *IN], OBJECTS),
          ("mem by key", ["mem", *IN, "--sort", "symbol,comm"], FUNCTIONS),
          ("branch", ["branch", *IN], FUNCTIONS),
          ("c2c", ["c2c", *IN, "--all"], OBJECTS),
          ("diff", ["diff", INPUT, b"other", "--symfs", "root"], FUNCTIONS),
          ("script", ["script", *IN, "-F", "+srcline,target_symbol,data_symbol", "--full-path"],
           FUNCTIONS | set(COMMS) | {b"/bin/" + DSO, LOST}),
] + [(f"annotate {i}", ["annotate", *IN, "--", n], set()) for i, n in enumerate(NAMES)]

for what, args, names in TABLES:
    code, out, err = command(*args)
    check(f"{what}: text has nothing but text", not trouble(out) and out, trouble(out) or err)
    check(f"{what}: stderr too", not trouble(err), trouble(err))
    code, out, err = command(args[0], "--format", "json", *args[1:])
    try:
        decoded = out.decode("utf-8", "strict")
        found = set().union(*(strings(json.loads(l))
                              for l in (decoded.splitlines() if what == "script" else [decoded])))
        missing = [n[:60] for n in names if exact(n) not in found]
        check(f"{what}: JSON is valid and has the names as they are",
              not missing and not trouble(err), (missing, trouble(err)))
    except ValueError as e:
        check(f"{what}: JSON is valid", False, f"{e}: {out[:300]!r} {err!r}")
    code, out, err = command(args[0], "--format", "csv", *args[1:])
    check(f"{what}: CSV has nothing but text", not trouble(out) and not trouble(err),
          trouble(out) or trouble(err))
    csv.field_size_limit(1 << 20)
    found, uneven = set(), []
    for table in out.decode(errors="replace").split("\n\n"):
        rows = list(csv.reader(io.StringIO(table), strict=True))
        uneven += [r for r in rows if len(r) != len(rows[0])]
        found |= {field for r in rows for field in r}
    def cell(name):
        """As it is shown, but for a mark before what a spreadsheet would take for a formula."""
        return "'" * shown(name).startswith(("=", "@", "+", "-")) + shown(name)

    missing = [n[:60] for n in names if cell(n) not in found]
    check(f"{what}: CSV has its columns and the names as they are shown",
          not uneven and not missing, (uneven[:1], missing))

for what, args in [
    ("script --itrace", ["script", *IN, "--itrace", "Mbi1i"]), ("dump", ["dump", INPUT]),
    ("dump --style perf", ["dump", "--style", "perf", INPUT]),
    ("dump --format json", ["dump", "--format", "json", INPUT]),
    ("verify", ["verify", INPUT]), ("verify --format json", ["verify", "--format", "json", INPUT]),
    ("truth without counts", ["truth", *IN]),
    ("a file that is not there", ["report", "-i", INPUT + b"\x1b"]),
    ("a file that is none", ["report", "-i", b"no\x1b\xff"]),
    ("a filter", ["report", *IN, "--symbol", b"\x1b\xff\n"]),
    ("a wrong filter", ["report", *IN, "--op", b"\x1b\xff\n"]),
    ("a wrong option", ["report", b"--\x1b\xff\n"]),
    ("a wrong command", [b"\x1b\xff"]), ("a wrong key", ["report", *IN, "--sort", b"\x1b\xff"]),
    ("a wrong field", ["report", *IN, "-F", b"\x1b\xff"]),
    ("a function that is not there", ["annotate", *IN, b"nope\x1b\xff"]),
    ("a wrong number", ["report", *IN, "--midr", b"\x1b\xff"]),
    ("two inputs", ["report", *IN, b"\x1b\xff"]),
    ("a script", ["spu", "run", b"sc\x1b\xff.spu"]),
    ("a script that is not there", ["spu", "run", b"sc\x1b\xff"]),
    ("a rule", ["verify", "--ignore", b"\x1b\xff", INPUT]),
    ("features", ["verify", "--features", b"\x1b\xff", INPUT])]:
    with open(D.encode() + b"/no\x1b\xff", "wb") as f:
        f.write(b"\x1b[31m\xff no profile")
    with open(D.encode() + b"/sc\x1b\xff.spu", "wb") as f:
        f.write(b"test te\x1b[31m\xffst\nexpect \x1b\xff = 1\nwrong\x1b\xff\n")
    code, out, err = command(*args)
    check(f"{what}: nothing but text", not trouble(out) and not trouble(err) and out + err,
          trouble(out) or trouble(err))
    if "json" in args:
        try:
            [json.loads(l) for l in out.decode().splitlines()]
            check(f"{what}: valid", True)
        except ValueError as e:
            check(f"{what}: valid", False, e)


def terminal(*args):
    """What a command writes to a terminal."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(D)
        os.environ.update(HOME=D, TERM="xterm", COLUMNS="100")
        os.environ.pop("NO_COLOR", None)
        try:
            os.execv(SPEX, [SPEX, "--no-pager", *args])
        finally:
            os._exit(127)
    out = bytearray()
    while select.select([fd], [], [], 120)[0]:
        try:
            part = os.read(fd, 65536)
        except OSError:
            break
        if not part:
            break
        out += part
    os.close(fd)
    os.waitpid(pid, 0)
    return bytes(out)


for more, most in (([], 300), (["-v"], None)):
    lines = command("report", *IN, *more)[1].decode().splitlines()
    rows = [len(l) for l in lines if not l.startswith("#")]
    check(f"{more}: names in a pipe", max(rows) <= most if most else max(rows) > 10000, max(rows))

for what, args, names in TABLES[:9]:
    out = terminal(*args)
    # our own colours, progress, and the line ends that a terminal makes
    rest = re.sub(rb"\x1b\[[0-9]*m|\r[^\n\r]*\r\x1b\[K|\r\x1b\[K|\r(?=\n)", b"", out)
    check(f"{what}: on a terminal, colours are ours alone", not trouble(rest) and
          b"\x1b[31mred" not in out and b"\x1b[1m/so" not in out, trouble(rest))
done()
