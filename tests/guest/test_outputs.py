"""Where a profile goes and what may come in between: names, links, devices, signals, kill -9, a
guest that spoils its run."""
import glob
import signal
import stat
import subprocess
import threading
import time

from guest import *

need_engine("outputs")
work = build("work", "-pthread")
hostile = build("hostile", "-static")
AT = os.path.join(WORK, "at")
os.mkdir(AT)


def at(name):
    return os.path.join(AT, name)


def clean():
    for name in os.listdir(AT):
        path = at(name)
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)


def to(output, *args, **kw):
    return spex("record", "-o", output, *(args or (work, "exit", "0")), **kw)


def runs():
    return glob.glob(at("*.run-*"))


# ---- names that are refused before the guest runs ----
open(at("file"), "w").write("x")
os.mkdir(at("directory"))
os.mkdir(at("kept.old"))
open(at("kept"), "w").write("older")
for name, status, why in [("", 2, "the name is empty"), (at("directory"), 1, "is a directory"),
                          (AT + "/", 1, "is a directory"),
                          (at("file/x"), 1, "Not a directory"), (at("none/x"), 1, "No such file"),
                          (at("new/"), 1, "."),
                          (at("kept"), 1, "kept.old: is a directory"), (at("x" * 255), 1, "xxx"),
                          ("x" * 5000, 2, "too long"),
                          ("/proc/x", 1, "No such file|not permitted|denied")]:
    code, out, err = to(name, work, "env", env={"SPEX_TEST": "ran"})
    check(f"-o {name.replace(AT, 'DIR')[:40]!r} is refused",
          code == status and re.search(why, err) and b"ran" not in out and
          len(err.splitlines()) == 1 + (status == 2), err)
equal("and leaves nothing", sorted(os.listdir(AT)), ["directory", "file", "kept", "kept.old"])
equal("nor changes anything", open(at("kept")).read(), "older")
for name in ("-", "/dev/null"):
    code, out, err = to(name, "--truth", work, "env")
    check(f"--truth -o {name} is refused", code == 2 and "-o must name a file" in err, err)
os.mkdir(at("t.truth"))
code, out, err = to(at("t"), "--truth", work, "env")
check("--truth where FILE.truth is a directory is refused",
      code == 1 and "t.truth: is a directory" in err, err)
clean()

# ---- devices and FIFOs ----
before = os.stat("/dev/null")
code, out, err = to("/dev/null")
after = os.stat("/dev/null")
check("-o /dev/null: written to, and still the device",
      code == 0 and stat.S_ISCHR(after.st_mode) and
      (before.st_rdev, before.st_mode, before.st_ino) ==
      (after.st_rdev, after.st_mode, after.st_ino), err)
code, out, err = to("/dev/full")
check("-o /dev/full: told, and the run is kept",
      code == 1 and "No space left" in err and "spex recover /" in err, err)
kept = re.search(r"spex recover (\S+)", err).group(1)
code, out, err = spex("recover", kept, "-o", at("recovered"))
check("recover makes the profile of it",
      code == 0 and verified(at("recovered"))[0] and not os.path.exists(kept), err)
os.mkfifo(at("fifo"))
got = []
reader = threading.Thread(target=lambda: got.append(open(at("fifo"), "rb").read()))
reader.start()
code, out, err = to(at("fifo"))
reader.join()
open(at("piped"), "wb").write(got[0])
check("a FIFO gets perf's pipe format", code == 0 and got[0][:8] == b"PERFILE2" and
      stat.S_ISFIFO(os.stat(at("fifo")).st_mode) and verified(at("piped"))[0], err)
