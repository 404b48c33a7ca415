"""spex check: verdicts, blame, baselines, suites, and the world that a benchmark sees."""
import shutil
import xml.etree.ElementTree as xml

from check import *

need_engine("check")
BASE = os.path.join(WORK, "base.json")


def write(name, text):
    path = os.path.join(WORK, name)
    with open(path, "w") as f:
        f.write(text)
    return path


# ---- a baseline, and the same again ----
work = compile_c("work.c", "-static")
code, out, err = perf_check("--", work, cwd=WORK)
check("no baseline: counted, and said how to make one",
      code == 0 and "cycles" in out and "--update" in err and not os.path.exists(BASE), out + err)
code, out, err = perf_check("--baseline", BASE, "--", work)
check("a baseline that was named is missing", code == 1 and "no such baseline" in err, out + err)
code, out, err = perf_check("--baseline", BASE, "--update", "--", work)
first = open(BASE).read() if os.path.exists(BASE) else "{}"
check("--update writes it", code == 0 and json.loads(first).get("schema") == "spex.baseline.1",
      err)
check("and keeps nothing beside it", not os.path.exists(BASE + ".old"))
code, out, err = perf_check("--baseline", BASE, "--update", "--", work)
check("again: the same bytes, and still nothing beside it",
      code == 0 and open(BASE).read() == first and not os.path.exists(BASE + ".old"), err)
code, seen, err = changes(BASE, "--threshold", "0", "--", work)
check("the same program: the same cycles", code == 0 and seen["work"]["change"] == 0 and
      seen["work"]["before"] == seen["work"]["after"], err)

# ---- regressions of 0.5, 1 and 5%, in one function ----
for percent in (0.5, 1, 5):
    slow = compile_c("work.c", "-static", f"-DEXTRA={int(percent * 10 * ONE_TENTH)}",
                     directory=f"slow{percent}")
    code, seen, err = changes(BASE, "--threshold", f"{percent * 0.8}%", "--", slow)
    work_row = seen.get("work", {})
    blame = (work_row.get("functions") or [{}])[0]
    check(f"{percent}% more: exit status 1, and how much it is",
          code == 1 and abs(100 * work_row["change"] / percent - 1) < 0.1, (code, work_row, err))
    check(f"{percent}% more: the function and its lines",
          blame.get("function") == "polish" and
          abs(blame["cycles"] / (work_row["change"] * work_row["before"]["cycles"]) - 1) < 0.05 and
          blame["lines"] and blame["lines"][0]["file"] == "work.c", work_row)
    code, out, err = perf_check("--threshold", f"{percent * 1.2}%", "--baseline", BASE, "--", slow)
    check(f"{percent}% more, and the threshold above it: exit status 0",
          code == 0 and "no benchmark is slower" in out, out + err)
code, out, err = perf_check("--baseline", BASE, "--", slow)
check("text: the benchmark, the function, the line",
      code == 1 and re.search(r"slower.*\n.*polish\n +work\.c:\d+ \+[\d,]+", out, re.S), out)
code, out, err = perf_check("--baseline", BASE, "--format", "markdown", "--", slow)
check("markdown", code == 1 and "| work | " in out and "**slower**" in out and
      re.search(r"\| polish \| work\\?\.c:", out), out)
code, out, err = perf_check("--baseline", BASE, "--format", "junit", "--", slow)
suite = xml.fromstring(out).find("testsuite")
check("junit", code == 1 and suite.get("failures") == "1" and
      "polish" in suite.find("testcase/failure").text, out)
code, seen, err = changes(BASE, "--update", "--", slow)
check("--update after a regression: exit status 0", code == 0 and
      seen["work"]["verdict"] == "slower" and open(BASE).read() != first, err)
code, seen, err = changes(BASE, "--", work)
check("and back: faster, which is no failure",
      code == 0 and seen["work"]["verdict"] == "faster", seen)
write("base.json", first)

# ---- changes that mean nothing ----
LONG = {f"VARIABLE_{i}": "x" * 200 for i in range(20)}
nothing = {
    "a renamed function": (compile_c("work.c", "-static", "-DPOLISH=shine", directory="renamed"),
                           {}),
    "another build directory": (
        compile_c("work.c", "-static", directory="another/and/much/longer/build/directory"), {}),
    "a longer environment": (work, {"env": LONG}),
    "another directory": (os.path.join("..", os.path.basename(WORK), "work"), {"cwd": WORK}),
}
for name, (program, how) in nothing.items():
    code, seen, err = changes(BASE, "--threshold", "0.1%", "--", program, **how)
    check(f"{name}: less than 0.1%", code == 0 and seen.get("work", {}).get("verdict") == "same",
          (code, seen, err))

