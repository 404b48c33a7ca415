"""
spex whatif --ideal: what it says a thing costs is what the program gains where it is mended, under
the same model; what is named wrongly is an error that says so.
"""
import json

from guest import *

need_engine("ideal")
source = os.path.join(HERE, "programs", "planted.c")
lines = open(source).read().split("\n")


def line_with(text):
    return next(i + 1 for i, line in enumerate(lines) if text in line)


PLANTED = [  # number of the program, what is planted
    (1, "loads=look_up"), (2, f"branch=count_if:{line_with('(at[i] & 1)')}"),
    (3, "divide=scale_divide"), (4, "share=counters"), (5, "pages=pool"), (6, "time=checksum"),
    (7, f"branch=planted.c:{line_with('x = doing')}")]


def whatif(*args):
    code, out, err = spex("whatif", "--format", "json", *args)
    text = out.decode()
    return code, json.loads(text[text.index("{"):])["rows"] if not code else [], err


programs = {}
for level in "12":
    programs[level] = os.path.join(WORK, "planted" + level)
    code, _, err = run(CC, "-g", "-O" + level, "-static", "-pthread", "-o", programs[level], source)
    if code:
        check("build planted", False, err)
        done()
for number, spec in PLANTED:
    for level, program in programs.items():
        code, rows, err = whatif("--ideal", spec, "--", program, str(number), "::", program,
                                 str(number), "fixed")
        equal(f"{spec} -O{level}: ends well", (code, err), (0, ""))
        if code:
            continue
        slow, ideal, fixed, nothing = (r["time_ns"] for r in rows)
        check(f"{spec} -O{level}: what it says is within 10% of what the mended program gains",
              abs((slow - ideal) / (slow - fixed) - 1) < 0.1, (slow, ideal, fixed))
        check(f"{spec} -O{level}: that is much", slow - fixed > 0.3 * slow, (slow, fixed))
        check(f"{spec} -O{level}: nothing to gain where it is mended",
              number == 2 or nothing > 0.9 * fixed, (fixed, nothing))

# ---- several at once, each time the same ----
program = programs["2"]
some = ["--ideal", "share=counters", "--ideal", "time=count_up loads=count_up",
        "--ideal", "pages=all", "--ideal", "loads=all", "--", program, "4"]
one, two = whatif(*some), whatif("-j", "2", *some)
equal("the same each time, however many run at a time", one, two)
equal("a row for each", [r["variant"] for r in one[1]],
      ["neoverse-n1", "share=counters", "time=count_up loads=count_up", "pages=all", "loads=all"])
address = run("aarch64-linux-gnu-nm", program)[1].decode().split(" B counters")[0].split("\n")[-1]
code, rows, err = whatif("--ideal", "share=counters", "--ideal", f"share=0x{address}", "--",
                         program, "4")
check("a line by its address", not code and
      abs(rows[1]["time_ns"] / rows[2]["time_ns"] - 1) < 0.01, rows or err)

# ---- of what was found ----
code, out, err = spex("whatif", "--findings", "--", program, "5")
text = out.decode()
equal("--findings ends well", (code, err), (0, ""))
check("the largest first, with its word of --ideal",
      re.search(r"1[.] pages that are small: 7[12][.]\d% at most [(][\d.]+ ms[)]", text) and
      "   ideal: pages=all\n" in text, text)
code, out, err = spex("whatif", "--findings", "--format", "json", "--", program, "4")
text = out.decode()
found = json.loads(text[text.index("{"):])["findings"]
check("by the line that threads share, and what the run gains without that",
      any(f["ideal"].startswith("share=0x") and abs(f["saves"] - 0.916) < 0.01 and
          f["by"] == "model" for f in found), found)
equal("in order", [f["saves"] for f in found], sorted((f["saves"] for f in found), reverse=True))
data = os.path.join(WORK, "perf.data")
spex("record", "-c", "256", "-o", data, "--", program, "2")
code, out, err = spex("whatif", "--findings", "-i", data)
check("of a file its share of the time, and that it is no more than that",
      not code and b"was not run again" in out and b"at most, its share" not in out and
      re.search(rb"1. the branch at count_if [(]planted.c:\d+[)]: [3-9]\d[.]\d% at most", out),
      out + err.encode())
code, out, err = spex("whatif", "--findings", "--", program, "3", "::", program, "4")
check("one program", code == 2 and "one program" in err, err)

# ---- what is wrong, and where ----
for spec, told in (
        ("load=walk", "'load=' is none of loads=, branch="), ("walk", "'walk' is none of loads="),
        ("", "what is to be ideal?"), ("loads=", "'' is no place: FUNCTION, FILE:LINE"),
        ("loads=0x12z", "'0x12z' is no place"), ("share=planted.c:3", "not lines of code"),
        ("loads=look_down", "has no function 'look_down'"),
        ("time=planted.c:99999", "no code of"), ("share=nobody", "has no object 'nobody'")):
    code, _, err = whatif("--ideal", spec, "--", program, "6")
    check(f"--ideal '{spec}' is an error that says: {told}", code == 2 and told in err, err)
code, _, err = whatif("--ideal", "loads=use", "--model", "page.size=4K:2M", "--", program, "6")
check("one CPU and one model", code == 2 and "one CPU and one model" in err, err)
code, _, err = whatif("--ideal", "loads=use", "--model", "none", "--", program, "6")
check("not without a model", code == 2 and "leave --model none out" in err, err)
done()
