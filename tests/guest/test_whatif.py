"""spex whatif: what must move moves, what must not does not; variants, programs, messages."""
import json
import subprocess

from guest import *

need_engine("whatif")
micro = os.path.join(WORK, "micro")
source = os.path.join(SOURCE, "src/micro/micro.c")
code, _, err = run(CC, "-D_GNU_SOURCE", "-O2", "-static", "-pthread", "-o", micro, source)
if code:
    check("build micro", False, err)
    done()
# 96 KB in 96 pages that fit the TLBs, past a small L2 only; 1,500 pages past
# both TLBs, lines in any L2.
L2_BOUND = [micro, "chase", "393216", "64", "100000"]
TLB_BOUND = [micro, "chase", "6240000", "4160", "100000"]
OPTIONS = ["--model", "page.size=4K:2M", "--model", "l2.size=128K:512K", "--model",
           "tlb.entries=128"]


def whatif(*args, **kw):
    code, out, err = spex("whatif", *args, **kw)
    text = out.decode()
    return code, text, err


# ---- page size moves the TLB-bound one only, L2 size the L2-bound one only ----
code, text, err = whatif(*OPTIONS, "--format", "json", "--", *L2_BOUND, "::", *TLB_BOUND)
equal("ends well", (code, err), (0, ""))
check("the program's own output once for each command, before the answer",
      re.match(r"(chase 100000( 0x\w+)*\n){2}\{", text), text[:80])
answer = json.loads(text[text.index("{"):])
rows = {(r["program"].split()[2], r["variant"]): r for r in answer["rows"]}
equal("rows: programs times variants, which differ in one thing", sorted(rows), sorted(
    (p, v) for p in ("393216", "6240000")
    for v in ("neoverse-n1 page.size=4K l2.size=128K", "page.size=2M", "l2.size=512K")))
moves = {k: r["ratio"] for k, r in rows.items() if r["ratio"] is not None}
check("L2 size moves the one that needs it", moves["393216", "l2.size=512K"] < 0.5, moves)
check("and not the other", abs(moves["6240000", "l2.size=512K"] - 1) < 0.05, moves)
check("page size moves the one that needs it", moves["6240000", "page.size=2M"] < 0.8, moves)
check("and not the other", abs(moves["393216", "page.size=2M"] - 1) < 0.05, moves)
first = rows["6240000", "neoverse-n1 page.size=4K l2.size=128K"]
check("walks go with large pages",
      first["walk"] > 50000 and rows["6240000", "page.size=2M"]["walk"] < 1000, rows)
check("misses go with a large cache",
      rows["393216", "neoverse-n1 page.size=4K l2.size=128K"]["l2_miss"] >
      10 * rows["393216", "l2.size=512K"]["l2_miss"] > 0, rows)
f = [(r["program"].split()[2], r["variant"], r["function"])
     for r in answer["functions"] if "program" in r and r["program"]]
check("the function that gains is named, with its variant",
      ("393216", "l2.size=512K", "kernel_chase") in f and
      ("6240000", "page.size=2M", "kernel_chase") in f, f)
check("and none where nothing moves", ("393216", "page.size=2M", "kernel_chase") not in f and
      ("6240000", "l2.size=512K", "kernel_chase") not in f, f)
check("intervals hold the change, and not zero",
      all(r["low"] < r["delta"] < r["high"] and r["low"] * r["high"] > 0
          for r in answer["functions"] if r.get("function")), answer["functions"])

# ---- the numbers are those of spex stat ----
code, _, err = spex("stat", "--model", "full,tlb.entries=128,page.size=2M,l2.size=128K", "-c",
                    "1024", "--", *TLB_BOUND)
c = counts(err)
r = rows["6240000", "page.size=2M"]
# what the program writes to is no file here: some operations of its C library differ
check("as spex stat counts", all(abs(a / b - 1) < 0.01 for a, b in (
    (c["cycles"], r["time_ns"]), (c["operations"], r["operations"]),
    (c["l2-misses"], r["l2_miss"]))), (c, r))

# ---- CPUs, text, csv ----
code, text, err = whatif("--cpu", "neoverse-n1,neoverse-v1,neoverse-v2", "--", micro, "branch",
                         "1000", "20000")
lines = text.splitlines()
check("CPUs side by side", code == 0 and
      [l.split()[4] for l in lines[2:5]] == ["neoverse-n1", "neoverse-v1", "neoverse-v2"], text)
code, text, err = whatif("--cpu", "neoverse-n1,neoverse-v2", "--format", "csv", "-j", "1", "--",
                         micro, "add", "1000")
check("csv", code == 0 and text.count("\n") == 4 and
      text.splitlines()[1].startswith("program,variant,time_ns"), text)
work = build("work", "-pthread")
code, text, err = whatif("--model", "page.size=4K:64K", "--", work, "exit", "3")
check("an exit status of the program is shown",
      code == 0 and re.search(r"ended\n.* 3\n.* 3\n", text), text)

# ---- refusals ----
for args, words in (([work], "nothing to compare"),
                    (["--cpu", "neoverse-n1,cortex-z", work], "cortex-z"),
                    (["--model", "l2.size=1M:7", work], "l2.size"), ([], "no program"),
                    (["--cpu", "neoverse-n1,neoverse-v1", work, "::"], "::")):
    code, text, err = whatif(*args)
    check(f"refused: {' '.join(args)[:40].replace(WORK, 'DIR')}", code == 2 and words in err, err)
code, text, err = whatif("--cpu", "neoverse-n1,neoverse-v1", "/nonexistent")
check("a program that is not there", code == 2 and "/nonexistent" in err, (code, err))
done()
