"""A program is recorded, exported, and given to the tools that annotate or optimize it."""
import collections, re
from feeds import *

HOT = f"{DIR}/hot"
code, _, err = run("aarch64-linux-gnu-gcc", "-g", "-gdwarf-4", "-O1", "-static", "-Wl,-q", "-o",
                   HOT, f"{EXPORT}/hot.c")
check("the program is built", code == 0, err)
for name, cpu in (("n1", "neoverse-n1"), ("pbt", "neoverse-v2,pbt")):
    code, out, err = spex("record", "-q", "--truth", "-c", "256", "--cpu", cpu, "-o",
                          f"{DIR}/{name}.data", HOT, cwd=DIR)
    check(f"recorded as {cpu}", code == 0, err)
OUTPUT = out

# ---- what optimizers need of the records ----
lines = [json.loads(l) for l in spex("script", "-i", "n1.data", "--format", "json", "-F",
                                     "pc,target,events", "--op", "branch", cwd=DIR)[1].splitlines()]
idle = [r for r in lines if "not-taken" in r["events"]]
check("a branch that is not taken has the next instruction as its target, as on silicon",
      len(idle) > 100 and all(int(r["target"], 16) == int(r["pc"], 16) + 4 for r in idle), idle[:3])

# ---- call stacks ----
code, out, err = spex("record", "-q", "-g", "-c", "256", "-o", f"{DIR}/stacks.data", HOT,
                      cwd=DIR)
check("recorded with stacks", code == 0, err)
for to in ("collapsed", "speedscope", "firefox", "pprof"):
    code, err = export(to, "stacks.data", out=f"stacks.{to}", symbols=False)
    check(f"{to} of a profile with stacks", code == 0, err)
want = collections.Counter()
for line in open(f"{DIR}/stacks.collapsed"):
    stack, n = line.rsplit(" ", 1)
    want[tuple(stack.split(";")[1:])] += int(n)
depth = [s.index("work") - s.index("main") for s in want if "work" in s and "main" in s]
check("work is called by main in nearly all of them", set(depth) == {1} and
      sum(n for s, n in want.items() if "main" in s) > 0.95 * sum(want.values()),
      want.most_common(5))
d, got = json.load(open(f"{DIR}/stacks.speedscope")), collections.Counter()
for p in d["profiles"]:
    for stack, n in zip(p["samples"], p["weights"]):
        got[tuple(d["shared"]["frames"][i]["name"] for i in stack)] += n
equal("speedscope has the stacks of collapsed", got, want)
got = collections.Counter()
for t in json.load(open(f"{DIR}/stacks.firefox"))["threads"]:
    stacks, frames, functions = t["stackTable"], t["frameTable"], t["funcTable"]
    for stack, n in zip(t["samples"]["stack"], t["samples"]["weight"]):
        where = []
        while stack is not None:
            where.insert(
                0, t["stringArray"][functions["name"][frames["func"][stacks["frame"][stack]]]])
            stack = stacks["prefix"][stack]
        got[tuple(where)] += n
equal("firefox has them", got, want)
go = tool("go") and os.path.dirname(os.path.dirname(os.path.realpath(tool("go"))))
if not go or not os.path.exists(f"{go}/bin/go"):
    later("go tool pprof has them", "check-feeds")
else:
    env = {"GOROOT": go, "HOME": DIR, "PPROF_TMPDIR": DIR, "GOFLAGS": "", "GOCACHE": f"{DIR}/go"}
    code, out, err = run(f"{go}/bin/go", "tool", "pprof", "-top", "-sample_index=samples",
                         "-nodecount=1000000", "-nodefraction=0", "stacks.pprof", env=env, cwd=DIR)
    total = {row.split()[-1]: int(row.split()[3]) for row in out.decode().splitlines()
             if re.match(r" +\d+ +[\d.]+% +[\d.]+% +\d+ ", row)}
    equal("go tool pprof: samples of main and what it calls",
          {s: total.get(s) for s in ("main", "work")},
          {s: sum(n for stack, n in want.items() if s in stack) for s in ("main", "work")})

