"""Files that commands write, whichever command: under the name is always a whole file, the older
one or the new one; what is read, and programs, are never replaced; a private profile makes private
files."""
import errno
import os
import shutil
import signal
import stat
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *

WORK = tempfile.TemporaryDirectory(prefix="spex-written-")
VECTORS = os.path.join(SOURCE, "tests/vectors")
WHOLE = open(os.path.join(VECTORS, "kunpeng920_branch_b.v1.perf.data"), "rb").read()
CUT = WHOLE[:48] + bytes(8) + WHOLE[56:72] + bytes(32) + WHOLE[104:-1000]
SHIM = os.path.join(BUILD, "tests/cli/libfail-at.so")
FORMATS = ("collapsed", "pprof", "speedscope", "firefox", "profgen", "parquet")
COMMANDS = {
    "html": (["html", "IN", "-o", "OUT"], ["OUT"]),
    "archive": (["archive", "IN", "-o", "OUT"], ["OUT"]),
    "generate": (["generate", "--truth", "TRUTH", "-n", "2000", "-o", "OUT"], ["OUT", "TRUTH"]),
    "recover": (["recover", "IN", "-o", "OUT"], ["OUT"]),
    **{f"export {to}": (["export", "--to", to, "IN", "-o", "OUT"], ["OUT"]) for to in FORMATS},
}
READS = [name for name in COMMANDS if name != "generate"]
KEEPS = [name for name in READS if name not in ("html", "archive")]  # FILE.old


def fresh(name, mode=0o644):
    """An empty directory with the command's input."""
    at = tempfile.mkdtemp(dir=WORK.name)
    with open(os.path.join(at, "in"), "wb") as f:
        f.write(CUT if name == "recover" else WHOLE)
    os.chmod(os.path.join(at, "in"), mode)
    return at


def play(name, at, out="out", source="in", env=None, more=()):
    names = {"IN": source, "OUT": out, "TRUTH": "truth"}
    return spex(*[names.get(word, word) for word in COMMANDS[name][0]], *more, cwd=at, env=env)


def bytes_of(at, name):
    with open(os.path.join(at, name), "rb") as f:
        return f.read()


# ---- what it should be ----
right = {}
for name in COMMANDS:
    at = fresh(name)
    code, out, err = play(name, at)
    right[name] = bytes_of(at, "out") if os.path.exists(os.path.join(at, "out")) else b""
    check(f"{name}: writes its file and nothing beside it",
          code == 0 and right[name] and
          sorted(os.listdir(at)) == ["in", *sorted(n.lower() for n in COMMANDS[name][1])],
          (code, err, os.listdir(at)))

# ---- never over what is read ----
for name in READS:
    wrong = []
    for how in ("itself", "a hard link", "a symbolic link", "a long way round"):
        at = fresh(name)
        target = "other"
        if how == "a hard link":
            os.link(os.path.join(at, "in"), os.path.join(at, "other"))
        elif how == "a symbolic link":
            os.symlink("in", os.path.join(at, "other"))
        else:
            target = "in" if how == "itself" else f"/proc/self/cwd/../{os.path.basename(at)}/in"
        before = sorted(os.listdir(at))
        code, out, err = play(name, at, target)
        if name == "recover":  # repairs a file in place, and keeps it
            ok = code == 0 and CUT in [bytes_of(at, n) for n in os.listdir(at)]
        else:
            ok = (code == 2 and "would replace" in err and bytes_of(at, "in") == WHOLE and
                  sorted(os.listdir(at)) == before)
        if not ok:
            wrong.append((how, code, err, os.listdir(at)))
    check(f"{name}: does not replace its input", not wrong, wrong)
for name in KEEPS:
    at = fresh(name)
    os.rename(os.path.join(at, "in"), os.path.join(at, "x.old"))
    open(os.path.join(at, "x"), "w").write("older")
    before = bytes_of(at, "x.old")
    code, out, err = play(name, at, "x", "x.old")
    check(f"{name}: nor by the older file that it keeps",
          code == 2 and "would replace" in err and bytes_of(at, "x.old") == before and
          bytes_of(at, "x") == b"older", (code, err))
at = fresh("html")
open(os.path.join(at, "syms"), "w").write("ffff800080000000 T _text\n")
code, out, err = spex("html", "in", "--kallsyms", "syms", "-o", "syms", cwd=at)
check("html: does not replace kallsyms", code == 2 and b"_text" in bytes_of(at, "syms"), err)

