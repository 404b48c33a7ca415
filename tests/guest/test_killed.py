"""spex record, or its QEMU, killed or refused at one system call after the
other (strace's injection).

Whatever happens: what has the profile's name is whole, an older profile is still there, and what
was left of the run can be recovered. A few calls in `make check`, every one in `make check-faults`
(SPEX_LONG=1). Later writers of files join by a line in COMMANDS.
"""
import glob
import signal
import subprocess

from guest import *

need_engine("killed")
if not shutil.which("strace") or run("strace", "-o", "/dev/null", "true")[0]:
    skip("killed", "strace does not work here", machine=bool(shutil.which("strace")))
    done()
LONG = bool(os.environ.get("SPEX_LONG"))
tiny = build("tiny", "-static")
AT = os.path.join(WORK, "at")
P = os.path.join(AT, "p")
os.mkdir(AT)
code, _, err = spex("record", "-c", "256", "-m", ",8K", "-o", P, tiny)
check("the recording that is disturbed below", code == 0 and len(packets(P)) > 300, err)
OLDER = open(P, "rb").read()[:-1] + b"?"  # not what will be written


def readable(path):
    code, _, err = spex("verify", path)
    return code == 0 or err.strip().endswith("no SPE data in this file")


RECORD = [SPEX, "record", *MODEL, "-c", "256", "-m", ",8K", "-o", P]
# Commands that write a file: name, words, and the text that a whole output has
# or a function of its path.
COMMANDS = [("record", RECORD + [tiny], readable)]

# QEMU under strace: a script that says, as QEMU does, that it loads plugins.
WRAPPER = os.path.join(WORK, "qemu-strace")


def wrap(options):
    with open(WRAPPER, "wb") as f:
        f.write(b"#!/bin/sh\nexec strace -f -qq " + " ".join(options).encode() +
                b" qemu-aarch64 \"$@\"\n#qemu_plugin_register_vcpu_tb_trans_cb\0\n")
    os.chmod(WRAPPER, 0o755)


def clean():
    for name in os.listdir(AT):
        path = os.path.join(AT, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    with open(P, "wb") as f:
        f.write(OLDER)


def calls(args):
    """How often each system call is made: {name: count}, of one process."""
    clean()
    log = os.path.join(WORK, "calls")
    if args is None:
        wrap(["-o", log])
        run(*RECORD, "--qemu", WRAPPER, tiny)
    else:
        run("strace", "-qq", "-o", log, *args)
    counts = {}
    for line in open(log, errors="replace"):
        m = re.match(r"(?:\d+ +)?(\w+)\(", line)
        if m:
            counts[m.group(1)] = counts.get(m.group(1), 0) + 1
    return counts


def judge(what, code, err, whole, killed):
    """What is wrong with how it ended; empty if nothing is."""
    wrong = []
    if code in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS) or "Sanitizer" in err:
        wrong.append("crashed")
    if not killed and code and not any(l.startswith("spex")
                                       for l in err.splitlines()) and "shared librar" not in err:
        wrong.append("no message")
    there = [n for n in (P, P + ".old") if os.path.exists(n)]
    if not any(open(n, "rb").read() == OLDER for n in there):
        wrong.append("the older file is lost")
    new = os.path.exists(P) and open(P, "rb").read() != OLDER
    if new and not whole(P):
        wrong.append("half a file has the name")
    left = glob.glob(P + ".run-*")
    if code == 0 and not new:
        wrong.append("said that all is well, and wrote nothing")
    for directory in left:
        loaded = os.path.exists(os.path.join(directory, "0.log"))
        got = spex("recover", directory, "-o", os.path.join(AT, "recovered"))
        ok = got[0] == 0 and whole(os.path.join(AT, "recovered"))
        if (not ok and (loaded or not got[2]) and "there is no data" not in got[2] and
            os.path.exists(os.path.join(directory, "data"))):
            wrong.append(f"cannot be recovered: {got[2]}")
    return [f"{what}: {w} (exit {code}) {err[-300:]}" for w in wrong]


def disturb(name, args, counts, kinds, whole, inside):
    """Every call (or some), once each, with every kind of trouble."""
    problems, done_cases = [], 0
    for kind, names in kinds:
        for call in sorted(counts):
            if names and call not in names:
                continue
            every = range(1, counts[call] + 1)
            if not LONG:  # the last ones matter most
                every = sorted({counts[call], max(1, counts[call] // 2)}) if names else every[::-12]
            for n in every:
                clean()
                options = ["-e", "trace=" + call, "-o", "/dev/null", "-e",
                           f"inject={call}:{kind}:when={n}"]
                if inside:
                    wrap(options)
                    command = [*RECORD, "--qemu", WRAPPER, tiny]
                else:
                    command = ["strace", "-qq", *options, *args]
                code, _, err = run(*command, timeout=120)
                problems += judge(f"{call} {n} {kind}", code, err, whole, "KILL" in kind)
                done_cases += 1
    check(f"{name}: {done_cases} disturbed calls: readable or absent, older "
          "files kept, recoverable",
          not problems, "\n".join(problems))


FULL = {"write", "pwrite64", "openat", "fallocate", "mkdir", "rename", "ftruncate", "close",
        "fsync"}
READ = {"read", "pread64", "newfstatat", "lseek", "getdents64", "flock"}
for name, args, whole in COMMANDS:
    disturb(f"{name}, killed", args, calls(args), [("signal=KILL", None)], whole, False)
    disturb(f"{name}, disk full", args, calls(args), [("error=ENOSPC", FULL)], whole, False)
    disturb(f"{name}, bad disk", args, calls(args), [("error=EIO", FULL | READ)], whole, False)
inside = calls(None)
whole = COMMANDS[0][2]
mine = {c: n for c, n in inside.items() if c in ("write", "pwrite64", "fallocate", "unlink",
                                                 "openat", "close", "flock", "mmap", "munmap")}
disturb("QEMU killed", None, mine, [("signal=KILL", None)], whole, True)
disturb("QEMU, disk full", None, mine, [("error=ENOSPC", {"write", "pwrite64", "fallocate"})],
        whole, True)
clean()
code, _, err = run("strace", "-qq", "-o", "/dev/null", "-e", "trace=rmdir", "-e",
                   "inject=rmdir:error=ENOTEMPTY:when=1", *RECORD, tiny)
check("a process that outlived the program made a file meanwhile: the run is removed all the same",
      code == 0 and "not empty" not in err and not glob.glob(P + ".run-*"), err)
done()
