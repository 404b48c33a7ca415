"""examples/profile.c counts what spex report counts, and docs/profile.md quotes it as it is."""
import collections
import re
from common import *

page = open(os.path.join(SOURCE, "docs/profile.md")).read()
source = open(os.path.join(SOURCE, "examples/profile.c")).read()
quoted = re.findall(r"```c\n(.*?)```", page, re.S)
missing = [q for q in quoted if q not in source]
check("docs/profile.md quotes the example as it is", quoted and not missing, "\n".join(missing))
example = os.path.join(BUILD, "examples/profile")
code, out, err = run(example, "none.data", cwd=DIR)
check("a file that is not there", code == 1 and "none.data" in err, err)
file = profile("mixed", 4000)
code, out, err = run(example, file, cwd=DIR, env={"HOME": DIR})
lines = out.decode().splitlines()
mine = sorted((l.split()[1] for l in lines[2:]), key=int, reverse=True)
rows = data("report", file, "--sort", "symbol", "--percent-limit", "0", symbols=False)["rows"]
theirs = sorted((str(r["samples"]) for r in rows), key=int, reverse=True)[:10]
equal("the same samples by symbol as spex report", mine, theirs)
check("all samples", code == 0 and lines[0].startswith("4000 samples"), lines[:1])

# A limit and an allocator: whatever the limit, no byte more is used, and none is lost.
example = os.path.join(BUILD, "examples/bounded")


def bounded(*words):
    """Exit code, rows, the most bytes that were used, bytes that were not given back."""
    code, out, err = run(example, *words, cwd=DIR, env={"HOME": DIR})
    return code, out.decode().splitlines(), *map(int, re.search(
        r"(\d+) bytes at most, (\d+) left", err).groups())


code, mine, most, left = bounded(file)
equal("bounded: the same samples by symbol as spex report",
      (code, left, sorted(int(l.split()[0]) for l in mine)),
      (0, 0, sorted(r["samples"] for r in rows)))
equal("bounded: enough memory", bounded(file, str(2 * most))[:2], (0, mine))
ended = collections.Counter()
for part in range(1, 20):
    code, out, used, left = bounded(file, str(most * part // 20))
    ended[code] += 1
    if code not in (0, 2) or left or used > most * part // 20 + 4096:
        check(f"bounded: with {most * part // 20} bytes", False, (code, used, left))
check("bounded: too little memory is a status", ended[2] > 3 and ended[0] + ended[2] == 19, ended)
code, out, used, left = bounded("none.data")
equal("bounded: a file that is not there", (code, out, left), (1, [], 0))

# The examples in other languages, where there is a compiler for them.
rows = sorted((int(r["tid"]), r["comm"], r["samples"])
              for r in data("report", file, "--sort", "tid,comm", "--percent-limit", "0",
                            symbols=False)["rows"])
for name in ("threads-cpp", "threads-rs"):
    example = os.path.join(BUILD, "examples", name)
    if not os.path.exists(example):
        continue
    code, out, err = run(example, file, cwd=DIR, env={"LD_LIBRARY_PATH": BUILD})
    mine = sorted((int(l[0]), l[1], int(l[2])) for l in map(str.split, out.decode().splitlines()))
    equal(f"{name}: the samples of each thread", mine, rows)
    code, out, err = run(example, "none.data", cwd=DIR, env={"LD_LIBRARY_PATH": BUILD})
    check(f"{name}: a file that is not there", code == 1 and "none.data" in err, (code, err))

# Several sinks in one pass, which four threads share where the file has more queues than one.
file = profile("mixed", 40000, name="wide.data")
code, out, err = run(os.path.join(BUILD, "tests/install/reader"), "threads", file, cwd=DIR)
mine = [l.split("\t") for l in out.decode().splitlines()]
rows = data("report", file, "--sort", "tid", "--percent-limit", "0", symbols=False)["rows"]
equal("tables and a sink of our own, by several threads",
      sorted(map(tuple, mine[:-3])), sorted((str(r["tid"]), str(r["samples"])) for r in rows))
told = dict(mine)
check("each sink had every sample once, in shards",
      told.get("all") == str(sum(r["samples"] for r in rows)) and int(told["shards"]) > 1 and
      0 < int(told["memory"]) < int(told["all"]), (told, err))

# What the profile and its files are.
code, out, err = run(os.path.join(BUILD, "tests/install/reader"), "files", file, "root", cwd=DIR)
told = [l.split("\t") for l in out.decode().splitlines()]
times = [r["time"] for r in records(file) if "time" in r]
equal("the parts of the profile", [l[1:] for l in told if l[0] == "part"], [["wide.data", "40000"]])
first, last = next(map(int, l[1:]) for l in told if l[0] == "extent")
check("its extent covers its samples", 0 < first <= min(times) and max(times) <= last,
      (first, last, min(times), max(times)))
modules = {l[1]: l for l in told if l[0] in ("file", "kernel", "jit", "code", "none")}
equal("the program: its build id, where it was opened, and what of it is loaded",
      modules["/usr/bin/prog"][2:4] + [0 < int(modules["/usr/bin/prog"][4]) <=
                                       os.path.getsize(PROG)],
      ["0123456789abcdef" * 2 + "01234567", "root/usr/bin/prog", True])

# What is found, and lines that threads share.
for scenario in ("false", "mixed"):
    file = profile(scenario, name=f"{scenario}-found.data")
    code, out, err = run(os.path.join(BUILD, "tests/install/reader"), "findings", file, cwd=DIR)
    told = [tuple(l.split("\t")) for l in out.decode().splitlines()]
    shared = {l for l in told if re.match("0x", l[0]) and "." not in l[2]}
    found = [f for f in data("report", file, symbols=False)["findings"]]
    equal(f"{scenario}: the findings of spex report", [l for l in told if l not in shared],
          [(f.get("place") or "", str(f["samples"]), f"{f['share']:.6f}") for f in found])
    lines = data("c2c", file, symbols=False)["lines"]
    equal(f"{scenario}: the lines of spex c2c", shared,
          {(hex(l["address"]) if isinstance(l["address"], int) else l["address"], l["data"],
            str(l["samples"])) for l in lines})
    check("something was told", found or lines or scenario == "mixed", told)
done()
