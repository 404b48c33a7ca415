"""Breaks the code on purpose, one place at a time; a test must notice.

Two kinds of mutants:
  rows   src/wire/*.def: each fixed bit of each row flipped, each event at another bit
  sites  spec/mutants.tsv: requirement ids or "-", file, the function or table that the text stands
         in, text, replacement; white space in the text does not count, so formatting breaks nothing

A row mutant dies if any test fails; one that the compiler refuses proves nothing about tests and is
not counted. A site mutant must compile, and must make a test fail that marks each of its ids ("-":
any test); an id whose marked tests all pass is reported even if another test fails.

Each worker has a copy of the tree and a build directory below build-mutate. For a mutant it builds
what the next test program needs, runs it, and stops as soon as the mutant is noticed: programs that
mark its ids first, then the module's own suites, each in order of the time it took on the sound
code. Survivors meet all other suites. Usage:
  mutate.py [--only TEXT] [--jobs N] [--list]
"""
import argparse
import collections
import concurrent.futures
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
WORK = os.path.join(ROOT, "build-mutate")
ROW_FILES = ["src/wire/packets.def", "src/wire/ops.def", "src/wire/events.def"]
# What notices a change in src/<module>.
SUITES = {"wire": ["wire", "record"], "record": ["record", "wire", "cli"],
          "spu": ["spu", "spu-proof"], "perfdata": ["perfdata", "analysis"],
          "analysis": ["analysis"]}
WIDE = ["base", "arch", "wire", "record", "spu", "spu-proof", "perfdata", "analysis", "cli"]
# They compile the sources once more by themselves, look at sources only, or need an engine.
EXCLUDED_SUITES = {"system"}
EXCLUDED = {"races", "cross", "layers", "format", "install"}


class Mutant:
    def __init__(self, file, line, old, new, ids=(), row=False, at=None):
        self.file, self.line, self.old, self.new, self.ids, self.row = file, line, old, new, ids, row
        self.at = at  # offset of the old text in the file

    def __str__(self):
        old, new = (" ".join(t.split())[:72] for t in (self.old, self.new))
        return f"{self.file}:{self.line}: {old} -> {new}"


def row_mutants():
    for file in ROW_FILES:
        at = 0
        for number, line in enumerate(open(os.path.join(ROOT, file)), 1):
            start, at = at, at + len(line)
            if line.startswith("EVENT("):
                new = re.sub(r"\d+", lambda m: str(int(m.group()) + 32), line, count=1)
                yield Mutant(file, number, line, new, row=True, at=start)
            elif re.match(r"[A-Z_0-9]+\(", line):
                for bit in re.finditer(r"(?<=[ ,(])[01](?=\s*,)", line):
                    new = line[:bit.start()] + "10"[int(bit.group())] + line[bit.end():]
                    yield Mutant(file, number, line, new, row=True, at=start)


def pattern(text):
    """Finds the text however it is laid out."""
    return re.compile(r"\s*".join(map(re.escape, re.findall(r"\w+|[^\w\s]", text))))


def definitions(text):
    """(position, name) of what is defined at the left margin: functions, tables, macros."""
    found = re.finditer(r"^(?:#define\s+(\w+)|[A-Za-z_][^\n;]*?(\w+)(?:\[[^\n]*)?\s*[({=].*)$", text, re.M)
    return [(m.start(), m.group(1) or m.group(2)) for m in found]


def home(text, position):
    """The definition that a position belongs to."""
    return [name for start, name in definitions(text) if start <= position][-1:] or ["-"]


def site_mutants():
    for number, entry in enumerate(open(os.path.join(ROOT, "spec", "mutants.tsv")), 1):
        if number == 1:
            continue
        ids, file, where, old, new = (c.replace("\\n", "\n") for c in entry.rstrip("\n").split("\t"))
        text = open(os.path.join(ROOT, file)).read()
        hits = [m for m in pattern(old).finditer(text) if home(text, m.start())[0] == where]
        if len(hits) != 1 or old == new:
            sys.exit(f"spec/mutants.tsv:{number}: '{old}' stands {len(hits)} times in {where} of {file}; "
                     "it must stand there once, and be changed")
        at = hits[0].start()
        yield Mutant(file, text[:at].count("\n") + 1, hits[0].group(), new,
                     [i for i in ids.split() if i != "-"], at=at)


class Program:
    """A test program as meson knows it; names and paths are the same in every build directory."""

    def __init__(self, build, entry, targets):
        self.name, self.command, self.env = entry["name"], entry["cmd"], entry["env"]
        self.suites = {s.split(":")[-1] for s in entry["suite"]}
        self.files = [os.path.relpath(f, build) for t in entry["depends"] for f in targets[t]]


