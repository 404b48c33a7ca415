"""Breaks the code on purpose, one place at a time; a test must notice.

Two kinds of mutants:
  rows   packets.def, ops.def: each fixed bit of each row flipped;
         events.def: each event at another bit
  sites  spec/mutants.tsv: requirement ids or "-", file, the function or table that the text stands
         in, text, replacement; white space in the text does not count, so formatting breaks nothing

A row mutant dies if any test fails; one that the compiler refuses proves nothing about tests and is
not counted. A site mutant must compile, and must make a test fail that marks each of its ids ("-":
any test); an id whose marked tests all pass is reported even if another test fails. In the end each
mark must have earned its place: a test that marks an id must notice at least one mutant of that id.

The tests are built once, from a copy of the tree below build-mutate, and linked with one
shared library that holds all modules. For a mutant a worker compiles the files that see it,
links a library of its own and runs the test programs that mark the mutant's ids (if none
notices, the module's own suites, then all others). Files that were changed last come first,
mutants without an id last. build-mutate/report.tsv says for each mutant who noticed; --resume takes
from it what an interrupted run of the same tree found out. Usage:
  mutate.py [--only TEXT] [--ids ID...] [--all | --marked] [--jobs N] [--resume] [--list]
"""
import argparse
import collections
import concurrent.futures
import glob
import hashlib
import json
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
WORK = os.path.join(ROOT, "build-mutate")
ROW_FILES = ["src/wire/packets.def", "src/wire/ops.def", "include/spex/events.def"]
# What notices a change in src/<module>.
SUITES = {"wire": ["wire", "record"], "record": ["record", "wire", "cli"], "arch": ["arch", "spu"],
          "spu": ["spu", "spu-proof"], "perfdata": ["perfdata", "analysis"],
          "analysis": ["analysis"], "guest": ["guest"], "a64": ["a64"], "uarch": ["uarch"]}
WIDE = ["base", "arch", "wire", "record", "spu", "spu-proof", "a64", "guest", "uarch", "perfdata",
        "analysis", "cli"]
# They compile the sources once more by themselves, look at sources only, or need an engine.
EXCLUDED_SUITES = {"system"}
EXCLUDED = {"races", "cross", "layers", "format", "words", "docs", "install", "abi", "uarch-doc"}
# They mark nothing and take long: asked only about a mutant that nobody else has noticed.
LAST_SUITES = {"perfdata", "analysis", "cli"}
LAST = {"variants", "generate", "reading", "verify-cli", "perf-style", "proof-model-1",
        "proof-model-2", "a64"}
LIBRARY = "libmutant.so"
MADE = ".made"  # what ninja made of a program that is linked once more: it comes back before ninja


class Mutant:
    def __init__(self, file, line, old, new, ids=(), row=False, at=None):
        self.file, self.line, self.old, self.new, self.ids, self.row = (file, line, old, new, ids,
                                                                        row)
        self.at = at  # offset of the old text in the file

    def __str__(self):
        old, new = (" ".join(t.split())[:72] for t in (self.old, self.new))
        return f"{self.file}:{self.line}: {old} -> {new}"


def row_mutants():
    for file in ROW_FILES:
        at = 0
        for number, line in enumerate(open(os.path.join(ROOT, file)), 1):
            start, at = at, at + len(line)
            if line.startswith("SPEX_EVENT("):
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
    found = re.finditer(r"^(?:#define\s+(\w+)|"
                        r"(?=[A-Za-z_])(?:[^\n;]*?\W)?(\w+)(?:\[[^\n]*)?\s*[({=].*)$",
                        text, re.M)
    return [(m.start(), m.group(1) or m.group(2)) for m in found]


def home(text, position):
    """The definition that a position belongs to."""
    return [name for start, name in definitions(text) if start <= position][-1:] or ["-"]


