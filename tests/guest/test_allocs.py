"""record --allocs against a program that logs its own heap: each sampled use of a block is of the block that it says."""
import json

from guest import *

need_engine("allocations")
os.environ.pop("MALLOC_PERTURB_", None)
CXX = "aarch64-linux-gnu-g++"
if not shutil.which(CXX):
    skip("allocations", f"no {CXX} (package g++-aarch64-linux-gnu)")
    done()


def build_allocs(name, *flags):
    out = os.path.join(WORK, name)
    code, _, err = run(CXX, "-std=c++17", "-O2", "-g", "-Wno-alloc-size-larger-than", "-o", out,
                       os.path.join(HERE, "programs", "allocs.cc"), "-pthread", *flags)
    if code:
        check(f"build {name}", False, err)
        done()
    return out


def functions(program):
    code, out, _ = run("aarch64-linux-gnu-nm", "-S", program)
    return {f[3]: (int(f[0], 16), int(f[1], 16)) for f in (l.split() for l in out.decode().splitlines()) if len(f) == 4}


def allocations(path):
    """By (tid, time): (block, size, number, names of the site), as perf reads them."""
    code, out, err = run("perf", "script", "-i", path, "-F", "tid,time,event,addr,period,weight,ip,sym", "--ns", "--no-inline", "--itrace=")
    found, current = {}, None
    for line in out.decode(errors="replace").splitlines():
        m = re.match(r"\s*(\d+)\s+(\d+)\.(\d+):\s+(\d+)\s+spe-allocs:u:\s+([0-9a-f]+)\s+(\d+)", line)
        if m:
            current = []
            found.setdefault((int(m[1]), int(m[2]) * 10**9 + int(m[3])), []).append(
                (int(m[5], 16), int(m[4]), int(m[6]), current))
        elif line.strip() and line[0] in "\t " and current is not None and not re.match(r"\s*\d+\s+\d+\.\d+:", line):
            current.append(line.split()[1])
        else:
            current = None
    return found


def uses(path, program):
    """Of each thread in order of time: (time, data address) of what touch() did."""
    code, out, err = spex("script", "-i", path, "--format", "csv", "-F", "pid,tid,time,pc,va", "--symbol", "touch")
    threads = {}
    for r in (l.split(",") for l in out.decode().splitlines()[1:]):
        if r[4]:
            threads.setdefault((int(r[0]), int(r[1])), []).append((int(r[2]), int(r[4], 16)))
    return threads


def compare(path, program, log, callers):
    """Problems; and how many uses were compared. Each is looked for in the log from where the last was found."""
    found, threads, blocks, problems, compared = allocations(path), uses(path, program), {}, [], 0
    logs = {}
    for line in log.splitlines():
        process, thread, ident, start, size, site = line.split()
        logs.setdefault((process, int(thread)), []).append((int(ident), int(start, 16), int(size), site))
    pids = sorted({p for p, _ in threads})
    for (pid, tid), samples in threads.items():
        process = "parent" if pid == pids[0] else "child"
        entries = logs[process, tid - pid if process == "parent" else 0]
        at = 0
        for when, va in samples:
            got = [a for a in found.get((tid, when), []) if a[0] <= va < a[0] + a[1]]
            if len(got) != 1:
                problems.append(("no block", tid, when, hex(va)))
                continue
            start, size, number, names = got[0]
            while at < len(entries) and (entries[at][1:3] != (start, size) or not start <= va < start + size):
                at += 1
            if at == len(entries):
                problems.append(("not in the log from here on", tid, when, hex(va), hex(start), size, names))
                break
            ident, _, _, site = entries[at]
            if blocks.setdefault((process, ident), number) != number:
                problems.append(("one block, two numbers", ident, number, blocks[process, ident]))
            if names[:1] != [site] and names[:2] != ["stored", site]:
                problems.append(("site", names, site))
            if callers and "main" not in names and "work" not in names:
                problems.append(("callers", names))
            compared += 1
    numbers = [(p, n) for (p, _), n in blocks.items()]
    if len(set(numbers)) != len(numbers):
        problems.append("two blocks, one number")
    return problems, compared