# ---- exact counts ----
truth = [[int(x, 0) for x in l.split()] for l in open(f"{DIR}/n1.data.truth") if l[0] != "#"]
sums = [sum(r[i] for r in truth) for i in range(2, 10)]
for to, program in (("callgrind", "callgrind_annotate"), ("cachegrind", "cg_annotate")):
    code, err = export(to, "n1.data", symbols=False)
    lines = open(f"{DIR}/out.{to}").read().splitlines()
    equal(f"{to}: sums are those of the file of exact counts",
          [[int(x) for x in l.split()[1:]] for l in lines if l.startswith("summary:")], [sums])
    per = [0] * 8
    for l in lines:
        if re.match(r"(0x[0-9a-f]+ )?\d+( \d+){8}$", l):
            per = [a + int(b) for a, b in zip(per, l.split()[-8:])]
    equal(f"{to}: and so are the rows", per, sums)
    if not shutil.which(program):
        skip(f"{program} reads it", "no valgrind")
        continue
    code, out, err = run(program, "out." + to, cwd=DIR)
    text = out.decode()
    check(f"{program} reads it without a warning",
          code == 0 and not re.search("warn|error|unknown|malformed",
                                      err + text.split("Auto-annotated")[0], re.I),
          err + text[:300])
    check(f"{program} has the total and the function",
          re.search(rf"^{sums[0]:,}.*PROGRAM TOTALS", text, re.M) and
          re.search(r"hot.c:work", text), text[:2000])
code, err = export("callgrind", profile("mixed", 100), out="none")
check("without exact counts callgrind says how to get them",
      code == 1 and "--truth" in err and not os.path.exists(f"{DIR}/none"), err)

# ---- BOLT ----
for name in ("n1", "pbt"):
    export("bolt", f"{name}.data", out=f"{name}.bolt", symbols=False)
    if not tool("perf2bolt-22") or not tool("llvm-bolt-22"):
        later(f"BOLT takes {name}", "check-feeds")
        continue
    code, out, err = use("perf2bolt-22", "-pa", "-p", f"{name}.bolt", "-o", f"{name}.fdata", HOT)
    said = out.decode() + err
    # in functions whose branches it cannot follow
    odd = re.search(r"mismatching disassembled function contents: \d+ \(([\d.]+)%\)", said)
    check(f"perf2bolt takes {name}", code == 0 and odd and float(odd.group(1)) < 1 and
          re.search(r"out of range traces involving unknown regions: 0", said),
          said[:1200] + open(f"{DIR}/{name}.bolt").read())
    code, out, err = use("llvm-bolt-22", HOT, "-o", f"{DIR}/{name}.bolted", "-data",
                         f"{name}.fdata", "-reorder-blocks=ext-tsp", "-reorder-functions=hfsort")
    said = out.decode() + err
    check(f"llvm-bolt optimizes with {name}", code == 0 and "modified layout" in said, said)
    gap = re.search(r"CFG flow conservation gap [\d.]+% \(weighted\) ([\d.]+)% \(worst\)", said)
    check(f"flow is conserved in {name}", gap and float(gap.group(1)) < 10, said)
    equal(f"the program of {name} does what it did", run("qemu-aarch64", f"{DIR}/{name}.bolted")[1],
          OUTPUT)

# ---- perf2bolt on the profile itself: it asks perf, 6.15 or newer, which Debian 12 has not ----
PERF = os.path.join(BUILD.removesuffix("-asan"), "perf7")
if LONG:
    run(f"{SOURCE}/scripts/perf7-setup", PERF, timeout=600)
if not LONG or not tool("perf2bolt-22") or not os.path.exists(f"{PERF}/perf"):
    later("perf2bolt --spe takes the profile", "check-feeds")