def site_mutants():
    lost = []
    for number, entry in enumerate(open(os.path.join(ROOT, "spec", "mutants.tsv")), 1):
        if number == 1:
            continue
        ids, file, where, old, new = (c.replace("\\n", "\n")
                                      for c in entry.rstrip("\n").split("\t"))
        text = open(os.path.join(ROOT, file)).read()
        hits = [m for m in pattern(old).finditer(text) if home(text, m.start())[0] == where]
        if len(hits) != 1 or old == new:
            lost.append(f"spec/mutants.tsv:{number}: '{old}' stands {len(hits)} times in "
                        f"{where} of {file}; "
                        "it must stand there once, and be changed")
            continue
        at = hits[0].start()
        yield Mutant(file, text[:at].count("\n") + 1, hits[0].group(), new,
                     [i for i in ids.split() if i != "-"], at=at)
    if lost:
        sys.exit("\n".join(lost))


def in_order(mutants):
    """By the date of the last commit of their file; those last that any test may notice."""
    command = ["git", "log", "-1", "--format=%ct", "--"]
    dates = {file: int(subprocess.check_output([*command, file], cwd=ROOT) or 0)
             for file in {m.file for m in mutants}}
    return sorted(mutants, key=lambda m: (not m.ids and not m.row, -dates[m.file], m.file,
                                          m.line))


class Report:
    """Who noticed what, a line each, below a digest of the tree and of who was asked."""

    def __init__(self, sound, asked, resume):
        digest, self.known = hashlib.sha256(repr(asked).encode()), {}
        for name in sorted(sound.names):
            digest.update(open(os.path.join(sound.tree, name), "rb").read())
        path, head = os.path.join(WORK, "report.tsv"), f"# {digest.hexdigest()}\n"
        lines = open(path).readlines() if resume and os.path.exists(path) else [""]
        if lines[0] == head:
            lines = [l for l in lines if l.endswith("\n")]
        elif resume:
            print("build-mutate/report.tsv is of another tree: from the beginning", flush=True)
        self.file = open(path, "w")
        self.file.write(head)
        for line in lines[1:] if lines[0] == head else []:
            key, verdict, words, _, _, *failed = line[:-1].split("\t")
            self.known[key] = ({"True": True, "False": False, "None": None}[verdict], words,
                               {tuple(f.split(": ", 1)) for f in failed})
            self.file.write(line)

    @staticmethod
    def key(m):
        return f"{m.file}:{m.at}:{hashlib.sha256(repr((m.ids, m.old, m.new)).encode()).hexdigest()}"

    def add(self, m, verdict, words, failed):
        print(self.key(m), verdict, words, " ".join(m.ids), m,
              *(f"{p}: {n}" for p, n in sorted(failed)), sep="\t", file=self.file, flush=True)


class Program:
    """A test program as meson knows it."""

    def __init__(self, build, entry, targets):
        self.name, self.command, self.env = entry["name"], entry["cmd"], entry["env"]
        self.suites = {s.split(":")[-1] for s in entry["suite"]}
        self.files = [os.path.relpath(f, build) for t in entry["depends"] for f in targets[t]]


def copy_tree(root, names, target):
    """Copies tracked files; one that is the same already keeps its time, so that ninja rests."""
    for folder, _, found in os.walk(target):
        for name in found:
            if os.path.relpath(os.path.join(folder, name), target) not in names:
                os.unlink(os.path.join(folder, name))
    for name in names:
        source, copy = os.path.join(root, name), os.path.join(target, name)
        data = open(source, "rb").read()
        if not os.path.exists(copy) or open(copy, "rb").read() != data:
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            open(copy, "wb").write(data)
            shutil.copymode(source, copy)


