"""Chunks and stages on several threads under ThreadSanitizer."""
import os, shutil, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

CC = "clang"
if not shutil.which(CC):
    skip("ThreadSanitizer", f"{CC} is not installed")
    done()
with tempfile.TemporaryDirectory() as d:
    for name in ("chunks", "stages"):
        code, out, err = run(CC, "-std=gnu11", "-g", "-O1", "-D_GNU_SOURCE", "-fsanitize=thread",
                             f"-I{SOURCE}/include", f"-I{SOURCE}/src",
                             f"{SOURCE}/src/base/{name}.c", f"{SOURCE}/src/base/memory.c",
                             f"{SOURCE}/tests/base/test_{name}.c", "-o", f"{d}/{name}")
        if code and "tsan" in err:
            skip("ThreadSanitizer", "its library is not installed")
            done()
        if check(f"{name} compile with ThreadSanitizer", code == 0, err):
            code, out, err = run(f"{d}/{name}")
            check(f"{name}: no data race, and the same results", code == 0 and "WARNING" not in err,
                  out.decode() + err)
done()
