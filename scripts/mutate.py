"""Breaks the code on purpose, one place at a time; the tests that mark the rule must notice.

Two kinds of mutants:
  rows   every row of the bit tables (src/wire/packets.def, src/wire/ops.def): one fixed bit flipped
  sites  spec/mutants.tsv: requirement ids, file, text, replacement

A row mutant dies if any test fails (or the code no longer compiles: a wrong row that the compiler
refuses is the best kind). A site mutant must make a test fail that marks each of its ids; ids whose
marked tests all still pass are reported. Works on a copy in build-mutate. Usage:
  mutate.py [--only TEXT] [--list]
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
WORK = os.path.join(ROOT, "build-mutate")
COPY, BUILD = os.path.join(WORK, "tree"), os.path.join(WORK, "build")
ROW_FILES = {"src/wire/packets.def": ["wire", "record"], "src/wire/ops.def": ["wire", "record"],
             "src/wire/events.def": ["wire", "record"]}
SUITES = ["base", "wire", "arch", "record", "spu", "spu-proof"]


class Mutant:
    def __init__(self, file, line, old, new, ids=(), suites=SUITES):
        self.file, self.line, self.old, self.new, self.ids, self.suites = file, line, old, new, ids, suites

    def __str__(self):
        return f"{self.file}:{self.line}: {self.old.strip()[:70]} -> {self.new.strip()[:70]}"


def row_mutants():
    for file, suites in ROW_FILES.items():
        path = os.path.join(ROOT, file)
        for number, line in enumerate(open(path), 1) if os.path.exists(path) else ():
            if not re.match(r"[A-Z_0-9]+\(", line) or line.startswith("#"):
                continue
            bits = list(re.finditer(r"(?<=[ ,(])[01](?=\s*,)", line))
            for m in bits[:8]:
                new = line[:m.start()] + "10"[int(m.group())] + line[m.end():]
                yield Mutant(file, number, line, new, (), suites)
                break  # one bit a row: the rows are many and alike


def site_mutants():
    path = os.path.join(ROOT, "spec", "mutants.tsv")
    for entry in list(open(path))[1:] if os.path.exists(path) else ():
        ids, file, old, new = (c.replace("\\n", "\n") for c in entry.rstrip("\n").split("\t"))
        text = open(os.path.join(ROOT, file)).read()
        if text.count(old) != 1:
            print(f"spec/mutants.tsv: '{old}' stands {text.count(old)} times in {file}, not once")
            sys.exit(1)
        yield Mutant(file, text[:text.index(old)].count("\n") + 1, old, new, ids.split(), SUITES)


def sh(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run_tests(suites, programs=()):
    """Test results after a build, of these programs or of whole suites; None if it does not compile."""
    if sh("ninja", "-C", BUILD).returncode:
        return None
    chosen = programs or [f"--suite={s}" for s in suites]
    subprocess.run(["meson", "test", "-C", BUILD, "--no-rebuild", "--timeout-multiplier=3", *chosen],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return tap.tests(BUILD)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="mutants whose file, ids or text contain this")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    mutants = [m for m in [*site_mutants(), *row_mutants()]
               if args.only in f"{m} {' '.join(m.ids)}"]
    if args.list:
        print("\n".join(map(str, mutants)))
        return 0
    shutil.rmtree(COPY, ignore_errors=True)
    os.makedirs(COPY)
    files = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split("\n")
    for name in filter(None, files):
        target = os.path.join(COPY, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(os.path.join(ROOT, name), target)
    if not os.path.exists(os.path.join(BUILD, "build.ninja")):
        subprocess.check_call(["meson", "setup", BUILD, COPY, "--buildtype=debugoptimized"],
                              stdout=subprocess.DEVNULL)
    before = run_tests(SUITES)
    if before is None or any(not t.ok for t in before):
        print("the tests fail before any change; mend that first")
        return 1
    marked = {}
    for t in before:
        for ident in t.marks:
            marked.setdefault(ident, set()).add((t.program, t.name))
    survived, killed = [], 0
    for number, m in enumerate(mutants, 1):
        path = os.path.join(COPY, m.file)
        original = open(path).read()
        open(path, "w").write(original.replace(m.old, m.new, 1))
        after = run_tests(m.suites, sorted({p for i in m.ids for p, _ in marked.get(i, ())}))
        open(path, "w").write(original)
        if after is None:
            verdict = "refused by the compiler"
        else:
            failed = {(t.program, t.name) for t in after if not t.ok}
            alive = [i for i in m.ids if not marked.get(i, set()) & failed]
            if not failed or alive:
                verdict = "SURVIVED" + (" for " + " ".join(alive) if alive else "")
                survived.append(f"{m}{' for ' + ' '.join(alive) if alive else ''}")
            else:
                verdict = f"noticed by {len(failed)} tests"
        killed += "SURVIVED" not in verdict
        print(f"[{number}/{len(mutants)}] {verdict}: {m}", flush=True)
    print(f"{killed} of {len(mutants)} mutants were noticed")
    for text in survived:
        print(f"   survived: {text}")
    return 1 if survived else 0


sys.exit(main())