class Tree:
    """A copy of the tracked files with a build directory of its own."""

    def __init__(self, name):
        self.copy, self.build, self.tmp = (os.path.join(WORK, name, d) for d in ("tree", "build", "tmp"))
        tracked = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split("\n")
        tracked = {name for name in tracked if name and os.path.exists(os.path.join(ROOT, name))}
        for folder, _, names in os.walk(self.copy):
            for name in names:
                if os.path.relpath(os.path.join(folder, name), self.copy) not in tracked:
                    os.unlink(os.path.join(folder, name))
        for name in tracked:
            # What an interrupted run left broken is written anew, so that ninja sees it change.
            source, target = os.path.join(ROOT, name), os.path.join(self.copy, name)
            data = open(source, "rb").read()
            if not os.path.exists(target) or open(target, "rb").read() != data:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                open(target, "wb").write(data)
                shutil.copymode(source, target)
        if not os.path.exists(os.path.join(self.build, "build.ninja")):
            subprocess.check_call(["meson", "setup", self.build, self.copy, "-Doptimization=1",
                                   "-Ddebug=false"], stdout=subprocess.DEVNULL)
        self.make(["build.ninja"])
        shutil.rmtree(self.tmp, ignore_errors=True)
        os.makedirs(self.tmp)
        targets = {t["id"]: t["filename"] for t in self.introspect("targets")}
        self.programs = {p.name: p for p in (Program(self.build, e, targets)
                                             for e in self.introspect("tests"))
                         if p.suites & set(WIDE) and not p.suites & EXCLUDED_SUITES
                         and p.name not in EXCLUDED}

    def introspect(self, what):
        return json.loads(subprocess.check_output(["meson", "introspect", f"--{what}", self.build]))

    def make(self, files):
        return subprocess.run(["ninja", "-j2", "-C", self.build, *files], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0

    def run(self, name, limit):
        """The tests of one program and its seconds."""
        p, start = self.programs[name], time.time()
        child = subprocess.Popen(p.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 stdin=subprocess.DEVNULL, cwd=self.build, start_new_session=True,
                                 env={**os.environ, **p.env, "TMPDIR": self.tmp, "MALLOC_PERTURB_": "165"})
        try:
            out, _ = child.communicate(timeout=limit)
            result = {0: "OK", 77: "SKIP"}.get(child.returncode, "FAIL")
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, _ = child.communicate()
            result = "TIMEOUT"
        return tap.parse(name, out.decode(errors="replace"), result), time.time() - start


class Baseline:
    """What the tests say about the sound code: how long each program takes, who marks which id."""

    def __init__(self, tree, jobs):
        self.seconds, self.marked, self.failed = {}, collections.defaultdict(set), []
        names = sorted(tree.programs)
        if not tree.make(sorted({f for n in names for f in tree.programs[n].files})):
            sys.exit("the code does not compile before any change; mend that first")
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for tests, seconds in pool.map(lambda n: tree.run(n, 300), names):
                self.seconds[tests[0].program] = seconds
                for t in tests:
                    if not t.ok:
                        self.failed.append(f"{t.program}: {t.name}")
                    for ident in t.marks:
                        self.marked[ident].add((t.program, t.name))

    def order(self, tree, m):
        """Programs in the order in which they meet the mutant, each with those ids it marks."""
        own = set(SUITES[m.file.split("/")[1]])
        rows = []
        for name, p in tree.programs.items():
            ids = {i for i in m.ids if name in {program for program, _ in self.marked.get(i, ())}}
            rows.append((0 if ids else 1 if p.suites & own else 2, self.seconds[name], name, ids))
        return [row[2:] for row in sorted(rows)]


def meet(tree, base, m):
    """(True if noticed, None if it is no mutant, words) for one mutant."""
    path = os.path.join(tree.copy, m.file)
    original = open(path).read()
    open(path, "w").write(original[:m.at] + m.new + original[m.at + len(m.old):])
    failed, alive = set(), set(m.ids)
    try:
        for name, ids in base.order(tree, m):
            if failed and not ids & alive:
                continue  # it is noticed; only tests that mark what is left can say more
            if not tree.make(tree.programs[name].files):
                return None if m.row else False, "refused by the compiler"
            tests, _ = tree.run(name, 20 + 5 * base.seconds[name])
            failed |= {(t.program, t.name) for t in tests if not t.ok}
            alive = {i for i in alive if not base.marked.get(i, set()) & failed}
    finally:
        open(path, "w").write(original)
    if not failed:
        return False, "SURVIVED"
    who = ", ".join(sorted({program for program, _ in failed}))
    if alive:
        return False, f"NOT NOTICED BY A TEST OF {' '.join(sorted(alive))} (but by {who})"
    return True, f"noticed by {who}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="mutants whose file, ids or text contain this")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (2)")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    mutants = [m for m in [*site_mutants(), *row_mutants()]
               if args.only in f"{m} {' '.join(m.ids)}"]
    if args.list:
        print("\n".join(map(str, mutants)))
        return 0
    start = time.time()
    trees = queue.SimpleQueue()
    for number in range(args.jobs):
        trees.put(Tree(str(number)))
    tree = trees.get()
    base = Baseline(tree, args.jobs)
    trees.put(tree)
    if base.failed:
        print("the tests fail before any change; mend that first:", *base.failed, sep="\n   ")
        return 1
    print(f"{len(base.seconds)} test programs pass on the sound code "
          f"({time.time() - start:.0f} s)", flush=True)

    def one(m):
        tree, began = trees.get(), time.time()
        try:
            return m, *meet(tree, base, m), time.time() - began
        finally:
            trees.put(tree)

    survived, refused = [], 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for number, (m, noticed, words, seconds) in enumerate(pool.map(one, mutants), 1):
            print(f"[{number}/{len(mutants)}] {seconds:4.1f} s  {words}: {m}", flush=True)
            refused += noticed is None
            if noticed is False:
                survived.append(f"{words}: {m}")
    counted = len(mutants) - refused
    print(f"{counted - len(survived)} of {counted} mutants were noticed, {refused} more do not compile "
          f"and are not counted, {time.time() - start:.0f} s")
    for text in survived:
        print(f"   {text}")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