class Sound:
    """The tree as it is: built once, its test programs linked with a shared
    library of all modules."""

    def __init__(self):
        self.tree, self.build = os.path.join(WORK, "tree"), os.path.join(WORK, "build")
        names = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split("\n")
        self.names = {n for n in names if n and os.path.exists(os.path.join(ROOT, n))}
        copy_tree(ROOT, self.names, self.tree)
        if not os.path.exists(os.path.join(self.build, "build.ninja")):
            subprocess.check_call(["meson", "setup", self.build, self.tree, "-Doptimization=1",
                                   "-Ddebug=false"], stdout=subprocess.DEVNULL)
        for made in glob.glob(os.path.join(self.build, "**", "*" + MADE), recursive=True):
            os.replace(made, made.removesuffix(MADE))
        self.ninja("build.ninja")
        targets = {t["id"]: t["filename"] for t in self.introspect("targets")}
        programs = [Program(self.build, e, targets) for e in self.introspect("tests")]
        self.programs = {p.name: p for p in programs if p.suites & set(WIDE)
                         and not p.suites & EXCLUDED_SUITES and p.name not in EXCLUDED}
        files = sorted({f for p in self.programs.values() for f in p.files})
        self.ninja(*files)
        self.units, self.objects, self.needs = {}, [], []
        self.read_commands()
        if not self.link(self.build, {}):
            sys.exit("the modules do not link into one library: see Sound.link")
        for file in files:
            self.relink(file)

    def introspect(self, what):
        return json.loads(subprocess.check_output(["meson", "introspect", f"--{what}", self.build]))

    def ninja(self, *what):
        result = subprocess.run(["ninja", "-j2", "-C", self.build, *what], capture_output=True,
                                text=True)
        if result.returncode:
            sys.exit("the code does not compile before any change; mend that first\n" +
                     result.stdout)
        return result.stdout

    def read_commands(self):
        """Objects of the modules' libraries, how each is made, and what each is made from."""
        made = {e["output"]: shlex.split(e["command"])
                for e in json.load(open(os.path.join(self.build, "compile_commands.json")))}
        self.objects = sorted(o for o in made if re.match(r"src/\w+/lib\w+\.a\.p/", o))
        command = shlex.split(self.ninja("-t", "commands", "spex").splitlines()[-1])
        self.needs = [w for w in command if w.startswith("-l") or w.endswith(".so")]
        sources = collections.defaultdict(set)
        for line in self.ninja("-t", "deps").splitlines():
            if not line.startswith(" "):
                now = line.split(":")[0]
            elif line.startswith(("    ../tree/", "    rooms/")):
                path = os.path.realpath(os.path.join(self.build, line.strip()))
                sources[os.path.relpath(path, os.path.realpath(self.tree))].add(now)
        for name, users in sources.items():
            self.units[name] = [(o, made[o]) for o in sorted(users) if o in self.objects]

    def link(self, folder, replaced):
        """The shared library, with other objects for some."""
        objects = [replaced.get(o, os.path.join(self.build, o)) for o in self.objects]
        fast = ["-fuse-ld=lld"] if shutil.which("ld.lld") else []
        return subprocess.run(["gcc", "-shared", *fast, "-o", os.path.join(folder, LIBRARY),
                               "-Wl,-soname," + LIBRARY, "-Wl,-z,defs", *objects, *self.needs],
                              stderr=subprocess.DEVNULL).returncode == 0

    def relink(self, file):
        command = shlex.split(self.ninja("-t", "commands", file).splitlines()[-1])
        if "-o" not in command or command[command.index("-o") + 1] != file or "-c" in command:
            return  # not linked: a script
        static = lambda word: re.fullmatch(r"src/\w+/lib\w+\.a", word)
        if not any(map(static, command)):
            return
        words = [w for w in command if not static(w) and w != "-Wl,--no-undefined"]
        os.rename(os.path.join(self.build, file), os.path.join(self.build, file + MADE))
        subprocess.check_call([*words, LIBRARY], cwd=self.build)

    def run(self, name, limit, library, tmp):
        """The tests of one program and its seconds."""
        p, start = self.programs[name], time.time()
        env = {**os.environ, **p.env, "TMPDIR": tmp, "MALLOC_PERTURB_": "165",
               "LD_LIBRARY_PATH": library}
        child = subprocess.Popen(p.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 stdin=subprocess.DEVNULL, cwd=self.build, start_new_session=True,
                                 env=env)
        try:
            out, _ = child.communicate(timeout=limit)
            result = {0: "OK", 77: "SKIP"}.get(child.returncode, "FAIL")
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, _ = child.communicate()
            result = "TIMEOUT"
        return tap.parse(name, out.decode(errors="replace"), result), time.time() - start


