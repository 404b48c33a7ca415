"""Chunks on several threads under ThreadSanitizer."""
import os, shutil, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

CC = "clang"
if not shutil.which(CC):
    skip("ThreadSanitizer", f"{CC} is not installed")
    done()
with tempfile.TemporaryDirectory() as d:
    code, out, err = run(CC, "-std=gnu11", "-g", "-O1", "-D_GNU_SOURCE", "-fsanitize=thread",
                         f"-I{SOURCE}/include", f"-I{SOURCE}/src", f"{SOURCE}/src/base/chunks.c",
                         f"{SOURCE}/tests/base/test_chunks.c", "-o", f"{d}/chunks")
    if code and "tsan" in err:
        skip("ThreadSanitizer", "its library is not installed")
        done()
    if check("chunks compile with ThreadSanitizer", code == 0, err):
        code, out, err = run(f"{d}/chunks")
        check("no data race, and the same results", code == 0 and "WARNING" not in err,
              out.decode() + err)
done()