p = subprocess.Popen([SPEX, "record", "-o", "-", work, "exit", "0"], stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": AT})
p.stdout.close()
err = p.stderr.read().decode()
check("a reader that goes away: one line, nothing kept",
      p.wait() == 1 and "Broken pipe" in err and not runs(), err)
clean()

# ---- files and links ----
os.umask(0)
code, out, err = to(at("p"), "--truth", work, "exit", "0")
equal("a new profile is its owner's alone",
      [oct(os.stat(at(n)).st_mode & 0o777) for n in ("p", "p.truth")], ["0o600", "0o600"])
os.umask(0o022)
open(at("victim"), "w").write("precious")
for name in ("p.truth", "p.old"):
    if os.path.exists(at(name)):
        os.unlink(at(name))
    os.symlink(at("victim"), at(name))
code, out, err = to(at("p"), "--truth", work, "exit", "0")
check("planted FILE.truth and FILE.old links are not followed",
      code == 0 and open(at("victim")).read() == "precious" and
      not os.path.islink(at("p.truth")) and not os.path.islink(at("p.old")), err)
os.mkdir(at("there"))
open(at("there/real"), "w").write("old")
os.symlink("there/real", at("link"))
code, out, err = to(at("link"))
check("a link: its target is written, and kept as .old beside it",
      code == 0 and os.readlink(at("link")) == "there/real" and
      verified(at("there/real"))[0] and open(at("there/real.old")).read() == "old", err)
os.symlink("there/later", at("dangling"))
code, out, err = to(at("dangling"))
check("a link to nothing: the target is made",
      code == 0 and os.path.islink(at("dangling")) and verified(at("there/later"))[0], err)
os.symlink("none/later", at("broken"))
code, out, err = to(at("broken"))
check("a link to nowhere is refused", code == 1 and "No such file" in err, err)
equal("no run is left", runs() + glob.glob(at("there/*.run-*")), [])
clean()

code, out, err = to(at("p"), work, "exit", "0", *["x" * 100] * 1000)
check("a command line of 100 KB", code == 0 and verified(at("p"))[0], err)
clean()

# ---- descriptors that the caller has closed ----
good = to(at("p"))[2] and packets(at("p"))
for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
    code, out, err = run("sh", "-c", f'exec "$@" {closed}', "sh", SPEX, "record", "-o", at("p"),
                         work, "exit", "0")
    check(f"{closed}: the profile alone is in the profile",
          code == 0 and verified(at("p"))[0] and len(packets(at("p"))) > 0.9 * len(good), err)
code, out, err = run("sh", "-c", 'exec "$@" >&-', "sh", SPEX, "report", "-i", at("p"))
check("a report to nowhere is told", code == 1 and "Bad file descriptor" in err, (code, err))
clean()

# ---- no memory in QEMU's process ----
shim = os.path.join(BUILD, "tests/guest/libno-memory.so")
bad, kept = [], []
for nth in (1, 3, 10, 20, 40, 80, 300, 1000):  # model, core, unit, threads and blocks
    code, out, err = to(at("p"), "--truth", "-c", "256", work, "exit", "0",
                        env={"LD_PRELOAD": shim, "NO_MEMORY": str(nth)})
    kept.append(len(packets(at("p"))) if os.path.exists(at("p")) else 0)
    if (code != 1 or "memory" not in err or runs() or
        kept[-1] and not (verified(at("p"))[0] and f"the rest is in {at('p')}" in err)):
        bad.append((nth, code, kept, err))
    clean()
check("no memory for the plugin: told, exit status 1, and what was recorded is kept",
      not bad and kept[-1] > 50, (bad, kept))

# ---- signals to spex alone ----
for how in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    # as a shell starts background jobs: SIGINT and SIGQUIT ignored, which the guest inherits
    # nohup ignores it
    p = subprocess.Popen([SPEX, "record", "-m", ",8K", "-c", "2048", "-o", at("p"), work, "sleep"],
                         stderr=subprocess.PIPE, start_new_session=True,
                         preexec_fn=lambda: (signal.signal(signal.SIGINT, signal.SIG_IGN),
                                             signal.signal(signal.SIGQUIT, signal.SIG_IGN),
                                             signal.signal(signal.SIGHUP, signal.SIG_DFL)))
    while not glob.glob(at("p.run-*/0.log")):
        time.sleep(0.05)
    while os.path.getsize(os.path.join(runs()[0], "data")) < 10000:  # the guest runs
        time.sleep(0.05)
    p.send_signal(how)
    err = p.communicate()[1].decode()
    equal(f"{how.name} to spex alone: it ends the run, and spex by that signal", p.returncode, -how)
    check(f"{how.name}: the profile is kept", "wrote" in err and verified(at("p"))[0], err)
equal("no run is left", runs(), [])
clean()

# ---- kill -9 ----
p = subprocess.Popen([SPEX, "record", "-m", ",8K", "-c", "2048", "-o", at("p"), work, "sleep"],
                     stderr=subprocess.PIPE)
while not glob.glob(at("p.run-*/0.log")):
    time.sleep(0.05)
where = runs()[0]
code, out, err = spex("recover", where, "-o", at("early"))
check("a run under way is not touched", code == 1 and "still under way" in err, err)
while os.path.getsize(os.path.join(where, "data")) < 100000:  # more than a thousand records
    time.sleep(0.05)
guests = [int(c) for c in open(f"/proc/{p.pid}/task/{p.pid}/children").read().split()]
p.kill()
p.wait()
def alive(pid):
    try:
        return open(f"/proc/{pid}/stat").read().split()[2] != "Z"
    except OSError:
        return False


while any(alive(c) for c in guests):
    time.sleep(0.1)
check("kill -9 of spex: QEMU dies, too", guests, guests)
check("there is no file, but a run", not os.path.exists(at("p")) and runs() == [where],
      os.listdir(AT))
code, out, err = spex("recover", where, "-o", at("p"))
check("recover: a whole file, and the run is gone",
      code == 0 and verified(at("p"))[0] and not runs(), err)
check("with all up to that moment", len(packets(at("p"))) > 1000)
code, rows, err = run("perf", "script", "-i", at("p"), "--itrace=i1i", "-F", "ip,sym")
check("perf names its functions", code == 0 and rows.count(b"busy") > 1000, err)
for operands, why in [([], "name the run"), ([at("none")], "No such file"), ([AT], "not a run"),
                      ([work], "not the beginning of a perf.data")]:
    code, out, err = spex("recover", *operands, "-o", at("x"))
    check(f"recover {' '.join(operands).replace(WORK, '')}: {why}",
          code == (1 if operands else 2) and why in err, err)
clean()

# ---- files that were cut ----
code, out, err = to(at("good"), "-m", ",8K", "-c", "2048", work, "exit", "0")
whole = open(at("good"), "rb").read()
all_records = packets(at("good"))
code, out, err = spex("recover", at("good"), "-o", at("x"))
check("recover of a whole file says so",
      code == 1 and "it is whole" in err and not os.path.exists(at("x")), err)
for share in (0.2, 0.5, 0.9, 0.999):
    cut = bytearray(whole[:int(len(whole) * share)])
    cut[48:56] = bytes(8)  # as perf leaves it when it is killed
    cut[72:104] = bytes(32)
    open(at("cut"), "wb").write(cut)
    code, out, err = spex("recover", at("cut"), "-o", at("again"))
    got = packets(at("again"))
    check(f"a file cut at {share}: recovered up to there",
          code == 0 and got[:-1] == all_records[:len(got) - 1] and
          len(got) > (share - 0.1) * len(all_records), (err, len(got), len(all_records)))
    said = verified(at("again"))[1]
    check("and nothing in it breaks a rule, but that its last record may be cut",
          " 0 violations" in said or
          (" 1 violation" in said and re.search("record-unclosed|packet-truncated", said)), said)
code, rows, err = run("perf", "script", "-i", at("again"), "--itrace=i1i", "-F", "ip,sym")
check("perf names its functions", code == 0 and rows.count(b"busy") > 1000, err)
code, out, err = spex("recover", at("cut"), "-o", at("cut"))
check("in place: the cut one is kept as .old",
      code == 0 and open(at("cut.old"), "rb").read() == bytes(cut) and verified(at("cut"))[0], err)
for size in (0, 8, 50, 104, 300):
    open(at("cut"), "wb").write(whole[:size])
    code, out, err = spex("recover", at("cut"), "-o", at("none"))
    check(f"a file of {size} bytes: why not", code == 1 and err and not os.path.exists(at("none")),
          err)
clean()

# ---- a guest that spoils its own run ----
SANITIZER = re.compile("AddressSanitizer|runtime error|LeakSanitizer")


def spoilt(how, seed=0):
    """Records hostile; the run's directory is found by its name, as a guest could."""
    p = subprocess.Popen([SPEX, "record", "-m", ",8K", "-c", "512", "--truth", "-o", at("p"),
                          hostile, "@", how, str(seed)],
                         stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=AT)
    try:
        return p.communicate(timeout=1200)[1].decode(errors="replace"), p.returncode
    except subprocess.TimeoutExpired:
        p.kill()
        return "hangs", None


clean()
os.mkdir(at("precious"))
open(at("precious/file"), "w").close()
open(at("swaps"), "w").write("#!/bin/sh\nd=$(echo p.run-*)\nmv $d moved\nln -s precious $d\n")
os.chmod(at("swaps"), 0o755)
code, out, err = spex("record", "-o", "p", "./swaps", cwd=AT)
check("the run's directory became a link: what it leads to is not removed",
      code == 1 and os.path.exists(at("precious/file")), (code, err))

bad = []
total = 0
FILES = ("control", "command", "data", "0", "0.log", "0.aux", "0.truth")
cases = [(how, seed) for how in ("fifo", "link", "directory", "remove", "grow", "swap")
         for seed in (0,)]
LONG = bool(os.environ.get("SPEX_LONG"))  # make check-faults
cases += [(f"{how}:{name}", 0) for how in ("fifo", "directory", "remove", "grow", "swap")
          for name in FILES if LONG]
cases += [(how, seed) for how in ("scribble", "cut") for seed in range(60 if LONG else 1)]
cases += [(f"scribble:{name}", seed) for name in FILES for seed in range(20 if LONG else 1)]
for how, seed in cases:
    clean()
    os.symlink("p.run", at("@"))  # the guest's name for the directory, which has none before
    stop = threading.Event()

    def follow():
        while not stop.is_set():
            found = runs()
            if found:
                if not os.path.lexists(at("p.run")):
                    os.symlink(found[0], at("p.run"))
                return
            time.sleep(0.001)
    t = threading.Thread(target=follow)
    t.start()
    err, code = spoilt(how, seed)
    stop.set()
    t.join()
    total += 1
    lines = [l for l in err.splitlines() if l.startswith("spex")]
    # QEMU may break of it, and spex dies by its signal then, but has told before what it found; a
    # crash of spex itself has not, and is the sanitizer's to tell.
    broke = (code in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT) and
             re.search("the run is kept in|the rest is in|files were damaged", err))
    wrong = (code not in (1, 2, -signal.SIGKILL) and
             not broke) or SANITIZER.search(err) or not lines
    if not wrong and os.path.isfile(at("p")):
        got = run(SPEX, "report", "-i", at("p"))
        wrong = got[0] < 0 or SANITIZER.search(got[2])
    for left in runs():  # and whoever recovers what was left
        got = spex("recover", left, "-o", at("q"))
        wrong = wrong or got[0] not in (0, 1) or not got[2] or SANITIZER.search(got[2])
    if wrong:
        bad.append((how, seed, code, err[-600:]))
check(f"a guest that spoils its run, in {total} ways: no crash, no hang, a message or a profile",
      not bad, "\n".join(map(str, bad)))
done()
