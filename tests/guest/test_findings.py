"""
What is found in programs that have one thing wrong, and in those that could be taken for it: the
kind, its case, where; nothing where it is mended.
"""
import json

from guest import *

need_engine("findings")


def compile(name):
    out = os.path.join(WORK, name)
    code, _, err = run(CC, "-g", "-O2", "-static", "-pthread", "-o", out,
                       os.path.join(HERE, "programs", name + ".c"))
    if code:
        check(f"build {name}", False, err)
        done()
    return out


BUGS, MISLED, PLANTED = compile("bugs"), compile("misled"), compile("planted")


def found(*program, period=512, model=[]):
    """(findings, the report as text)"""
    path = os.path.join(WORK, "found.data")
    code, _, err = spex("record", "--deterministic", *model, "-c", str(period), "-o", path, "--",
                        *program)
    if code:
        check(f"record {program}", False, err)
        return [], ""
    out = spex("report", "--format", "json", "-i", path)[1].decode()
    text = spex("report", "-i", path)[1].decode()
    return json.loads(out)["findings"], " ".join(text.split())


def line_with(program, text):
    source = os.path.join(HERE, "programs", os.path.basename(program) + ".c")
    return next(i + 1 for i, l in enumerate(open(source)) if text in l)


def large(findings):
    """The kinds of what takes much of the time: a few samples more or less bring others."""
    return [x["kind"] for x in findings if x["share"] >= 0.05]


def first(name, program, kind, case, function, says, fixed=True):
    """The first finding; with `fixed` that the mended program has none of that kind."""
    f, text = found(*program)
    got = f[0] if f else {}
    check(f"{name}: what is found first", (got.get("kind"), got.get("case")) == (kind, case) and
          got["place"].startswith(function + " (") and got["share_low"] >= 0.01, f)
    check(f"{name}: in words that fit, with its share",
          says in text and f" 1. {got.get('text')}" in text, text)
    if fixed:
        f, text = found(*program, "fixed")
        check(f"{name}: mended, it is not found", kind not in large(f), f)
    return got


# ---- branches: by what they are ----
first("an indirect call", [PLANTED, "7"], "mispredicted", "call", "dispatch",
      "the indirect call at dispatch")
f, text = found(PLANTED, "7")
check("an indirect call: no conditional select is advised", "conditional select" not in text, text)
first("a branch on data", [PLANTED, "2"], "mispredicted", "condition", "count_if",
      "do: compute without the branch")
f, text = found(MISLED, "period")
check("a branch with a period of ten, which is predicted: nothing",
      not [x for x in f if x["kind"] == "mispredicted"], f)
f, text = found(MISLED, "few")
check("some mispredicts, of much time that goes elsewhere: not they are found, but that",
      [x["kind"] for x in f] == ["division"] and "divide (misled.c" in f[0]["place"] and
      f[0]["share_low"] <= f[0]["share"] <= f[0]["share_high"], f)
few, _ = found(PLANTED, "7", period=100000)
check("less than ten samples say nothing", not few, few)

# ---- pages ----
got = first("pages", [PLANTED, "5"], "table-walks", "model", "follow",
            "spex whatif --model page.size=4K:2M")
check("pages: the share is that of the walks alone", 0.6 < got["share"] < 0.8, got)
f, text = found(PLANTED, "5", model=["--model", "page.size=2M"])
check("pages: with larger ones, what is advised, they are gone",
      "table-walks" not in large(f), f)
f, text = found(MISLED, "faults")
check("new memory: page faults are named as what is not seen; the order of data is not blamed",
      f and f[0]["case"] == "pages" and "page faults are not modelled" in text and
      "far-data" not in large(f), f)

# ---- threads ----
f, text = found(MISLED, "lock")
locks = [x for x in f if x["kind"] == "lock"]
check("a lock that threads queue for is named", locks and locks[0]["data"] == "gate" and
      "take the lock gate less often" in text, f)
f, text = found(PLANTED, "4")
check("counters in one line are named, and are no lock",
      f[0]["kind"] == "peer-data" and f[0]["data"] == "counters" and
      "lock" not in large(f), f)
check("and are mostly written", "mostly read" not in
      spex("c2c", "-i", os.path.join(WORK, "found.data"))[1].decode())
f, text = found(BUGS, "settings")
out = spex("c2c", "-i", os.path.join(WORK, "found.data"))[1].decode()
check("what all read beside what one writes: that is to move",
      "use different words of this line, and mostly read" in " ".join(out.split()) and
      "move what is written to a line of its own" in " ".join(out.split()), out)
f, text = found(MISLED, "counter")
check("a counter by exclusives that do not acquire is no lock",
      [x["kind"] for x in f[:1]] == ["peer-data"] and "lock" not in large(f), f)
first("counters in one line", [PLANTED, "4"], "peer-data", None, "count_up", ": counters")
found(MISLED, "padding")
out = spex("c2c", "-i", os.path.join(WORK, "found.data"))[1].decode()
out = " ".join(out.split())
check("rows of 48 bytes: their size by their type, not by what lies beside one another",
      "pad each 48-byte object to whole cache lines" in out and "8-byte object" not in
      out.replace("48-byte object", ""), out)

# ---- which model made it: report, JSON, page ----
path, page = os.path.join(WORK, "found.data"), os.path.join(WORK, "found.html")
says = r"neoverse-n1, sampled, spex \d+\.\d+\.\d+"
check("report says which model and version it was, and what intervals do not cover",
      re.search(f"model: {says}; intervals cover sampling, not the model's error",
                spex("report", "-i", path)[1].decode()))
check("JSON too", re.fullmatch(says, json.loads(
    spex("report", "--format", "json", "-i", path)[1])["sampling"]["model"]))
