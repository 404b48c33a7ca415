"""Cross-compiled programs and their profiles, for the tests of record and stat."""
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *

HERE = os.path.dirname(os.path.abspath(__file__))
CC = "aarch64-linux-gnu-gcc"
SYSROOT = "/usr/aarch64-linux-gnu"
_work = tempfile.TemporaryDirectory(prefix="spex-guest-")
WORK = _work.name
# The model that is not the usual one, for a second run of the same test.
MODEL = ["--model", os.environ["SPEX_MODEL"]] if os.environ.get("SPEX_MODEL") else []
# Another QEMU than the one that is installed (make check-engines).
ENGINE = ["--qemu", os.environ["SPEX_QEMU"]] if os.environ.get("SPEX_QEMU") else []


def need_engine(what):
    """Ends the test as skipped without compiler or QEMU."""
    for program, package in ((CC, "gcc-aarch64-linux-gnu"), ("qemu-aarch64", "qemu-user")):
        if not shutil.which(program):
            skip(what, f"no {program} (package {package})")
            done()


_spex = spex


def spex(command, *args, **kw):
    return _spex(command, *(ENGINE if command in ("record", "stat", "whatif") else []), *args, **kw)


def build(name, *flags, output=None):
    source = next(p for p in (os.path.join(HERE, "programs", name + e) for e in (".c", ".S"))
                  if os.path.exists(p))
    out = os.path.join(WORK, output or name)
    code, _, err = run(CC, "-O1", "-g", "-o", out, source, *flags)
    if code:
        check(f"build {name}", False, err)
        done()
    return out


def record(*args, name="perf.data", **kw):
    """spex record into WORK/name: (exit code, stdout, stderr, path)."""
    path = os.path.join(WORK, name)
    for old in (path, path + ".old", path + ".truth"):
        if os.path.exists(old):
            os.unlink(old)
    model = [] if "--truth" in args else MODEL  # which counts everything
    return (*spex("record", *model, "-o", path, *args, **kw), path)


def packets(path):
    """One dict per record, from perf's own dump: pc, va, op, ev, lat, ..."""
    code, out, err = run("perf", "report", "-D", "-i", path)
    records, current = [], {}
    for line in out.decode(errors="replace").splitlines():
        m = re.match(r"\.  [0-9a-f]{8}: .{49}(.*)", line)
        if not m:
            continue
        text = m.group(1).strip()
        if text.startswith("PC "):
            current["pc"] = int(text.split()[1], 16)
        elif text.startswith("VA "):
            current["va"] = int(text.split()[1], 16)
        elif text.startswith("TGT "):
            current["target"] = int(text.split()[1], 16)
        elif text.startswith(("LD", "ST", "OTHER", "B")):
            current["op"] = text
        elif text.startswith("EV"):
            current["ev"] = text.split()[1:]
        elif text.startswith("LAT") and text.endswith("TOT"):
            current["total"] = int(text.split()[1])
        elif text.startswith("CONTEXT"):
            current["context"] = int(text.split()[1], 16)
        elif text.startswith("TS "):
            current["ts"] = int(text.split()[1])
            records.append(current)
            current = {}
    return records


def events(path, kind):
    """Lines of perf's dump for one kind of record, PERF_RECORD_FORK for instance."""
    code, out, err = run("perf", "report", "-D", "-i", path)
    return [l for l in out.decode(errors="replace").splitlines() if f"PERF_RECORD_{kind}" in l]


def counts(err):
    """Names and numbers of spex stat's table."""
    return {m.group(2): int(m.group(1).replace(",", ""))
            for m in re.finditer(r"^ *([0-9,]+)  (\S+)", err, re.M)}


def verified(path):
    code, out, err = spex("verify", path)
    return code == 0, (out.decode()[-500:] + err)


def symbols(program):
    """Addresses of the program's symbols, as linked."""
    code, out, _ = run("aarch64-linux-gnu-nm", program)
    return {f[2]: int(f[0], 16)
            for f in (l.split() for l in out.decode().splitlines()) if len(f) == 3}
