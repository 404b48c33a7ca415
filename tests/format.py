"""Every C file is as clang-format prints it (tables stand between clang-format off and on, or in
.def files), and no line of Python is longer than 100 columns."""
import os, shutil, subprocess, sys
sys.path.insert(0, os.path.dirname(__file__))
from support.tap import *

tool = shutil.which("clang-format-14") or shutil.which("clang-format")
paths = []
for folder in ("bench", "examples", "fuzz", "include", "src", "tests"):
    for root, _, names in os.walk(os.path.join(SOURCE, folder)):
        paths += [os.path.join(root, n) for n in names if n.endswith((".c", ".h", ".inc"))]
version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool else ""
if "version 14." not in version:
    skip("formatting", "needs clang-format 14 (Debian 12: clang-format)")
else:
    p = subprocess.run([tool, "--dry-run", "-Werror", *paths], capture_output=True, text=True)
    check("C files are formatted", p.returncode == 0, p.stderr[-4000:] + "\nmend with: make format")

COLUMNS = 100
long = []
for folder in ("bench", "debian", "examples", "fuzz", "scripts", "share", "spec", "src", "tests"):
    for root, _, names in os.walk(os.path.join(SOURCE, folder)):
        for path in sorted(os.path.join(root, n) for n in names):
            with open(path, "rb") as f:
                python = (path.endswith(".py") or
                          b"python" in f.readline(80)[:80].partition(b"#!")[2])
            if python:
                with open(path, encoding="utf-8") as f:
                    long += [f"{os.path.relpath(path, SOURCE)}:{n}: {len(l) - 1} columns"
                             for n, l in enumerate(f, 1) if len(l) > COLUMNS + 1]
check(f"no line of Python is longer than {COLUMNS} columns", not long, "\n".join(long[:50]) +
      "\nmend by hand: break at the commas of the outermost bracket, aligned with its first "
      "element; adjacent string literals join")
done()