at = fresh("generate")
os.mkdir(os.path.join(at, "d"))
open(os.path.join(at, "there"), "w").write("older")
os.link(os.path.join(at, "there"), os.path.join(at, "again"))
for one, other in (("x", "x"), ("x", "./x"), ("d/x", "d/../d/x"), ("x", f"{at}/x"),
                   ("there", "again")):
    code, out, err = spex("generate", "-n", "10", "-o", one, "--truth", other, cwd=at)
    check(f"generate: {one} and {other} would be one file", code == 2 and "same file" in err and
          sorted(os.listdir(at)) == ["again", "d", "in", "there"], (code, err, os.listdir(at)))
code, out, err = spex("generate", "-n", "10", "-o", "x", "--truth", "d/x", cwd=at)
equal("generate: two files of one name", (code, err), (0, ""))
at = fresh("export")
for to in ("callgrind", "collapsed", "pprof"):
    open(os.path.join(at, "counts"), "w").write("counts")
    code, out, err = spex("export", "--to", to, "--truth", "counts", "-o", "counts", "in", cwd=at)
    check(f"export --to {to}: does not replace --truth", code == 2 and
          bytes_of(at, "counts") == b"counts", (code, err))
at = fresh("ship")
os.rename(os.path.join(at, "in"), os.path.join(at, "in.data"))
with open(os.path.join(at, "secret"), "w") as f:
    f.write("user me\npassword s3cret\n")
os.chmod(os.path.join(at, "secret"), 0o600)
os.mkdir(os.path.join(at, "spool"))
for metrics in ("secret", "./secret", "spool/in.data", "spool/new.prom"):
    shutil.copy(os.path.join(at, "in.data"), os.path.join(at, "spool/in.data"))
    code, out, err = spex("ship", "--once", "--spool", "spool", "--url", "http://127.0.0.1:1",
                          "--retry", "0", "--credentials", "secret", "--metrics", metrics, cwd=at)
    check(f"ship --metrics {metrics}: refused",
          code == 2 and ("would replace" in err or "spool" in err) and
          b"s3cret" in bytes_of(at, "secret") and bytes_of(at, "spool/in.data") == WHOLE,
          (code, err))
at = fresh("vm")
for log in ("in", "./in"):
    code, out, err = spex("vm", "--kernel", "in", "--log", log, cwd=at)
    check(f"vm --log {log}: does not replace the kernel", code == 2 and "would replace" in err and
          bytes_of(at, "in") == WHOLE, (code, err))

# ---- never over a program ----
for name in COMMANDS:
    wrong = []
    for program, start, mode in (("elf", b"\x7fELF\2\1\1", 0o755),
                                 ("library", b"\x7fELF\2\1\1", 0o644),
                                 ("script", b"#!/bin/sh\n", 0o755), ("hidden", b"secret", 0o111)):
        at = fresh(name)
        path = os.path.join(at, program)
        open(path, "wb").write(start)
        os.chmod(path, mode)
        os.symlink(program, os.path.join(at, "link"))
        for target in (program, "link"):
            if program == "hidden" and not os.geteuid():
                continue  # root may read it
            code, out, err = play(name, at, target)
            os.chmod(path, 0o755)
            if code != 1 or "is a program" not in err or bytes_of(at, program) != start:
                wrong.append((program, target, code, err))
            os.chmod(path, mode)
    check(f"{name}: does not replace a program", not wrong, wrong)
at = fresh("html")
open(os.path.join(at, "out"), "w").write("<!doctype html> older")
os.chmod(os.path.join(at, "out"), 0o755)  # as everything is where modes are not kept
check("an older output that may be executed is an older output",
      play("html", at)[0] == 0 and bytes_of(at, "out") == right["html"])

# ---- modes ----
os.umask(0o022)
for name in READS:
    got = []
    for mode in (0o600, 0o640, 0o644):
        at = fresh(name, mode)
        play(name, at)
        got.append(stat.S_IMODE(os.stat(os.path.join(at, "out")).st_mode))
    equal(f"{name}: who may not read the profile may not read the file", [oct(m) for m in got],
          ["0o600", "0o600" if name == "recover" else "0o640",
           "0o600" if name == "recover" else "0o644"])