# ---- layouts ----
code, seen, err = changes(BASE, "--repeat", "3", "--", work)
row = seen["work"]["after"]
check("--repeat: the median lies between the least and the most, which differ",
      code == 0 and row["layouts"] == 3 and
      row["cycles_low"] <= row["cycles"] <= row["cycles_high"] and
      row["cycles_low"] < row["cycles_high"], row)
check("--repeat: the same layouts each time",
      changes(BASE, "--repeat", "3", "--", work)[1]["work"]["after"] == row)
layouts = os.path.join(WORK, "layouts.json")
perf_check("--baseline", layouts, "--update", "--repeat", "3", "--", work)
base = json.load(open(layouts))
row = base["benchmarks"][0]
row["cycles_low"], row["cycles_high"] = row["cycles"] * 9 // 10, row["cycles"] * 11 // 10
write("layouts.json", json.dumps(base))
code, seen, err = changes(layouts, "--threshold", "1%", "--repeat", "3", "--", slow)
check("beyond the threshold, and no more than layouts make: no failure",
      code == 0 and seen["work"]["verdict"] == "within layouts", (code, seen))

# ---- what a benchmark sees ----
world = compile_c("world.c")
code, out, err = perf_check("--env", "A=1", "--", world, "show", env=LONG)
seen = dict(line.split(" ", 1) for line in err.splitlines() if " " in line)
check("the environment is what was named, and no path is known",
      re.findall(r"^(?:arg|env|file) .*", err, re.M) ==
      ["arg world", "arg show", "env A=1", "file /proc/self/fd/100"], err)
again = perf_check("--env", "A=1", "--", world, "show", env={"B": "2"}, cwd="/")[2]
same = re.findall("(?:random|chance|stack) .*", err)
check("stack, heap, AT_RANDOM and getrandom are the same elsewhere",
      len(same) == 3 and re.findall("(?:random|chance|stack) .*", again) == same, (again, err))
chance = seen.get("chance", "0 0").split()
check("getrandom: other bytes each time it is called, and with another seed",
      chance[0] != chance[1] and
      chance[0] not in perf_check("--seed", "2", "--", world, "show")[2], err)
check("a benchmark that fails is no result", code == 1 and
      "world show ended with status 1" in err, err)
code, out, err = perf_check("--repeat", "4", "--", world, "show")
places = re.findall(r"stack (\w+) heap (\w+)", err)
check("layouts: stack and heap lie elsewhere in each",
      len({s for s, _ in places}) == 4 and len({h for _, h in places}) == 4, err)

# ---- suites ----
write("input.txt", "one\ntwo\n")
shutil.copy(work, os.path.join(WORK, "two words"))
suite = write("suite.toml", """# benchmarks
threshold = "0.5%"
[work]
command = ["./work"]
[words]
command = ['./two words']
cpu = ["neoverse-n1", "neoverse-v2"]   # each for itself
[part]
command = "./world quiet"
input = "input.txt"
start_at = "begin"
stop_at = "end"
env = [
    "A=1",
    "B=two words",  # a comma at the end
]
""")
code, out, err = perf_check(suite, "--update")
base = json.load(open(os.path.join(WORK, "suite.json")))["benchmarks"]
equal("a suite: a result for each benchmark and CPU", [(b["name"], b["cpu"]) for b in base],
      [("work", "neoverse-n1"), ("words", "neoverse-n1"), ("words", "neoverse-v2"),
       ("part", "neoverse-n1")])
part = {f["name"]: f["instructions"] for f in base[3]["functions"]}
whole = json.loads(perf_check("--format", "json", "--", world, "quiet")[1])["benchmarks"][0]
check("regions: between the marker functions alone",
      "inside" in part and 0.9 * whole["after"]["instructions"] > 3 * part["inside"] * 0.9 and
      sum(part.values()) < part["inside"] * 1.01, (part, whole["after"]))
check("CPUs have numbers of their own", base[1]["model"] != base[2]["model"] and
      base[1]["cycles"] != base[2]["cycles"])
code, out, err = perf_check(suite, "part")
check("one benchmark of a suite", code == 0 and "part" in out and "words" not in out, out + err)
code, out, err = perf_check(suite, "part", "--update")
check("--update of one keeps the others",
      len(json.load(open(os.path.join(WORK, "suite.json")))["benchmarks"]) == 4, err)
