"""
Planted bugs, compiled at -O1 and -O2: the first finding names what was planted, and where, and
where it is mended that finding is gone. With SPEX_LONG, what whatif --ideal says it would save is
within 10% of what the mended program gains.
"""
import json

from guest import *

need_engine("planted bugs")
BUGS = [  # program, bug, kind, case, function, data, word of --ideal
    ("bugs", "list", "far-data", "chase", "walk", None, "loads=walk"),
    ("bugs", "gather", "far-data", "gather", "gather", None, "loads=gather"),
    ("bugs", "loop", "mispredicted", "loop", "rounds", None, "branch=rounds"),
    ("bugs", "jump", "mispredicted", "jump", "interpret", None, "branch=interpret"),
    ("bugs", "sum", "dependent-chain", None, "one_sum", None, None),
    ("bugs", "memory", "store-forwarding", None, "count_there", None, None),
    ("bugs", "roots", "division", None, "roots", None, "divide=roots"),
    ("bugs", "shared", "peer-data", None, "__aarch64_ldadd8_relax", "total", None),
    ("bugs", "cold", "cold-code", None, "cold_lines", None, None),
    ("bugs", "spin", "lock", "spin", "enter", "spun", None),
    ("bugs", "settings", "peer-data", None, "reader", "settings", None),
    ("bugs.cc", "virtual", "mispredicted", "call", "areas", None, None),
    ("bugs.cc", "list", "far-data", "chase", "total", None, None),
    # whose count, or what it counts for: both are what threads share
    ("bugs.cc", "owners", "peer-data", None, "__aarch64_ldadd4_acq_rel own", None, None),
    ("misled", "chains", "dependent-loads", None, "find", None, None),
    ("planted", "1", "far-data", "computed", "look_up", None, None),  # these in test_ideal.py
    ("planted", "2", "mispredicted", "condition", "count_if", None, None),
    ("planted", "3", "division", None, "scale_divide", None, None),
    ("planted", "4", "peer-data", None, "count_up", "counters", None),
    ("planted", "5", "table-walks", "model", "follow", None, None),
    ("planted", "7", "mispredicted", "call", "dispatch", None, None)]


def compiled(name, level):
    out = os.path.join(WORK, name + level)
    if not os.path.exists(out):
        plus = name.endswith(".cc")
        code, _, err = run(CC[:-3] + "g++" if plus else CC, "-g", "-O" + level, "-static",
                           "-pthread", "-o", out,
                           os.path.join(HERE, "programs", name + ("" if plus else ".c")))
        if code:
            check(f"build {name} -O{level}", False, err)
            done()
    return out


def found(*program):
    path = os.path.join(WORK, "found.data")
    code, _, err = spex("record", "--deterministic", "-c", "256", "-o", path, "--", *program)
    if code:
        check(f"record {program}", False, err)
        return []
    return json.loads(spex("report", "--format", "json", "-i", path)[1])["findings"]


def function_of(finding):
    return (finding.get("place") or "").split(" ")[0].split("(")[0]


for program, bug, kind, case, functions, data, ideal in BUGS:
    for level in "12":
        name, what = compiled(program, level), f"{bug} -O{level}"
        f = found(name, bug)
        got = f[0] if f else {}
        check(f"{what}: the first finding names it",
              (got.get("kind"), got.get("case")) == (kind, case) and
              function_of(got) in functions.split() and (not data or got["data"] == data), f[:2])
        f = found(name, bug, "fixed")
        check(f"{what}: mended, it is gone",
              not [x for x in f if x["kind"] == kind and x["share"] >= 0.05 and
                   function_of(x) in functions.split()], f)
        if not ideal or not os.environ.get("SPEX_LONG"):
            continue
        code, out, err = spex("whatif", "--format", "json", "--ideal", ideal, "--", name, bug, "::",
                              name, bug, "fixed")
        text = out.decode()
        rows = json.loads(text[text.index("{"):])["rows"] if not code else []
        slow, saved, fixed = [r["time_ns"] for r in rows[:3]] if rows else (1, 1, 0)
        check(f"{what}: what {ideal} saves is within 10% of what mending gains",
              abs((slow - saved) / (slow - fixed) - 1) < 0.1, (slow, saved, fixed, err))
done()
