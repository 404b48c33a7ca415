"""record --allocs against a program that logs its own heap: each sampled use of a block is of
the block that it says."""
import json

from heaplog import *

need_cxx("allocations")
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
    problems, compared = compare(path, out.decode(), "-g" in options)
    equal(f"{what}: blocks are those that the program logs", problems[:3], [])
    check(f"{what}: there are many", compared > 500, compared)
    if what == "one thread":
        plain = record("-c", 256, "--", *command, name="plain")[3]
        data = [spex("script", "-i", p, "--format", "csv", "-F",
                     "tid,time,op,pc,va,total,events")[1] for p in (path, plain)]
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
equal("and their sizes", row["block_bytes"],
      f"{min(a[1] for a in found):,} to {max(a[1] for a in found):,}")
code, out, err = spex("mem", "-i", path, "--sort", "block-offset", "--symbol", "touch", "--format",
                      "json")
offsets = {r["block_offset"] for r in json.loads(out)["rows"]}
check("offsets are of words in blocks",
      offsets <= {f"+{8 * i}" for i in range(64)} and len(offsets) > 60, offsets)

# false sharing of two blocks: with the full model, whose threads take turns
# however the host schedules them
shared = build("shared_blocks", "-pthread")
code, out, err, path = record("--allocs", "-c", 256, "--model", "full", "--", shared)
code, out, err = spex("c2c", "-i", path)
source = open(os.path.join(HERE, "programs", "shared_blocks.c")).read().splitlines()
line = next(i for i, l in enumerate(source, 1) if "calloc" in l)
check("c2c names blocks",
      f"+0 of the 16-byte block from shared_blocks.c:{line} main: FALSE SHARING" in out.decode(),
      out[:900])
check("and says how to allocate them", b"give each block cache lines of its own" in out, out[-900:])

# allocators that cannot be found
stripped = os.path.join(WORK, "stripped")
run("aarch64-linux-gnu-strip", "-o", stripped, static)
code, out, err, path = record("--allocs", "--", stripped, 1, 10)
check("a stripped static program: a note says so", "no function that allocates was found" in err,
      err)
code, out, err = spex("record", "--allocs", "--switch-output", "1M", "-o",
                      os.path.join(WORK, "parts"), "--", program, 1, 1)
equal("--switch-output is refused", code, 2)
done()