program = build_allocs("allocs")
static = build_allocs("allocs-static", "-static")
pie = build_allocs("allocs-static-pie", "-static-pie")
for what, options, command in (
        ("one thread", [], [program, 1, 3000]),
        ("one thread, full model", ["--model", "full"], [program, 1, 3000]),
        ("one thread, full model, callers", ["--model", "full", "-g"], [program, 1, 2000]),
        ("no model, static", ["--model", "none"], [static, 1, 3000]),
        ("static-pie, callers", ["-g"], [pie, 1, 3000]),
        ("four threads", [], [program, 4, 1000]),
        ("four threads, full model", ["--model", "full"], [program, 4, 400]),
        ("fork", [], [program, 1, 1500, "fork"]),
        ("fork, full model", ["--model", "full"], [program, 1, 1000, "fork"])):
    code, out, err, path = record("--allocs", "-c", 256, *options, "--", *command)
    equal(f"{what}: status", code, 0)
    problems, compared = compare(path, command[0], out.decode(), "-g" in options)
    equal(f"{what}: blocks are those that the program logs", problems[:3], [])
    check(f"{what}: there are many", compared > 500, compared)
    if what == "one thread":
        plain = record("-c", 256, "--", *command, name="plain")[3]
        data = [spex("script", "-i", p, "--format", "csv", "-F", "tid,time,op,pc,va,total,events")[1] for p in (path, plain)]
        check("the records are those without --allocs", data[0] == data[1])

# what spex shows of them
code, out, err, path = record("--allocs", "-c", 256, "--", program, 1, 3000)
code, out, err = spex("mem", "-i", path, "--sort", "alloc", "--symbol", "touch", "--format", "json")
rows = {r["alloc"]: r for r in json.loads(out)["rows"]}
source = open(os.path.join(HERE, "programs", "allocs.cc")).read().splitlines()
line = next(i for i, l in enumerate(source, 1) if l.startswith("MAKE(map"))
check("mem --sort alloc names function and line", f"allocs.cc:{line} make_map" in rows, list(rows))
row = rows[f"allocs.cc:{line} make_map"]
found = [a for l in allocations(path).values() for a in l if a[3][0] == "make_map"]
equal("blocks", row["blocks"], len({a[2] for a in found}))
equal("and their sizes", row["block_bytes"], f"{min(a[1] for a in found):,} to {max(a[1] for a in found):,}")
code, out, err = spex("mem", "-i", path, "--sort", "block-offset", "--symbol", "touch", "--format", "json")
offsets = {r["block_offset"] for r in json.loads(out)["rows"]}
check("offsets are of words in blocks", offsets <= {f"+{8 * i}" for i in range(64)} and len(offsets) > 60, offsets)

# false sharing of two blocks
shared = build("shared_blocks", "-pthread")
code, out, err, path = record("--allocs", "-c", 256, "--", shared)
code, out, err = spex("c2c", "-i", path)
source = open(os.path.join(HERE, "programs", "shared_blocks.c")).read().splitlines()
line = next(i for i, l in enumerate(source, 1) if "calloc" in l)
check("c2c names blocks", f"+0 of the 16-byte block from shared_blocks.c:{line} main: FALSE SHARING" in out.decode(), out[:900])
check("and says how to allocate them", b"give each block cache lines of its own" in out, out[-900:])

# allocators that cannot be found
stripped = os.path.join(WORK, "stripped")
run("aarch64-linux-gnu-strip", "-o", stripped, static)
code, out, err, path = record("--allocs", "--", stripped, 1, 10)
check("a stripped static program: a note says so", "no function that allocates was found" in err, err)
code, out, err = spex("record", "--allocs", "--switch-output", "1M", "-o", os.path.join(WORK, "parts"), "--", program, 1, 1)
equal("--switch-output is refused", code, 2)
done()
