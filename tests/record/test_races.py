"""Teams of threads under ThreadSanitizer: the test of the variants, a part of its streams."""
import glob, os, shutil, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

CC = "clang"
if not shutil.which(CC):
    skip("ThreadSanitizer", f"{CC} is not installed")
    done()
with tempfile.TemporaryDirectory() as d:
    sources = [f for m in ("base", "wire", "record", "arch") for f in glob.glob(f"{SOURCE}/src/{m}/*.c")]
    code, out, err = run(CC, "-std=gnu11", "-g", "-O1", "-D_GNU_SOURCE", "-fsanitize=thread",
                         "-fno-strict-aliasing", f"-I{SOURCE}/include", f"-I{SOURCE}/src",
                         f"-I{SOURCE}/tests", *sources, f"{SOURCE}/tests/record/test_variants.c",
                         "-o", f"{d}/variants")
    if code and "tsan" in err:
        skip("ThreadSanitizer", "its library is not installed")
        done()
    if check("the reader compiles with ThreadSanitizer", code == 0, err):
        code, out, err = run(f"{d}/variants", "quick")
        check("no data race, and the same records", code == 0 and "WARNING" not in err,
              out.decode() + err)
done()
