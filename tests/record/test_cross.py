"""The core builds for AArch64 with libc alone, and its reader (NEON) agrees
with the oracle there."""
import glob, os, shutil, subprocess, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

CC, QEMU = "aarch64-linux-gnu-gcc", "qemu-aarch64"
if not shutil.which(CC) or not shutil.which(QEMU):
    skip("AArch64", f"{CC} or {QEMU} is not installed")
    done()
with tempfile.TemporaryDirectory() as d:
    sources = [f for m in ("wire", "record", "arch")
               for f in glob.glob(f"{SOURCE}/src/{m}/**/*.c", recursive=True)]
    sources += [f"{SOURCE}/src/base/status.c", f"{SOURCE}/src/base/error.c",
                f"{SOURCE}/src/base/sized.c", f"{SOURCE}/tests/record/test_variants.c"]
    code, out, err = run(CC, "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror",
                         "-static", "-fno-strict-aliasing", "-Wno-unused-parameter",
                         "-Wno-missing-field-initializers", f"-I{SOURCE}/include",
                         f"-I{SOURCE}/src", f"-I{SOURCE}/tests", *sources, "-o", f"{d}/variants")
    if check("wire, arch and record compile for AArch64", code == 0, err):
        code, out, err = run(QEMU, f"{d}/variants")
        lines = out.decode().splitlines()
        check("every variant agrees with the oracle on AArch64",
              code == 0 and any("NEON" in l for l in lines), out.decode() + err)
done()
