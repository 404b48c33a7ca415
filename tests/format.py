"""Every C file is as clang-format prints it; tables stand between clang-format off and on, or in .def files."""
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
done()
