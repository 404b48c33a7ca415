"""Call stacks of record --stacks, as perf shows them, against paths that
the program itself logs."""
import glob
import json
import signal
import subprocess
import time

from guest import *

need_engine("call stacks")
if not shutil.which("aarch64-linux-gnu-g++"):
    skip("call stacks", "no aarch64-linux-gnu-g++ (package g++-aarch64-linux-gnu)")
    done()


def build_paths(name, *flags):
    """Without frame pointers; calls of the library are bound when they are made."""
    program, library = os.path.join(WORK, name), os.path.join(WORK, "libpaths.so")
    source = os.path.join(HERE, "programs", "paths")
    for command in (["aarch64-linux-gnu-g++", "-O2", "-g", "-fomit-frame-pointer",
                     "-Wno-array-bounds", *flags, "-o", program,
                     source + ".cc", "-pthread", "-ldl"],
                    [CC, "-O2", "-fomit-frame-pointer", "-shared", "-fPIC", "-Wl,-z,lazy", "-o",
                     library, source + "_library.c"]):
        code, _, err = run(*command)
        if code:
            check("build paths", False, err)
            done()
    return program, library


def perf_stacks(path):
    """By (tid, time): a list of stacks, each a list of (address, name), innermost first."""
    code, out, err = run("perf", "script", "-i", path, "-F", "tid,time,event,ip,sym", "--ns",
                         "--itrace=")
    stacks, current = {}, None
    for line in out.decode(errors="replace").splitlines():
        m = re.match(r"\s*(\d+)\s+(\d+)\.(\d+):", line)
        if m:
            current = []
            if "spe-stacks" in line:  # and not the callers of elapsed time
                stacks.setdefault((int(m[1]), int(m[2]) * 10**9 + int(m[3])), []).append(current)
        elif line.strip():
            f = line.split()
            current.append((int(f[0], 16), f[1]))
    return stacks


def called(stacks):
    """perf names a caller by the address that the call returns to, which lies after the function if
    it never returns. This names it by the call."""
    rows = [l.split() for l in run("aarch64-linux-gnu-nm", "-S", program)[1].decode().splitlines()]
    ends = {int(r[0], 16) + int(r[1], 16): r[3] for r in rows if len(r) == 4}

    def name(i, at, given):
        return ends.get(at, given) if i else given
    return {k: [[(a, name(i, a, n)) for i, (a, n) in enumerate(s)] for s in l]
            for k, l in stacks.items()}


def records(path):
    """(tid, time, pc, data address or None) of each."""
    code, out, err = spex("script", "-i", path, "--format", "csv", "-F", "tid,time,pc,va")
    rows = [l.split(",") for l in out.decode().splitlines()[1:]]
    return [(int(r[0]), int(r[1]), int(r[2], 16), int(r[3], 16) if r[3] else None) for r in rows]


def compare(rows, stacks, output):
    """(right, wrong, examples): stacks of stores to a path's own words, by names
    that begin with step_."""
    paths = {int(l.split()[0], 16) + 8 * i: l.split()[1:] for l in output.splitlines()
             for i in range(8)}
    right, wrong = 0, []
    for tid, when, pc, va in rows:
        want = paths.get(va) if va else None
        if not want:
            continue
        stack = next(s for s in stacks[tid, when] if s[0][0] & 0xfff == pc & 0xfff)
        names = [name for _, name in stack if name.startswith("step_")]
        if names == want:
            right += 1
        else:
            wrong.append((tid, when, names, want))
    return right, len(wrong), wrong[:2]


signed, _ = build_paths("signed", "-march=armv8.3-a", "-mbranch-protection=standard")
check("return addresses are signed", b"retaa" in run("aarch64-linux-gnu-objdump", "-d", signed)[1])
program, library = build_paths("paths")
STORES = "arm_spe/store_filter=1,jitter=1/"
for model, threads, rounds, alarm in (("sampled", 64, 1, 700), ("none", 64, 1, 0),
                                      ("full", 64, 1, 700), ("signed", 4, 8, 0)):
    what = f"{model}, {threads} threads{', a signal each ' + str(alarm) + ' us' if alarm else ''}"
    how = ["--qemu-cpu", "max", "--",
           signed] if model == "signed" else ["--model", model, "--", program]
    code, out, err, path = record("-g", "-e", STORES, "-c", 256, *how, threads, rounds, library,
                                  alarm)
    equal(f"{what}: status", code, 0)
    rows, stacks = records(path), perf_stacks(path)
    equal(f"{what}: each record has a stack at its time, and begins it",
          [r for r in rows
           if not any(s[0][0] & 0xfff == r[2] & 0xfff for s in stacks.get(r[:2], []))], [])
    equal(f"{what}: as many stacks as records", sum(map(len, stacks.values())), len(rows))
    right, wrong, some = compare(rows, stacks, out.decode())
    check(f"{what}: 99.9% of stacks are those that the program logs",
          right > (3000 if threads > 4 else 300) and wrong <= right // 1000,
          (right, wrong, some))
    said = {m[1]: m[0] for m in re.findall(r"([0-9,]+) call stacks (are deeper|may lack)", err)}
    check(f"{what}: no stack was cut", "are deeper" not in said, err)

