"""spex top under QEMU: on a terminal (a pseudo-terminal whose screen is taken apart here), and without one."""
import fcntl
import glob
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *

WALK = os.path.join(BUILD, "examples/list_walk")
WORK = tempfile.mkdtemp(prefix="spex-top-test-")
ROWS, COLUMNS = 20, 110


class Terminal:
    """A program on a terminal of its own; frames of its screen."""

    def __init__(self, *command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TMPDIR=WORK, SPEX_PAGER="cat", TERM="xterm")
            os.environ.pop("COLUMNS", None)
            time.sleep(0.3)  # the size is set meanwhile
            os.execv(command[0], command)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.text = ""

    def read(self, seconds):
        """False when the program is gone."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def frame(self):
        """The lines of the newest whole frame."""
        frames = [f for f in self.text.split("\033[H")[1:] if "\033[K" in f and re.search(r"quit|with: |q qu", f)]
        plain = re.sub(r"\033\[[?\d;]*[A-Za-z]", "", frames[-1]) if frames else ""
        return [l.rstrip() for l in plain.replace("\r", "").split("\n")]

    def until(self, title, want, keys=""):
        """Presses keys, and waits until a new frame has what is wanted."""
        os.write(self.fd, keys.encode())
        self.text = ""
        for _ in range(900):
            self.read(0.1)
            if want("\n".join(self.frame()) if want.__code__.co_varnames[0] == "frame" else self.text):
                return check(title, True)
        return check(title, False, self.text[-3000:])


def test_terminal():
    t = Terminal(SPEX, "top", "-c", "1024", "--", "/bin/sh", "-c", f"while :; do {WALK}; done")
    t.until("functions, with their time, while the program runs",
            lambda frame: "by function, most time first" in frame and re.search(r"\d%.* walk$", frame, re.M) and
            re.search(r"\d%.* link_nodes$", frame, re.M))
    lines = t.frame()
    check("nothing is wider or higher than the terminal", len(lines) <= ROWS and all(len(l) <= COLUMNS for l in lines), lines)
    shares = [float(m.group(1)) for m in (re.match(r"[ ~]*([\d.]+)%.*", l) for l in lines[2:]) if m][:-2]
    check("the first row has most of it", shares and shares[0] == max(shares), shares)
    check("what the program prints stays away", "node 247307" not in t.text)
    t.until("l: by line", lambda frame: "by line" in frame and "list_walk.c:23" in frame, "l")
    t.until("s: by source", lambda frame: "by source" in frame and re.search(r" dram$", frame, re.M), "s")
    t.until("p: by page", lambda frame: "by page" in frame and re.search(r" 0x[0-9a-f]+000$", frame, re.M), "p")
    t.until("n: by samples", lambda frame: "most samples first" in frame and frame.split("\n")[2].endswith("link_nodes"), "fn")
    t.until("y: by latency", lambda frame: "most latency first" in frame, "y")
    t.until("/: part of a name", lambda frame: "only *wal*" in frame and " walk" in frame and "link_nodes" not in frame, "/wal\r")
    t.until("enter: the instructions of the row", lambda text: "list_walk.c:23" in text and "ldr" in text and "goes back" in text, "\r")
    t.until("a key goes back", lambda frame: "only *wal*" in frame, "x")
    t.until("/: and none", lambda frame: "by function" in frame and "link_nodes" in frame, "/\r")
    os.write(t.fd, b"q")
    while t.read(60):
        pass
    _, status = os.waitpid(t.pid, 0)
    equal("q ends it", status, 0)
    check("the screen is as before", t.text.endswith("\033[?25h\033[?1049l"), repr(t.text[-60:]))
    equal("and nothing is left", os.listdir(WORK), [])
    left = subprocess.run(["pgrep", "-f", f"do {WALK}; done"], stdout=subprocess.PIPE).stdout
    equal("nor a process", left, b"")


def test_plain():
    code, out, err = spex("top", "-c", "4096", "--", WALK, env={"TMPDIR": WORK})
    lines = out.decode().splitlines()
    check("without a terminal: once", code == 0 and re.match(r"# [\d,]+ samples, ", lines[0]) and b"\033" not in out and
          "node 247307" in err, out.decode() + err)
    path = os.path.join(WORK, "r.data")
    spex("record", "-q", "-c", "4096", "-o", path, "--", WALK, env={"TMPDIR": WORK})
    rows = json.loads(spex("report", "-i", path, "--format", "json")[1])["rows"]
    ours = {l.split()[-1]: int(l.split()[2].replace(",", "")) for l in lines[2:5]}
    theirs = {r["symbol"]: r["samples"] for r in rows[:3]}
    check("the numbers are those of spex report", ours.keys() == theirs.keys() and  # where samples begin follows the stack's place
          all(abs(ours[k] - theirs[k]) <= 3 for k in ours), f"{ours} and {theirs}")
    os.unlink(path)
    code, out, err = spex("top", "--by", "source", "-c", "4096", "--", "/bin/sh", "-c", f"{WALK}; exit 7", env={"TMPDIR": WORK})
    check("--by, and the program's exit status", code == 7 and b"source" in out and b"dram" in out, f"{code} {out} {err}")
    code, out, err = spex("top")
    check("no program", code == 2 and "PROGRAM" in err, err)
    code, out, err = spex("top", "--", "/no/such", env={"TMPDIR": WORK})
    check("a program that is not there", code == 1 and "/no/such" in err, err)
    equal("nothing is left", os.listdir(WORK), [])


test_plain()
test_terminal()
os.rmdir(WORK)
done()