else:
    code, out, err = use("perf2bolt-22", "--spe", "-p", "n1.data", "-o", "spe.fdata", HOT,
                         env={"PATH": f"{PERF}:{os.environ['PATH']}"})
    said = out.decode() + err
    check("perf2bolt --spe takes the profile", code == 0 and os.path.exists(f"{DIR}/spe.fdata"),
          said)

    def branches(name):
        """{(function, offset, function, offset): count} of an fdata file."""
        rows = [l.split() for l in open(f"{DIR}/{name}.fdata")]
        return {(r[1], r[2], r[4], r[5]): int(r[7]) for r in rows if len(r) == 8}
    ours, theirs = branches("n1"), branches("spe")
    check("and finds the branches that --to bolt has, as often",
          sum(n >= 20 for n in theirs.values()) >= 4 and
          all(ours.get(k) == n for k, n in theirs.items()),
          "\n".join(f"{k} {ours.get(k)} {theirs.get(k)}" for k in sorted(set(ours) | set(theirs))))
    code, out, err = use("llvm-bolt-22", HOT, "-o", f"{DIR}/spe.bolted", "-data", "spe.fdata",
                         "-reorder-blocks=ext-tsp", "-reorder-functions=hfsort")
    said = out.decode() + err
    check("llvm-bolt optimizes with it", code == 0 and "modified layout" in said, said)
    equal("and the program does what it did", run("qemu-aarch64", f"{DIR}/spe.bolted")[1], OUTPUT)

# ---- branch stacks as text ----
def stacks(text):
    """[(from, to, mispredicted, cycles, previous target)] of what perf script -F ip,brstack says
    of taken branches."""
    rows = []
    for line in text.splitlines():
        words = [w.split("/") for w in line.split()[1:]]
        if "MMAP" not in line and len(words[0]) > 5 and "N" not in words[0][2]:
            rows.append((words[0][0], words[0][1], words[0][2] == "M", int(words[0][5]),
                         words[1][1] if len(words) > 1 else None))
    return rows


for name in ("n1", "pbt"):
    code, err = export("brstack", f"{name}.data", out=f"{name}.brstack", symbols=False)
    check(f"brstack of {name}: it says if there are no runs", code == 0 and
          ("no previous branch target" in err) == (name == "n1"), err)
    rows = [json.loads(l) for l in spex("script", "-i", f"{name}.data", "--format", "json", "-F",
                                        "pc,target,events,latency,prev_target", "--op", "branch",
                                        cwd=DIR)[1].splitlines()]
    want = [(r["pc"], r["target"], "mispredicted" in r["events"], r["latency"],
             r.get("prev_target")) for r in rows if "not-taken" not in r["events"]]
    text = open(f"{DIR}/{name}.brstack").read()
    check(f"brstack of {name}: every taken branch, in order", len(want) > 1000 and
          stacks(text) == want, f"{stacks(text)[:3]} {want[:3]}")
    check(f"brstack of {name}: where the program is mapped",
          re.search(rf"^PERF_RECORD_MMAP2 \d+/\d+: \[0x400000\(0x\w+\) @ 0x0 .*\]: r-xp "
                    rf"{re.escape(os.path.realpath(HOT))}$", text, re.M), text[:500])
    if not LONG or not os.path.exists(f"{PERF}/perf"):
        later(f"perf 7 prints the branch stacks of {name}", "check-feeds")
    else:
        code, out, err = run(f"{PERF}/perf", "script", "--itrace=bl", "-F", "ip,brstack", "-i",
                             f"{name}.data", cwd=DIR)
        equal(f"perf 7 prints the branch stacks of {name}", collections.Counter(stacks(text)),
              collections.Counter(stacks(out.decode())))