class Worker:
    """A copy of the sources to break, and a library made from it."""

    def __init__(self, sound, number):
        self.sound, self.name = sound, f"w{number}"
        self.folder = os.path.join(WORK, self.name)
        copy_tree(sound.tree, {n for n in sound.names if re.match("(src|include)/", n)},
                  self.folder)
        self.library, self.tmp = (os.path.join(WORK, d + self.name) for d in ("lib-", "tmp-"))
        for folder in (self.library, self.tmp):
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
        # links: scripts/rooms
        for folder, folders, names in os.walk(os.path.join(sound.build, "rooms")):
            own = os.path.join(self.library, os.path.relpath(folder, sound.build))
            os.mkdir(own)
            for name in folders + names:
                path = os.path.join(folder, name)
                if os.path.islink(path):
                    os.symlink(os.readlink(path).replace("../tree/", f"../{self.name}/"),
                               os.path.join(own, name))

    def make(self, m):
        """Compiles what sees the mutant; false if the compiler refuses."""
        path = os.path.join(self.folder, m.file)
        original = open(path).read()
        open(path, "w").write(original[:m.at] + m.new + original[m.at + len(m.old):])
        replaced = {}
        try:
            for target, command in self.sound.units[m.file]:
                replaced[target] = os.path.join(self.library, f"{len(replaced)}.o")
                words = [w.replace("../tree/", f"../{self.name}/").replace(
                    "-Irooms/", f"-I{self.library}/rooms/") for w in command]
                for option in ("-MQ", "-MF"):
                    del words[words.index(option):words.index(option) + 2]
                words.remove("-MD")
                words[words.index("-o") + 1] = replaced[target]
                if subprocess.run([*words, "-w", "-O0"], cwd=self.sound.build,
                                  stderr=subprocess.DEVNULL).returncode:
                    return False
        finally:
            open(path, "w").write(original)
        return self.sound.link(self.library, replaced)

    def run(self, name, limit):
        return self.sound.run(name, limit, self.library, self.tmp)


class Baseline:
    """What the tests say about the sound code: how long each program takes, who marks which id."""

    def __init__(self, sound, jobs):
        self.sound, self.seconds, self.marked, self.failed = (sound, {},
                                                              collections.defaultdict(set), [])
        self.lock, self.tmp = threading.Lock(), os.path.join(WORK, "tmp-sound")
        os.makedirs(self.tmp, exist_ok=True)
        self.last = {n for n, p in sound.programs.items() if p.suites & LAST_SUITES or n in LAST}
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            list(pool.map(self.ask, sorted(set(sound.programs) - self.last)))
        self.marking = {program for tests in self.marked.values() for program, _ in tests}

    def ask(self, name):
        """Seconds of a program on the sound code."""
        with self.lock:
            if name in self.seconds:
                return self.seconds[name]
        tests, seconds = self.sound.run(name, 300, self.sound.build, self.tmp)
        with self.lock:
            self.seconds[name] = seconds
            self.failed += [f"{name}: {t.name}" for t in tests if not t.ok]
            for t in tests:
                if t.marks and name in self.last:
                    sys.exit(f"{name} marks {' '.join(sorted(t.marks))}, but stands in LAST")
                for ident in t.marks:
                    self.marked[ident].add((name, t.name))
        return seconds

    def order(self, m):
        """(rank, program) in the order in which they meet the mutant: 0 marks an
        id of it, 1 own suites."""
        own = set(SUITES.get(m.file.split("/")[1], ["wire", "record"]))
        marking = {program for i in m.ids for program, _ in self.marked.get(i, ())}
        rows = [(0 if name in marking else 1 if p.suites & own else 2, name in self.last,
                 self.seconds.get(name, 0), name) for name, p in self.sound.programs.items()]
        return [(rank, name) for rank, _, _, name in sorted(rows)]


