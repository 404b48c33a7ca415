"""spex check: programs that are cross-built, their baselines, and what it says of them."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../guest"))
import guest
from guest import *

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
# 0.1% of the cycles of work.c, as iterations of its EXTRA
ONE_TENTH = 22


def compile_c(name, *flags, directory="", compiler=CC, output=None):
    """Builds a program of ours in a directory of its own below WORK."""
    where = os.path.join(WORK, directory)
    os.makedirs(where, exist_ok=True)
    out = os.path.join(where, output or name.split(".")[0])
    code, _, err = run(compiler, "-O2", "-g", "-o", out, os.path.join(PROGRAMS, name), *flags,
                       cwd=where)
    if code:
        check(f"build {name}", False, err)
        done()
    return out


def perf_check(*args, **kw):
    """(exit code, standard output, standard error)"""
    code, out, err = guest.spex("check", *args, **kw)
    return code, out.decode(errors="replace"), err


def changes(baseline, *args, **kw):
    """The benchmarks of the report as JSON, by name."""
    code, out, err = perf_check("--format", "json", "--baseline", baseline, *args, **kw)
    try:
        report = json.loads(out)
    except ValueError:
        return code, {}, out + err
    return code, {b["name"]: b for b in report["benchmarks"]}, err