code, out, err = spex("html", "-o", page, path)
text = open(page).read() if not code else ""
check("and the page", re.search(f'"model":"{says}"', text.replace('": "', '":"')) and
      'fact("model"' in text, err)

# ---- notes come after the answer, three lines of them ----
libraries, source = [], os.path.join(WORK, "notes.c")
for n in range(4):
    with open(os.path.join(WORK, f"part{n}.c"), "w") as f:
        f.write(f"static __attribute__((noipa)) long spin(long n) {{ while (n--) __asm__(\"\"); "
                f"return n; }}\nlong part{n}(long n) {{ return spin(n); }}\n")
    libraries.append(os.path.join(WORK, f"libpart{n}.so"))
    run(CC, "-O1", "-s", "-shared", "-fPIC", "-o", libraries[-1], os.path.join(WORK, f"part{n}.c"))
with open(source, "w") as f:
    f.write("long part0(long), part1(long), part2(long), part3(long);\nint main(void) { return "
            "(int)(part0(200000) + part1(300000) + part2(400000) + part3(500000)) == 9; }\n")
noted = os.path.join(WORK, "noted")
code, _, err = run(CC, "-O1", "-g", "-o", noted, source, *libraries, "-Wl,-rpath," + WORK)
check("a program with four libraries builds", code == 0, err)
path = os.path.join(WORK, "noted.data")
code, _, err = spex("record", "--model", "none", "-c", "512", "-o", path, "--", noted)
check("and is recorded", code == 0, err)
for args, most in (([], 3), (["-v"], 9)):
    code, out, err = spex("report", *args, "-i", path)
    notes = err.splitlines()
    check(f"{args or 'without -v'}: notes about names", code == 0 and 2 < len(notes) <= most and
          (len([l for l in notes if "libpart" in l]) == 4) == bool(args) and
          ("more files without full symbols (-v)" in err) != bool(args), err)
lists = os.path.join(WORK, "var/lib/dpkg/info")  # the directory is a root in which dpkg installed
os.makedirs(lists)
with open(os.path.join(lists, "libpart-3:arm64.list"), "w") as f:
    f.write("/.\n/libpart3.so.old\n/libpart3.so\n")
with open(os.path.join(lists, "libpart-$(id).list"), "w") as f:
    f.write("/libpart2.so\n")
err = spex("report", "-v", "-i", path)[2]
told = {l.split("libpart")[1][0]: l for l in err.splitlines() if "libpart" in l}
check("with dpkg's lists beside it, it says which package has them",
      told["3"].endswith("; or run apt install libpart-3-dbgsym:arm64"), err)
check("but no package that it does not find, and no name that a shell would run",
      not [n for n in "012" if "apt install" in told[n]], err)
os.makedirs(os.path.join(WORK, "var/lib/rpm"))
err = spex("report", "-v", "-i", path)[2]
check("below a root of rpm it is found by its build id", re.search(
    r"libpart0.*; or run dnf --enablerepo='[*]debug[*]' install "
    r"/usr/lib/debug/[.]build-id/[0-9a-f]{2}/[0-9a-f]+[.]debug\n", err), err)
note = os.path.join(WORK, "note.c")
with open(note, "w") as f:
    f.write('__asm__(".section .note.package,\\"a\\",%note\\n.balign 4\\n.4byte 4, 2f - 1f, '
            '0xcafe1a7e\\n.asciz \\"FDO\\"\\n1: .asciz \\"{\\\\\\"type\\\\\\":\\\\\\"rpm'
            '\\\\\\",\\\\\\"name\\\\\\":\\\\\\"part\\\\\\"}\\"\\n2: .balign 4\\n.previous");\n'
            "static __attribute__((noipa)) long spin(long n) { while (n--) __asm__(\"\"); "
            "return n; }\nlong part0(long n) { return spin(n); }\n")
code, _, err = run(CC, "-O1", "-s", "-shared", "-fPIC", "-o", libraries[0], note)
check("a library with a note of its package", code == 0, err)
spex("record", "--model", "none", "-c", "512", "-o", path, "--", noted)
err = spex("report", "-v", "-i", path)[2]
check("a note in the file names its package before all", re.search(
    r"libpart0.*; or run dnf debuginfo-install part\n", err), err)
err = spex("report", "-i", path)[2]
check("a note says who has the names", "export DEBUGINFOD_URLS=https://" in err, err)

# ---- code, and loads across lines ----
f, text = found(MISLED, "phases")
check("much code, a part of it at a time: nothing", not large(f), f)
f, text = found(BUGS, "split")
split = [x for x in f if x["kind"] == "split-accesses"]
check("links across two lines: a cycle of five", split and 0.15 < split[0]["share"] < 0.25 and
      split[0]["place"].startswith("links (") and "no packed structures" in text, f)
f, text = found(BUGS, "split", "fixed")
check("links in one line each: not found", "split-accesses" not in large(f), f)
f, text = found(MISLED, "across")
check("links in one line, beside loads across lines that nobody waits for: not found",
      "split-accesses" not in large(f), f)

# ---- chains, divisions, data ----
first("long lists of a table", [MISLED, "chains"], "dependent-loads", None, "find",
      "more heads for a table of lists")
first("divisions", [PLANTED, "3"], "division", None, "scale_divide", "divide less often")
first("lookups all over a table", [PLANTED, "1"], "far-data", "computed", "look_up",
      "whose address is computed")
f, text = found(PLANTED, "6")
check("a sum that nobody asked for: all of it is work, and nothing is found",
      not [x for x in f if x["kind"] in ("far-data", "mispredicted", "table-walks")], f)
done()
