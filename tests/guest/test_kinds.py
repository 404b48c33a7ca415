"""Eleven kinds of threads beside programs that keep the host busy: the same words and the same
bytes each time. SPEX_LONG: 200 times each beside eight of them (make check-turns)."""
import subprocess
from guest import *

need_engine("threads in turns beside load")
LONG = bool(os.environ.get("SPEX_LONG"))
TIMES, LOAD = (200, 8) if LONG else (3, 3)
KINDS = ["mutex", "spin", "barrier", "condition", "pipe", "sizes", "events", "calls", "semaphore",
         "rwlock", "time"]
program = build("kinds", "-pthread", "-static")
os.chdir(WORK)  # it makes a socket


def runs(kind):
    """What it printed, and the files: one of each if nothing depends on the host."""
    answers, files, path = {}, {}, os.path.join(WORK, "kinds.data")
    for i in range(TIMES):
        code, out, err = spex("record", "-q", "--deterministic", "-c", "1024", "-o", path, "--",
                              program, kind)
        if code:
            return {err: i}, {}
        with open(path, "rb") as f:
            data = f.read()
        answers.setdefault(out, i)
        files.setdefault(data, i)
    return answers, files


busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOAD)]
try:
    for kind in KINDS:
        answers, files = runs(kind)
        check(f"{kind}: the same order in {TIMES} runs beside a load of {LOAD}",
              len(answers) == 1 and files, answers)
        check(f"{kind}: the same bytes", len(files) == 1, list(files.values()))
finally:
    for process in busy:
        process.kill()

# Threads that wait for descriptors wait for what they would without spex, outside or inside.
waits = build("waits", "-pthread", "-static")


def answer(*command):
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
        p.stdin.write(b"some")
        p.stdin.flush()
        return p.communicate(b" bytes")[0].decode(), p.returncode


alone = answer("qemu-aarch64", waits)
check("waits: ends well", alone[1] == 0 and "alarm: -1" in alone[0], alone)
for model in ("sampled", "full"):
    equal(f"waits: the same answers, {model}",
          answer(SPEX, "record", "-q", *ENGINE, "--deterministic", "--model", model, "-o",
                 os.path.join(WORK, "waits.data"), "--", waits), alone)

# A thread that the host refuses: the others do not wait for its turn.
shim = os.path.join(BUILD, "tests/guest/libno-memory.so")
codes = [spex("record", "-q", "--model", "full", "-o", os.path.join(WORK, "kinds.data"), "--",
              program, "mutex", env={"LD_PRELOAD": shim, "NO_THREAD": str(n)})[0]
         for n in (3, 5)]
check("a thread that cannot be made is the program's to deal with", codes == [3, 3], codes)
done()
