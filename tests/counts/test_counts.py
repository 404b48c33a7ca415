"""Instructions per record of the hot paths, by callgrind, against counts.tsv with a 10% band.

Counts repeat where times do not, as long as compiler and machine are of the kind that counts.tsv
names; elsewhere the test is skipped. A path that got faster must be written down too, or the gain
could be lost unseen: run this file with --update after a change that is meant. Each count is
the difference of two lengths of input, so that start-up and learning cancel out.
valgrind has no AVX-512: what is counted is the AVX2 code.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "counts.tsv")
COUNTED = os.path.join(BUILD, "tests/counts/paths")
MAKE = os.path.join(BUILD, "tests/analysis/make_profile")
PROG = os.path.join(BUILD, "tests/analysis/prog")
RECORDS = 4000
PATHS = ["decode-n1-loads", "decode-n1-mixed", "decode-two-orders", "decode-hisi",
         "decode-variable", "spu-sample", "model-full", "model-sampled"]
# FILE.spe has generated records, no two alike; FILE.data a small program, as profiles are, long
# enough for every row of every table to be there in the shorter one.
COMMANDS = [
    ("verify", "verify --threads 1 --raw --features neoverse-n1 FILE.spe"),
    ("dump-perf", "dump --threads 1 --style perf FILE.data"),
    ("dump-perf-7", "dump --threads 1 --style perf-7 FILE.data"),
    ("dump-spex", "dump --threads 1 --style spex FILE.data"),
    ("dump-json", "dump --threads 1 --format json FILE.data"),
    ("script", "script --threads 1 -i FILE.data"),
    ("script-itrace", "script --threads 1 --itrace=i1i -i FILE.data"),
    ("script-json", "script --threads 1 --format json -i FILE.data"),
    ("script-csv", "script --threads 1 --format csv -i FILE.data"),
    ("report", "report --threads 1 -i FILE.data"),
    ("report-two-keys", "report --threads 1 --sort pid,symbol -i FILE.data"),
    ("mem", "mem --threads 1 -i FILE.data"),
    ("c2c", "c2c --threads 1 -i FILE.data"),
    ("branch", "branch --threads 1 -i FILE.data"),
    ("diff", "diff --threads 1 FILE.data FILE.data"),
    ("html", "html --threads 1 -i FILE.data -o page.html"),
    ("parquet", "export --threads 1 --to parquet -i FILE.data -o rows.parquet"),
]


def instructions(work, *command, toggle=None):
    args = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    if toggle:
        args.append(f"--toggle-collect={toggle}")
    code, out, err = run(*args, *command, env={"NO_COLOR": "1", "HOME": work}, cwd=work)
    m = re.search(r"Collected : (\d+)", err)
    return int(m.group(1)) if m and code == 0 else None


def measure(work):
    for name in PATHS:
        n = 5 * RECORDS  # by then the decoder has learnt the shapes of records
        counts = [instructions(work, COUNTED, name, m, toggle="path_run") for m in (n, 2 * n)]
        yield name, None if None in counts else (counts[1] - counts[0]) / n
    files = [f"{work}/{n}" for n in (4 * RECORDS, 5 * RECORDS)]
    for f in files:
        n = os.path.basename(f)
        spex("generate", "--seed", 7, "--records", n, "--features", "neoverse-n1", "--layout", "n1",
             "--align", 6, "-o", f + ".spe")
        subprocess.run([MAKE, "mixed-n1-near", f + ".data", PROG, n], check=True)
    for name, words in COMMANDS:
        counts = [instructions(work, SPEX, *words.replace("FILE", f).split()) for f in files]
        yield name, None if None in counts else (counts[1] - counts[0]) / RECORDS


def main():
    toolchain = run(COUNTED, "toolchain")[1].decode().strip()
    lines = open(TABLE).read().splitlines()
    update = "--update" in sys.argv
    if not shutil.which("valgrind") or not os.path.exists(PROG):
        skip("instruction counts", "no valgrind, or no cross compiler")
        done()
    if not update and lines[0] != f"# {toolchain}":
        skip("instruction counts", f"counts.tsv is of {lines[0][2:]}, this is {toolchain}",
             machine=True)
        done()
    with tempfile.TemporaryDirectory() as work:
        found = dict(measure(work))
    if update:
        failed = [n for n, c in found.items() if not c]
        if failed:
            sys.exit(f"not written, these could not be counted: {' '.join(failed)}")
        with open(TABLE, "w") as f:
            f.write(f"# {toolchain}\npath\tinstructions per record\n")
            f.write("".join(f"{n}\t{c:.1f}\n" for n, c in found.items()))
        return
    kept = dict(l.split("\t") for l in lines[2:])
    for name, count in found.items():
        want = float(kept.get(name, 0))
        check(f"{name}: instructions per record",
              count is not None and abs(count - want) <= 0.1 * want,
              f"{count} measured, {want} kept in tests/counts/counts.tsv; if it is meant, run "
              "tests/counts/test_counts.py --update")
    done()


main()