def meet(worker, base, m, everything, marked):
    """(True if noticed, None if it is no mutant, words, tests that failed) for one mutant."""
    failed, alive = set(), set(m.ids)
    if not worker.make(m):
        return None if m.row else False, "refused by the compiler", failed
    for rank, name in base.order(m):
        if rank and (marked or failed) and not (everything and rank == 1 and name in base.marking):
            continue  # it is noticed, and everyone who marks it was asked
        tests, _ = worker.run(name, 8 + 8 * base.ask(name))
        failed |= {(t.program, t.name) for t in tests if not t.ok}
    alive = {i for i in alive if not base.marked.get(i, set()) & failed}
    if not failed:
        return False, "SURVIVED", failed
    who = ", ".join(sorted({program for program, _ in failed}))
    if alive:
        return False, f"NOT NOTICED BY A TEST OF {' '.join(sorted(alive))} (but by {who})", failed
    return True, f"noticed by {who}", failed


def idle_marks(base, ids, noticed):
    """Marks of these ids whose test noticed no mutant of the id."""
    return [f"{ident}: {program}: {name}" for ident in sorted(ids)
            for program, name in sorted(base.marked.get(ident, ()))
            if (program, name) not in noticed[ident]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="mutants whose file, ids or text contain this")
    parser.add_argument("--ids", nargs="+", help="mutants of these ids (a family, SMP, will do)")
    parser.add_argument("--all", action="store_true",
                        help="the module's fast tests all meet each mutant")
    parser.add_argument("--marked", action="store_true",
                        help="only tests that mark a mutant's ids meet it")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (2)")
    parser.add_argument("--resume", action="store_true",
                        help="go on where a run of the same tree was interrupted")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    everyone = in_order([*site_mutants(), *row_mutants()])
    wanted = lambda m: not args.ids or any(i == a or
                                           i.startswith(a + "-") for i in m.ids for a in args.ids)
    mutants = [m for m in everyone if args.only in f"{m} {' '.join(m.ids)}" and wanted(m)]
    if args.list:
        print("\n".join(map(str, mutants)))
        return 0
    start = time.time()
    sound = Sound()
    base = Baseline(sound, args.jobs)
    if base.failed:
        print("the tests fail before any change; mend that first:", *base.failed, sep="\n   ")
        return 1
    print(f"{len(base.seconds)} test programs pass on the sound code "
          f"({time.time() - start:.0f} s)", flush=True)
    report = Report(sound, (args.all, args.marked), args.resume)
    workers = queue.SimpleQueue()
    for number in range(args.jobs):
        workers.put(Worker(sound, number))

    def one(m):
        if Report.key(m) in report.known:
            return m, *report.known[Report.key(m)], None
        worker, began = workers.get(), time.time()
        try:
            return m, *meet(worker, base, m, args.all, args.marked and m.ids), time.time() - began
        finally:
            workers.put(worker)

    survived, refused, noticed = [], 0, collections.defaultdict(set)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for number, (m, ok, words, failed, seconds) in enumerate(pool.map(one, mutants), 1):
            if seconds is not None:
                print(f"[{number}/{len(mutants)}] {seconds:4.1f} s  {words}: {' '.join(m.ids)} {m}",
                      flush=True)
                report.add(m, ok, words, failed)
            refused += ok is None
            if ok is False:
                survived.append(f"{words}: {' '.join(m.ids)} {m}")
            for ident in m.ids:
                noticed[ident] |= failed
    # Marks are judged where every mutant of the id has run.
    left = {i for m in everyone if m not in mutants for i in m.ids}
    idle = idle_marks(base, {i for m in mutants for i in m.ids} - left, noticed)
    counted = len(mutants) - refused
    print(f"{counted - len(survived)} of {counted} mutants were noticed, {refused} "
          "more do not compile "
          f"and are not counted; {len(idle)} marks notice no mutant of their id; "
          f"{time.time() - start:.0f} s")
    for text in survived:
        print(f"   {text}")
    for text in idle:
        print(f"   IDLE MARK {text}")
    return 1 if survived or idle else 0


if __name__ == "__main__":
    sys.exit(main())
