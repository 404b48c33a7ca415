"""Profiles of servers, with a queue for each of many CPUs: the same text, files, messages and exit
status with one thread and with more than there are CPUs."""
import os, random, subprocess, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

MAKE, PROG = (os.path.join(BUILD, "tests/analysis", n) for n in ("make_profile", "prog"))
rng = random.Random(36)
if not os.path.exists(PROG):
    skip("profiles of servers", "no cross compiler for the program that is profiled")
    done()

ONE = [["report", "--format", "json"], ["report", "--sort", "pc,data-symbol,tid"],
       ["report", "--slices", 3], ["report", "--comm", "worker*", "--time", "20%-60%"],
       ["mem", "--format", "json"], ["mem", "--sort", "page,comm"], ["c2c", "--format", "json"],
       ["branch", "--format", "json"], ["annotate"], ["diff", "t.data"],
       ["html", "-o", "page.html"], ["script", "--format", "csv"],
       ["script", "--itrace=fmtbaMi7i"]]
MANY = [["report", "--sort", "comm,symbol"], ["report", "--op", "load,branch"], ["mem"],
        ["c2c", "--all"], ["script"], ["annotate", "--format", "json"]]


def same(name, files, commands, threads, **options):
    for words in commands:
        def answer(n, words=words):
            command = [*words, "--symfs", "root", *(w for f in files for w in ("-i", f))]
            said = spex(*command, "--threads", n, **options)
            if "-o" not in words:
                return said
            with open(words[-1], "rb") as made:
                return (*said, made.read())

        want = answer(1)
        wrong = [n for n in threads if answer(n) != want]
        check(f"{name}: {' '.join(map(str, words))}: any number of threads",
              not wrong and want[0] in (0, 1), (wrong, want[2][-300:]))


with tempfile.TemporaryDirectory() as d:
    os.makedirs(os.path.join(d, "root/usr/bin"))
    os.symlink(PROG, os.path.join(d, "root/usr/bin/prog"))
    os.chdir(d)
    SCENARIOS = {"s.data": "mixed-n1-near-cpus64", "t.data": "mixed-pa-nocontext-cpus24",
                 "u.data": "lock-cpus5"}
    for file, scenario in SCENARIOS.items():
        subprocess.run([MAKE, scenario, file, PROG, "8000"], check=True)
    data = bytearray(open("s.data", "rb").read())
    for _ in range(300):  # in AUX data mostly
        data[rng.randrange(4096, len(data) - 4096)] ^= 1 << rng.randrange(8)
    open("x.data", "wb").write(data)
    same("64 CPUs", ["s.data"], ONE, (3, 64))
    same("64 CPUs", ["s.data"], MANY, (2, 8, 16))
    same("5 CPUs, a lock", ["u.data"], MANY, (16,))
    same("damaged", ["x.data"], ONE, (16,))
    same("several files", ["s.data", "t.data", "u.data", "x.data"], MANY[:4], (8,))
done()