# one process, one thread, no time: the same bytes
paths = [record("-g", "-c", 1024, "--", program, 0, 2, library, name=n)[3] for n in ("one", "two")]
check("the same program gives the same bytes",
      open(paths[0], "rb").read() == open(paths[1], "rb").read())
code, out, err = run("perf", "report", "-i", paths[0], "--stdio", "-g", "caller", "--no-children")
check("perf report shows callers", code == 0 and b"---_start" in out and b"spe-stacks" in out,
      out[:500])
code, out, err = run("perf", "report", "-D", "-i", paths[0])
check("perf reads the SPE records beside them", b"ARM SPE" in out and b"corrupt" not in out.lower(),
      err)

# what spex makes of them: the same as perf, joined with the record
code, out, err = spex("script", "-i", paths[0], "--format", "csv", "-F", "tid,time,pc,callers")
rows, theirs = [l.split(",", 3)
                for l in out.decode().splitlines()[1:]], called(perf_stacks(paths[0]))
ours = [(int(r[0]), int(r[1]), [n for n in r[3].strip('"').split(" < ") if n.startswith("step_")])
        for r in rows]
want = [(t, w, [n for _, n in s[1:] if n.startswith("step_")]) for (t, w), l in theirs.items()
        for s in l]
equal("script -F callers: those that perf shows", sorted(ours), sorted(want))
check("there are many", len(rows) > 500, len(rows))
several = record("-g", "-c", 1024, "--", program, 8, 1, library, name="several")[3]
answers = {spex("script", "-i", several, "--format", "csv", "-F", "tid,time,pc,callers",
                "--threads", n)[:2] for n in (1, 2, *[8] * 20)}
check("script: threads that read queues side by side give the same stacks",
      len(answers) == 1 and answers.pop()[0] == 0, [a[0] for a in answers])


def calls(path, *args):
    code, out, err = spex("report", "-g", "-i", path, "--format", "json", *args)
    return json.loads(out)["functions"] if code == 0 else err


def totals(theirs):
    """Samples in a function and below it; between two functions: by perf's stacks."""
    total, edges = {}, {}
    for stacks in theirs.values():
        for s in stacks:
            names = [n for _, n in s]
            for n in set(names):
                total[n] = total.get(n, 0) + 1
            for pair in set(zip(names[1:], names)):
                edges[pair] = edges.get(pair, 0) + 1
    return total, edges


total, edges = totals(theirs)
table = calls(paths[0])
steps = {r["symbol"]: r["total_samples"] for r in table if r["kind"] == "function" and
         r["symbol"].startswith("step_")}
equal("report -g: samples in functions and below them", steps,
      {n: c for n, c in total.items() if n.startswith("step_")})


def between(kind, *ends):
    """Two files may have a function of the same name: ld.so and libc have some."""
    sums = {}
    for r in table:
        if r["kind"] == kind:
            pair = tuple(r[e] for e in ends)
            sums[pair] = sums.get(pair, 0) + r["total_samples"]
    return sums


found = between("caller", "symbol", "of")
step_edges = {p: n for p, n in edges.items() if p[0].startswith("step_") and
              p[1].startswith("step_")}
equal("report -g: samples of calls between them",
      {p: n for p, n in found.items() if p in step_edges}, step_edges)
equal("report -g: callees are callers seen from the other end",
      between("callee", "of", "symbol"), found)
equal("report -g: what is in the functions is all",
      sum(r["self_samples"] for r in table if r["kind"] == "function"), len(rows))
code, out, err = spex("report", "-i", paths[0], "--sort", "symbol,caller", "--format", "json")
leaf = {r["caller"]: r["samples"] for r in json.loads(out)["rows"] if r["symbol"] == "step_leaf"}
direct = {}
for stacks in theirs.values():
    for s in stacks:
        if s[0][1] == "step_leaf":
            direct[s[1][1]] = direct.get(s[1][1], 0) + 1