at = fresh("html", 0o600)
open(os.path.join(at, "out"), "w").write("an older page")
os.chmod(os.path.join(at, "out"), 0o644)
play("html", at)
equal("nor where an older file could be read",
      oct(stat.S_IMODE(os.stat(os.path.join(at, "out")).st_mode)), "0o600")
for name in ("html", "archive", "export pprof"):
    at = fresh(name, 0o600)
    code, out, err = play(name, at, more=("--mode", "644"))
    equal(f"{name}: unless --mode says so",
          (code, oct(stat.S_IMODE(os.stat(os.path.join(at, "out")).st_mode))), (0, "0o644"))
    for mode in ("7777", "rw", "", "444", "-1"):
        at = fresh(name)
        code, out, err = play(name, at, more=("--mode", mode))
        check(f"{name}: --mode '{mode}' is refused",
              code == 2 and "--mode" in err and os.listdir(at) == ["in"], (code, err))

# ---- errors and kill -9 at every call that puts bytes or names in place ----
OLDER = b"an older file, which is good"


def count(name, call):
    at = fresh(name)
    for n in COMMANDS[name][1]:
        open(os.path.join(at, n.lower()), "wb").write(OLDER)
    play(name, at, env={"LD_PRELOAD": SHIM, "FAIL_CALL": call, "FAIL_AT": "0",
                        "FAIL_COUNT": os.path.join(at, "count")})
    return int(bytes_of(at, "count"))


def some(n):
    """First, second, middle and last of n calls."""
    return sorted({i for i in (1, 2, n // 2, n) if 1 <= i <= n})


total = 0
for name in COMMANDS:
    wrong = []
    for call, codes in (("write", (errno.ENOSPC, errno.EIO)), ("fsync", (errno.EIO,)),
                        ("close", (errno.EIO,)), ("rename", (errno.EACCES,)),
                        ("link", (errno.EPERM,))):
        for nth in some(count(name, call)):
            for with_ in (*codes, "KILL"):
                at = fresh(name)
                for n in COMMANDS[name][1]:
                    open(os.path.join(at, n.lower()), "wb").write(OLDER)
                code, out, err = play(name, at, env={"LD_PRELOAD": SHIM, "FAIL_CALL": call,
                                                     "FAIL_AT": str(nth), "FAIL_WITH": str(with_)})
                total += 1
                there = bytes_of(at, "out") if os.path.exists(os.path.join(at, "out")) else None
                left = [n for n in os.listdir(at) if ".new-" in n or ".old-" in n]
                if with_ == "KILL":
                    ok = code == -signal.SIGKILL and there in (OLDER, right[name])
                elif call == "link":  # a file system without links: FILE.old by renaming
                    ok = code == 0 and there == right[name] and not left
                else:
                    ok = code == 1 and there == OLDER and err and not left
                if not ok:
                    wrong.append((call, nth, with_, code, err, there and there[:30], left))
    check(f"{name}: the older file or the new one, whatever fails", not wrong,
          "\n".join(map(str, wrong)))
check("and that was many times", total > 100, total)
for name in KEEPS:
    at = fresh(name)
    open(os.path.join(at, "out"), "wb").write(OLDER)
    code, out, err = play(name, at)
    check(f"{name}: the older file is kept as FILE.old",
          code == 0 and bytes_of(at, "out.old") == OLDER and bytes_of(at, "out") == right[name],
          err)
at = fresh("export pprof")
for n in ("out", "out.old"):  # of the same file
    open(os.path.join(at, n), "wb").write(OLDER) if n == "out" else os.link(
        os.path.join(at, "out"), os.path.join(at, n))
check("FILE and FILE.old may be one", play("export pprof", at)[0] == 0 and
      bytes_of(at, "out.old") == OLDER and sorted(os.listdir(at)) == ["in", "out", "out.old"],
      os.listdir(at))
for name in ("html", "archive", "export pprof"):
    at = fresh(name)
    code, out, err = run("sh", "-c", f'exec "$0" "$@" >/dev/full', SPEX,
                         *[{"IN": "in", "OUT": "-"}.get(w, w) for w in COMMANDS[name][0]], cwd=at)
    check(f"{name}: standard output on a full disk", code == 1 and "No space left" in err,
          (code, err))
done()
