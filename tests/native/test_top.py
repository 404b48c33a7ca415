"""spex top under QEMU: on a terminal of tmux's, and without one. On a machine's own SPE:
tests/vm/test_native.py."""
import json
import os
import re
import subprocess
import sys
import shutil
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *
from support.screen import Screen

WALK = os.path.join(BUILD, "examples/list_walk")
WORK = tempfile.mkdtemp(prefix="spex-top-test-")
ROWS, COLUMNS = 20, 110


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
    until("q ends it, and the screen is as before",
          lambda s: "status 0" in s and "spex top:" not in s, "q")
    t.end()
    equal("and nothing is left", os.listdir(WORK), [])
    left = subprocess.run(["pgrep", "-f", f"do {WALK}; done"], stdout=subprocess.PIPE).stdout
    equal("nor a process", left, b"")


def test_same(printed):
    """The last screen of a run that is the same each time is the table that is
    printed without a terminal."""
    t = top(*SAME)
    shown = t.until(lambda s: "(the program has ended)" in s) or t.text()
    t.press("q")
    t.until(lambda s: "status 0" in s)
    t.end()
    title = printed[0].replace("# ", "spex top: ").replace("; by", " (the program has ended); by")
    equal("the last screen is what is printed without a terminal",
          [l.rstrip() for l in shown.splitlines()][:len(printed)],
          [title] + [l.rstrip() for l in printed[1:]])


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
if shutil.which("tmux"):
    test_same(printed)
    test_terminal()
else:
    skip("on a terminal", "tmux is not installed")
os.rmdir(WORK)
done()