equal("--sort symbol,caller", {n: c for n, c in leaf.items() if n.startswith("step_")},
      {n: c for n, c in direct.items() if n.startswith("step_")})
code, out, err = spex("annotate", "-i", paths[0], "step_leaf", "--format", "json")
equal("annotate: callers", {r["symbol"]: r["samples"] for r in json.loads(out)["callers"]}, leaf)
code, out, err = spex("annotate", "-i", paths[0], "step_leaf")
check("annotate says who calls", b"# called by step_" in out, out[:300])
code, out, err = spex("export", "--to", "collapsed", "-i", paths[0])
folded = {}
for line in out.decode().splitlines():
    stack, n = line.rsplit(" ", 1)
    names = tuple(f for f in stack.split(";") if f.startswith("step_"))
    folded[names] = folded.get(names, 0) + int(n)
want = {}
for stacks in theirs.values():
    for s in stacks:
        names = tuple(n for _, n in reversed(s) if n.startswith("step_"))
        want[names] = want.get(names, 0) + 1
equal("export --to collapsed: the same stacks", folded, want)

# the stacks of another event: as many samples of a function have a caller as that event says
companion = os.path.join(WORK, "companion")
with open(companion, "wb") as f:
    f.write(open(paths[0], "rb").read().replace(b"spe-stacks:u", b"cycles:u\0\0\0\0"))
code, out, err = spex("report", "-g", "-i", companion)
check("a companion's stacks are said to be a sample of their own",
      code == 0 and b"a second event, cycles:u: " in out, out[:300])
guess = {r["symbol"]: r["total_samples"] for r in calls(companion) if r["kind"] == "function"}
check("its proportions are kept",
      all(abs(guess.get(n, 0) - c) <= 4 * c ** 0.5 + 1 for n, c in steps.items()),
      [(n, guess.get(n), c) for n, c in steps.items()])
code, out, err = spex("script", "-i", companion, "-F", "pc,callers", "--format", "csv")
check("no record gets one of them as its own", not any(b"<" in l for l in out.splitlines()),
      out[:300])
plain = record("-c", 4096, "--", program, 0, 1, library, name="plain")[3]
code, out, err = spex("report", "-g", "-i", plain)
check("without stacks report -g says how to get them", code == 1 and "spex record -g" in err, err)

# no deeper than the room there is
deep = os.path.join(WORK, "deep")
with open(deep + ".c", "w") as f:
    f.write("""
    __attribute__((noinline)) long down(long n, volatile long *sum)
    {
        if (n) {
            long more = down(n - 1, sum);
            for (int i = 0; i < 3; i++)
                *sum += i;
            return more + 1;
        }
        return 0;
    }
    int main(int argc, char **argv)
    {
        volatile long sum = 0;
        return down(200000, &sum) != 200000;
    }
    """)
code, _, err = run(CC, "-O1", "-g", "-fomit-frame-pointer", "-o", deep, deep + ".c")
code, _, err, path = record("-g", "-c", 16384, "--", deep)
check("200,000 calls deep: ends well and says what was cut", code == 0 and
      re.search(r"call stacks are deeper than 510 frames: the middle is left out", err), err)
code, out, err = run("perf", "script", "-i", path, "-F", "ip,sym", "--itrace=", "--max-stack",
                     "2000")
rows = [p.split("\n") for p in out.decode().split("\n\n") if p.count("down") > 400]
check("their ends are there: as many as a record can hold, down to _start", len(rows) > 100 and
      all("_start" in r[-1] and len(r) < 520 for r in rows), (len(rows), rows[0][-3:]))

# what is lost when the guest is killed: one stack in flight
victim = os.path.join(WORK, "victim")
process = subprocess.Popen([SPEX, "record", "-g", "-m", ",8K", "-c", "4096", "-o", victim, "--",
                            program, "2", "100000", library],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
while not any(os.path.getsize(f) > 100000 for f in glob.glob(victim + ".run-*/data")):
    time.sleep(0.05)  # the guest runs
guests = run("pgrep", "-P", process.pid)[1].decode().split()
for pid in guests:
    os.kill(int(pid), signal.SIGKILL)
process.communicate()
kept = records(victim)
found = perf_stacks(victim)
missing = [r for r in kept if not found.get(r[:2])]
check("the guest is killed: its stacks are kept", len(kept) > 100 and len(missing) <= 10,
      (len(kept), len(missing)))
done()
