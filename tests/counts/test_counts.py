"""Instructions per record of the hot paths, by callgrind, against counts.tsv with a 10% band.

Counts repeat where times do not. A path that got faster must be written down too: run with
--update after a change that is meant. Paths inside the library are counted alone; commands by the
difference of two files, so that start-up cancels out.
"""
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "counts.tsv")
RECORDS = 4000
PATHS = ["decode-n1-loads", "decode-n1-mixed", "decode-variable", "spu-sample"]
COMMANDS = [
    ("dump-perf", "dump --raw --style perf"),
    ("dump-json", "dump --raw --format json"),
    ("verify", "verify --raw --features neoverse-n1"),
    ("script", "script --raw -i"),
    ("script-json", "script --raw --format json -i"),
    ("report", "report --raw -i"),
    ("mem", "mem --raw -i"),
]


def instructions(*command, toggle=None):
    args = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    if toggle:
        args.append(f"--toggle-collect={toggle}")
    code, out, err = run(*args, *command, env={"NO_COLOR": "1"})
    m = re.search(r"Collected : (\d+)", err)
    return int(m.group(1)) if m and code == 0 else None


def measure(work):
    for name in PATHS:
        count = instructions(os.path.join(BUILD, "tests/counts/paths"), name, RECORDS, toggle="path_run")
        yield name, count and count / RECORDS
    files = []
    for n in (RECORDS, 2 * RECORDS):
        files.append(os.path.join(work, f"{n}.spe"))
        spex("generate", "--seed", 7, "--records", n, "--features", "neoverse-n1", "--layout", "n1",
             "--align", 6, "-o", files[-1])
    for name, words in COMMANDS:
        counts = [instructions(SPEX, *words.split(), f) for f in files]
        yield name, None if None in counts else (counts[1] - counts[0]) / RECORDS


def main():
    if not shutil.which("valgrind"):
        skip("instruction counts", "no valgrind")
        done()
    kept = {}
    if os.path.exists(TABLE):
        kept = dict(l.rstrip("\n").split("\t")[:2] for l in list(open(TABLE))[1:])
    with tempfile.TemporaryDirectory() as work:
        found = dict(measure(work))
    if "--update" in sys.argv:
        with open(TABLE, "w") as f:
            f.write("path\tinstructions per record\n")
            f.write("".join(f"{n}\t{c:.1f}\n" for n, c in found.items() if c))
        return
    for name, count in found.items():
        want = float(kept.get(name, 0))
        check(f"{name}: instructions per record", count is not None and abs(count - want) <= 0.1 * want,
              f"{count} measured, {want} kept in tests/counts/counts.tsv; if it is meant, run "
              "tests/counts/test_counts.py --update")
    done()


main()
