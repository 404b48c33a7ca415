"""spex top under QEMU: on a terminal of tmux's, and without one. On a machine's own SPE:
tests/vm/test_native.py."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import shutil
import tempfile
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *
from support.screen import Screen

WALK = os.path.join(BUILD, "examples/list_walk")
WORK = tempfile.mkdtemp(prefix="spex-top-test-")
ROWS, COLUMNS = 20, 110
ENDED, KEYS = b"(the program has ended)", b"f function  l line"  # the first line and the last

# The same for all: what stands in the environment moves the program's stack.
ALONE = ["env", "-i", f"PATH={os.environ['PATH']}", f"TMPDIR={WORK}", "TERM=screen",
         "SPEX_PAGER=cat", f"COLUMNS={COLUMNS}"]
SAME = ["--deterministic", "-c", "4096", "--", WALK]


def top(*command):
    return Screen(COLUMNS, ROWS, "sh", "-c", "echo before; \"$@\"; echo status $?", "sh", *ALONE,
                  SPEX, "top", *command)


def test_terminal():
    t = top("-c", "1024", "--", "/bin/sh", "-c", f"while :; do {WALK}; done")

    def until(title, want, *keys):
        if keys:
            t.press(*keys)
        text = t.until(want)
        check(title, text, t.text())
        return text or ""

    text = until("functions, with their time, while the program runs",
                 lambda s: "by function, most time first" in s and
                 re.search(r"\d%.* walk$", s, re.M) and re.search(r"\d%.* link_nodes$", s, re.M))
    lines = text.splitlines()
    check("the title is the first line, the keys are the last",
          re.match(r"spex top: [\d,]+ samples, ", lines[0]) and
          len(lines) == ROWS and lines[-1].startswith("f function  l line"), text)
    shares = [float(m.group(1))
              for m in (re.match(r"[ ~]*([\d.]+)%.*", l) for l in lines[2:]) if m][:-2]
    check("the first row has most of it", shares and shares[0] == max(shares), shares)
    check("what the program prints stays away", "node 247307" not in text)
    until("l: by line", lambda s: "by line" in s and "list_walk.c:23" in s, "l")
    until("s: by source", lambda s: "by source" in s and re.search(r" dram$", s, re.M), "s")
    until("p: by page", lambda s: "by page" in s and re.search(r" 0x[0-9a-f]+000$", s, re.M), "p")
    until("n: by samples",
          lambda s: "most samples first" in s and s.split("\n")[2].endswith("link_nodes"), "f", "n")
    until("y: by latency", lambda s: "most latency first" in s, "y")
    until("/: part of a name", lambda s: "only *wal*" in s and " walk" in s and
          "link_nodes" not in s, "/", "w", "a", "l", "Enter")
    until("enter: the instructions of the row", lambda s: "ldr" in s and "goes back" in s, "Enter")
    until("a key goes back", lambda s: "only *wal*" in s, "x")
    until("/: and none", lambda s: "by function" in s and "link_nodes" in s, "/", "Enter")
    check("processes of this test are found", len(processes()) > 2, processes())
    until("q ends it, and the screen is as before",
          lambda s: "status 0" in s and "spex top:" not in s, "q")
    t.end()
    equal("and nothing is left", os.listdir(WORK), [])
    # The loop is gone at once; a walk that it had begun ends by itself.
    while processes():
        time.sleep(0.1)
    equal("nor a process", processes(), [])


def screens(*command):
    """What top draws on a terminal, screen by screen, until the program has ended and q."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen([*ALONE, SPEX, "top", *command], stdin=its, stdout=its, stderr=its)
    os.close(its)
    drawn, pressed = b"", False
    while True:
        try:
            some = os.read(ours, 65536)
        except OSError:  # EIO: no one has the terminal open
            break
        if not some:
            break
        drawn += some
        last = drawn[drawn.rfind(b"\033[H"):]
        if not pressed and ENDED in last and KEYS in last:
            os.write(ours, b"q")
            pressed = True
    os.close(ours)
    process.wait()
    frames = drawn.split(b"\033[H")[1:]
    return [[l.rstrip() for l in re.sub(rb"\033\[[0-9;?]*[A-Za-z]", b"", f).decode().split("\n")]
            for f in frames]


def test_same(printed):
    """Of a run that is the same each time, a screen that says that the program has ended has
    the table that is printed without a terminal: all of its samples."""
    title = printed[0].replace("# ", "spex top: ").replace("; by", f" {ENDED.decode()}; by")
    want = [title] + [l.rstrip() for l in printed[1:]]
    last = [s for s in screens(*SAME) if ENDED.decode() in s[0]]
    check("a screen of a program that has ended is what is printed without a terminal",
          last and all(s[:len(want)] == want for s in last), f"{last} and {want}")


def processes():
    """Those of this test: its directory is in their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if f"TMPDIR={WORK}".encode() in f.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:  # it has ended, or is someone else's
            pass
    return found


def test_plain():
    code, out, err = run(*ALONE, SPEX, "top", *SAME)
    lines = out.decode().splitlines()
    check("without a terminal: once", code == 0 and re.match(r"# [\d,]+ samples, ", lines[0]) and
          b"\033" not in out and "node 247307" in err, out.decode() + err)
    path = os.path.join(WORK, "r.data")
    run(*ALONE, SPEX, "record", "-q", "-o", path, *SAME)
    rows = json.loads(spex("report", "-i", path, "--format", "json")[1])["rows"]
    ours = {l.split()[-1]: int(l.split()[2].replace(",", "")) for l in lines[2:5]}
    theirs = {r["symbol"]: r["samples"] for r in rows[:3]}
    check("the numbers are those of spex report", ours == theirs, f"{ours} and {theirs}")
    os.unlink(path)
    code, out, err = spex("top", "--by", "source", "-c", "4096", "--", "/bin/sh", "-c",
                          f"{WALK}; exit 7", env={"TMPDIR": WORK})
    check("--by, and the program's exit status", code == 7 and b"source" in out and b"dram" in out,
          f"{code} {out} {err}")
    code, out, err = spex("top")
    check("no program", code == 2 and "PROGRAM" in err, err)
    code, out, err = spex("top", "--", "/no/such", env={"TMPDIR": WORK})
    check("a program that is not there", code == 1 and "/no/such" in err, err)
    equal("nothing is left", os.listdir(WORK), [])
    return lines


printed = test_plain()
test_same(printed)
if shutil.which("tmux"):
    test_terminal()
else:
    skip("on a terminal", "tmux is not installed")
os.rmdir(WORK)
done()