# ---- LLVM's and gcc's sample profiles ----
for name in ("n1", "pbt"):
    export("profgen", f"{name}.data", out=f"{name}.profgen", symbols=False)
    if not tool("llvm-profgen-22"):
        later(f"llvm-profgen takes {name}", "check-feeds")
        continue
    code, out, err = use("llvm-profgen-22", "--binary=hot",
                         f"--unsymbolized-profile={name}.profgen", f"--output={name}.prof",
                         "--format=text")
    text = open(f"{DIR}/{name}.prof").read() if os.path.exists(f"{DIR}/{name}.prof") else ""
    check(f"llvm-profgen takes {name}: work is hottest, next is inlined",
          code == 0 and text.startswith("work:") and " next:" in text, err + text[:300])
    if name == "pbt":  # without previous targets branch stacks have no runs
        code, out, err = use("llvm-profgen-22", "--binary=hot", "--perfscript=pbt.brstack",
                             "--output=brstack.prof", "--format=text")
        equal("llvm-profgen makes the same profile of branch stacks", code == 0 and
              open(f"{DIR}/brstack.prof").read(), text)
    code, out, err = use("llvm-profdata-22", "merge", "--sample", f"{name}.prof", "-o",
                         f"{name}.profdata")
    check(f"llvm-profdata merges {name}", code == 0, err)


def sample_profile(text):
    """{(functions from the outermost, line): count} of an LLVM sample profile."""
    out, path = {}, []
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip(" "))
        if m := re.fullmatch(r" *(?:([\d.]+): )?([A-Za-z_]\w*(?:\.\w+)*):(\d+)(?::\d+)?", line):
            path = path[:depth] + [(m.group(1), m.group(2))]
        elif m := re.fullmatch(r" +([\d.]+): (\d+).*", line):
            out[tuple(path[:depth]), m.group(1)] = int(m.group(2))
    return out


for name in ("n1", "pbt"):
    export("llvm", f"{name}.data", out=f"{name}.llvm", symbols=False)
    text = open(f"{DIR}/{name}.llvm").read()
    ours = sample_profile(text)
    check(f"llvm of {name}: work is hottest, next is inlined",
          text.startswith("work:") and " next:" in text, text[:300])
    for version in ("14", "22"):
        if not tool(f"llvm-profdata-{version}"):
            later(f"llvm-profdata {version} merges it", "check-feeds")
            continue
        code, out, err = use(f"llvm-profdata-{version}", "merge", "--sample", f"{name}.llvm", "-o",
                             f"{name}.{version}.profdata")
        check(f"llvm-profdata {version} merges it", code == 0 and not err, err)
    if os.path.exists(f"{DIR}/{name}.prof"):
        theirs = sample_profile(open(f"{DIR}/{name}.prof").read())
        work = {k: v for k, v in theirs.items() if k[0][0][1] == "work"}
        equal(f"llvm of {name}: lines of work are as llvm-profgen has them",
              {k: v for k, v in ours.items() if k[0][0][1] == "work"}, work)
    if shutil.which("clang"):
        args = ["--target=aarch64-linux-gnu", "-O2", "-g", f"-fprofile-sample-use={name}.llvm",
                "-S", "-emit-llvm", "-o", "-", f"{EXPORT}/hot.c"]
        code, out, err = run("clang", *args, cwd=DIR)
        check(f"clang takes llvm of {name}: work has an entry count and weights", code == 0 and
              b"branch_weights" in out and b"function_entry_count" in out, err + out.decode()[:300])
    else:
        skip("clang takes it", "no clang")
export("autofdo", "pbt.data", out="pbt.autofdo", symbols=False)
if not tool("create_gcov") or not tool("dump_gcov"):
    later("create_gcov takes it", "check-feeds")
else:
    code, out, err = use("create_gcov", f"--binary={HOT}", "--profiler=text",
                         "--profile=pbt.autofdo", "--gcov=pbt.gcov", "--gcov_version=2")
    code, out, err = use("dump_gcov", "--gcov_version=2", "pbt.gcov")
    check("create_gcov takes it: work is hottest, next is inlined", code == 0 and
          out.startswith(b"work total:") and b" next total:" in out, err + out.decode()[:300])
done()