shorter = write("shorter.toml", '[work]\ncommand = ["./work"]\n[new]\ncommand = ["./work"]\n')
code, out, err = perf_check("--baseline", os.path.join(WORK, "suite.json"), shorter)
check("a benchmark that is new, some that are gone", code == 0 and
      "1 not in it yet" in out and "3 of the baseline are gone" in out, out + err)
for name, text, says in (
        ("no command", "[a]\n", "there is no command for a"),
        ("nothing", "# nothing\n", "there is no benchmark"),
        ("a key", "[a]\ncomand = ['x']\n", "did you mean command"),
        ("a key that is none", "[a]\nzzzzzzzz = 'x'\n", "unknown key zzzzzzzz"),
        ("no value", "[a]\ncommand =\n", ":2: a value is"),
        ("no end", "[a]\ncommand = 'x\n", "no end"),
        ("no bracket", "[a]\ncommand = ['x'\n'y']\n", "a comma or ]"),
        ("twice", "[a]\ncommand='x'\n[a]\ncommand='y'\n", "a second benchmark"),
        ("threshold", "threshold = 'x'\n[a]\ncommand='y'\n", "threshold is a percentage"),
        ("repeat", "repeat = 0\n[a]\ncommand='y'\n", "repeat is a number"),
        ("command above", "command = 'x'\n", "below the [name]"),
        ("more", "[a] b\n", "something follows"),
        ("escape", '[a]\ncommand = "\\q"\n', "an escape"),
        ("CPU", "[a]\ncommand = ['./work']\ncpu = 'x'\n", "a: "),
        ("program", "[a]\ncommand = ['./nothing']\n", "nothing"),
        ("input", "[a]\ncommand = ['./work']\ninput = 'nothing'\n", "nothing: No such file"),
        ("marker", "[a]\ncommand = ['./work']\nstart_at = 'nothing'\n", "no function nothing")):
    code, out, err = perf_check(write("wrong.toml", text))
    check(f"suite: {name}", code == 2 and says in err, (code, out, err))
code, out, err = perf_check(suite, "nothing")
check("suite: no such benchmark", code == 2 and "no benchmark nothing" in err, err)

# ---- baselines that cannot be used ----
full = json.loads(first)


def changed(**members):
    return json.dumps({**full, **members})


def benchmark(**members):
    return changed(benchmarks=[{**full["benchmarks"][0], **members}])


for name, text, says in (
        ("newer", changed(schema="spex.baseline.2"), "of a newer spex"),
        ("of another kind", changed(schema="spex.report.1"), "of another kind of file"),
        ("any JSON", '{"a": 1}', "names no schema"),
        ("no JSON", "cycles: 1\n", "line 1"),
        ("empty", "", "line 1"),
        ("cut", first[:len(first) // 2], "line "),
        ("a conflict of git", first.replace(' "spex"', "<<<<<<< HEAD\n \"spex\"", 1), "line 2"),
        ("no list", changed(benchmarks=1), "benchmarks are missing"),
        ("no counts", benchmark(cycles=-1), "a number is missing"),
        ("a function cut", benchmark(functions=[{"name": "f"}]), "a function is not whole"),
        ("twice", changed(benchmarks=full["benchmarks"] * 2), "comes twice")):
    path = write("wrong.json", text)
    code, out, err = perf_check("--baseline", path, "--", work)
    check(f"baseline: {name}", code == 1 and path in err and says in err and not out, out + err)
    check(f"baseline: {name}: --update does not write over it",
          perf_check("--baseline", path, "--update", "--", work)[0] == 1 and
          open(path).read() == text)
code, seen, err = changes(write("wrong.json", benchmark(model="0")), "--", work)
check("baseline: of another model: not compared", code == 0 and
      seen["work"]["verdict"] == "other model", seen)
code, seen, err = changes(write("wrong.json", changed(spex="1.0.0")), "--", work)
check("baseline: of another version: a note", code == 0 and "is of spex 1.0.0" in err, err)
code, seen, err = changes(BASE, "--model", "l2.latency=20", "--", work)
check("--model: another model", seen and seen["work"]["verdict"] == "other model", (seen, err))

# ---- usage ----
for args, says in ((["--threshold", "x", "--", work], "not a percentage"),
                   (["--repeat", "0", "--", work], "1 to 64"), ([], "no program and no suite"),
                   (["--cpu", "x", "--", work], "work"),
                   (["--", os.path.join(WORK, "nothing")], "nothing: No such file")):
    code, out, err = perf_check(*args)
    check(f"usage: {args[:2]}", code == 2 and says in err, err)
done()
