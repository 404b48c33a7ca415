"""Types of data: programs that say which objects they have and how often they use each
member. spex counts each within its interval, and what it calls 200 random accesses is
what gdb says lies there."""
import csv, io, json, random
from guest import *

need_engine("types of data")
CXX = "aarch64-linux-gnu-g++"
random.seed(18)


def rows_of(path, keys):
    code, out, err = spex("mem", "-i", path, "--sort", keys, "--format", "csv")
    equal(f"mem --sort {keys}", code, 0)
    return list(csv.DictReader(io.StringIO(out.decode())))


def plain(name):
    """Names of integers as gdb spells them."""
    return name.replace("long int", "long")


def gdb(program, commands):
    script = os.path.join(WORK, "gdb.commands")
    with open(script, "w") as f: # each answer after its number; an error ends no more than itself
        for n, command in enumerate(commands):
            f.write(f"echo \\n@@{n}\\n\npython\ntry:\n  gdb.execute({command!r})\n"
                    "except gdb.error as e:\n"
                    f"  print('error', e)\nend\n")
    code, out, err = run("gdb-multiarch", "-nx", "-batch", "-x", script, program)
    answers = [""] * len(commands)
    for part in out.decode(errors="replace").split("\n@@")[1:]:
        number, _, text = part.partition("\n")
        answers[int(number)] = text.strip()
    return answers


def against_gdb(what, program, rows, objects, locals_of):
    """Random accesses of known objects: the member that spex names is the one at
    that offset of the type."""
    if not shutil.which("gdb-multiarch"):
        skip(f"{what}: against gdb", "no gdb-multiarch")
        return
    # A constructor knows its part of an object by the part's own type.
    others = ("shop::Thing", "shop::Shelf", "shop::Box<long>::Part", "[no variable there]")
    accesses, name = [], os.path.basename(program)
    for row in rows:
        va = int(row["line"], 16) + int(row["offset"], 16)
        place, _, pc = row["pc"].partition("+")
        for word, kind, start, size in objects:
            inside = word == "object" or locals_of[0] <= int(pc or "0", 16) < locals_of[1]
            if (place == name and start <= va < start + size and inside and
                plain(row["type"]) not in others and
                (row["type"] != "[no debug information]" or "static" not in what) and
                "_vptr" not in row["member"]):  # which is no name for gdb
                accesses.append((row, kind, va - start))
    chosen = random.sample(accesses, min(200, len(accesses)))
    layout = "\n".join(gdb(program, [f"ptype/o {k}" for k in sorted({k for _, k, _ in chosen})]))
    asked = []
    for row, kind, offset in chosen:
        path = "a" if "a:3" in row["member"] else re.sub(r"\b\w+::", "", row["member"])
        first = path.replace("part[]", "part[0][0]").replace("[]", "[0]")
        element = first[:first.rindex("]") + 1] if "]" in first else first
        at = f"(('{kind}' *)0)->"
        address = f"print (long)&{at}{first}" if path != "a" else "print 0"
        asked += [f"print sizeof('{kind}')", address, f"print sizeof({at}{first})",
                  f"print sizeof({at}{element})"]
    asked = [re.sub(r"'((?:struct|union) [^']*)'", r"\1", a) for a in asked]
    answers = [a.split("= ")[-1] for a in gdb(program, asked)]
    wrong = []
    for n, (row, kind, offset) in enumerate(chosen):
        numbers = answers[4 * n:4 * n + 4]
        if plain(row["type"]) != kind or not all(a.isdigit() for a in numbers):
            wrong.append((row["pc"], kind, offset, row["type"], row["member"], numbers))
            continue
        size, start, length, element = map(int, numbers)
        if kind == "struct open":
            size += 32
        if "a:3" in row["member"]: # bit fields have no address: ptype/o shows their place
            start = int(re.search(r"(\d+): 0 .* a : 3", layout).group(1))
        inside = offset % size
        if "[]" in row["member"]: # the same member of the first element
            inside = start + (inside - start) % element
        if not start <= inside < start + length:
            wrong.append((row["pc"], kind, inside, row["member"], start, length))
    check(f"{what}: {len(chosen)} random accesses are of the member that gdb says is there",
          len(chosen) > 100 and not wrong, (len(chosen), wrong[:6]))


def variables_against_gdb(what, program, rows):
    """Variables on the stack: gdb knows one of that name in the scope of the instruction."""
    if not shutil.which("gdb-multiarch"):
        return
    name = os.path.basename(program)
    found = {(r["pc"].split("+")[1], r["member"]) for r in rows
             if r["pc"].startswith(name + "+") and r["member"].isidentifier() and
             r["type"] in ("int", "long int", "struct node *")}
    found = random.sample(sorted(found), min(40, len(found)))
    answers = gdb(program, [f"info scope *{pc}" for pc, _ in found])
    wrong = [(pc, member, a[:200]) for (pc, member), a in zip(found, answers)
             if not re.search(rf"\bSymbol {member} is ", a) and member != "head"]
    check(f"{what}: variables are in gdb's scope of the instruction", len(found) > 10 and not wrong,
          (len(found), wrong[:3]))


def symbols_against_gdb(what, program, rows, objects):
    """Global data: gdb's info symbol names the same variable."""
    if not shutil.which("gdb-multiarch"):
        return
    code, out, err = run("aarch64-linux-gnu-nm", program)
    table = next(int(l.split()[0], 16) for l in out.decode().splitlines() if l.endswith(" table"))
    bias = next(start for _, kind, start, size in objects if kind == "struct node" and
                (start - table) % 4096 == 0) - table
    found = [(r, int(r["line"], 16) + int(r["offset"], 16) - bias)
             for r in rows if r["data_symbol"] in ("state", "table", "head")]
    found = random.sample(found, min(60, len(found)))
    answers = gdb(program, [f"info symbol {at:#x}" for _, at in found])
    wrong = [(r["data_symbol"], hex(at), a)
             for (r, at), a in zip(found, answers) if a.split(" ")[0] != r["data_symbol"]]
    check(f"{what}: variables are those of gdb's info symbol", len(found) > 20 and not wrong,
          wrong[:3])


def try_program(what, source, compiler, *flags):
    program = os.path.join(WORK, "types" + "".join(flags).replace("/", "_"))
    code, _, err = run(compiler, "-g", "-o", program, os.path.join(HERE, "programs", source),
                       *flags)
    if code:
        check(f"{what}: builds", False, err)
        return
    code, out, err, path = record("--model", "none", "-c", "256", "--", program)
    equal(f"{what}: runs", code, 0)
    said = [l.split("|") for l in out.decode().splitlines()]
    objects = [(word, k, int(a, 16), int(n)) for word, k, a, n in said if word != "count"]
    counts = {(k, m): int(n) for word, k, m, n in said if word == "count"}
    rows = rows_of(path, "type,member")
    got = {(plain(r["type"]), r["member"]): int(r["samples"]) for r in rows}
    wrong = []
    # 4.5 standard deviations: one in 150,000 by chance, and the seed is fixed
    for key, n in counts.items():
        expected, samples = n / 256, got.get(key, 0)
        if abs(samples - expected) > 4.5 * expected ** 0.5 + 1:
            wrong.append((key, expected, samples))
    check(f"{what}: each member is counted within its interval", counts and not wrong, wrong)
    own = rows_of(path, "dso,type,member")
    mine = [r for r in own if r["dso"] == os.path.basename(program)]
    named = sum(int(r["samples"]) for r in mine if not r["type"].startswith("["))
    total = sum(int(r["samples"]) for r in mine)
    # registers, around calls
    saved = sum(int(r["samples"]) for r in mine if r["type"] == "[no variable there]")
    check(f"{what}: every other access has a type",
          named + saved >= 0.99 * total and saved < 0.15 * total, (named, saved, total))
    code, out, err = run("aarch64-linux-gnu-nm", "-S", program)
    where = [l.split() for l in out.decode().splitlines() if l.endswith(" locals")]
    start, size = (int(n, 16) for n in where[0][:2]) if where else (0, 0)
    against_gdb(what, program, rows_of(path, "pc,line,offset,type,member"), objects,
                (start, start + size))
    if "-O0" in flags and source == "types.c":
        variables_against_gdb(what, program, rows_of(path, "pc,type,member"))
        symbols_against_gdb(what, program, rows_of(path, "line,offset,data-symbol,type,member"),
                            objects)
    return path


for level in ("-O0", "-O1", "-O2"):
    try_program(f"C {level}", "types.c", CC, level)
try_program("C -O2, static", "types.c", CC, "-O2", "-static")
try_program("C -O2, DWARF 4, GOT", "types.c", CC, "-O2", "-gdwarf-4", "-fPIC")
split = try_program("C -O2, split DWARF", "types.c", CC, "-O2", "-gsplit-dwarf")
dwo = next(os.path.join(WORK, f) for f in os.listdir(WORK) if f.endswith(".dwo"))
os.unlink(dwo)
os.mkfifo(dwo)
missing = rows_of(split, "type,member")
check("split DWARF: a .dwo file that is none is not waited for",
      not any(r["type"] == "struct node" for r in missing) and
      any(r["type"].startswith("[") for r in missing), missing[:3])
if shutil.which("clang"):
    for level in ("-O0", "-O2"):
        try_program(f"clang {level}", "types.c", "clang", "--target=aarch64-linux-gnu", level)
if shutil.which(CXX):
    for level in ("-O0", "-O2"):
        try_program(f"C++ {level}", "types_class.cc", CXX, level)

path = try_program("C -O3", "types.c", CC, "-O3")
if shutil.which("go"):
    program = os.path.join(WORK, "types-go")
    code, out, err = run("go", "build", "-o", program, os.path.join(HERE, "programs", "types.go"),
                         env={"GO111MODULE": "off", "GOARCH": "arm64", "CGO_ENABLED": "0",
                              "HOME": WORK})
    equal("Go: builds", code, 0)
    code, out, err, other = record("--model", "none", "-c", "1024", "--", program, name="go.data")
    got = {r["member"]: int(r["samples"])
           for r in rows_of(other, "type,member") if r["type"] == "main.node"}
    wrong = [m for m in ("next", "value", "name[]")
             if abs(got.get(m, 0) - 1e6 / 1024) > 4.5 * (1e6 / 1024) ** 0.5 + 5]
    check("Go: each member is counted within its interval", not wrong, got)

# mem --type: the members by cache line, and those that belong together
code, out, err = spex("mem", "-i", path, "--type", "struct node", "--format", "json")
equal("mem --type: exit status", code, 0)
page = json.loads(out)
places = [(r["type_line"], r["type_offset"]) for r in page["rows"]]
equal("mem --type: by offset", places, sorted(places))
check("mem --type: the last member is on the second line", ("1", "+0x60") in places, places)
together = page["together"][0]
check("mem --type: hot members", together["type"] == "struct node" and together["size"] == 104 and
      together["lines"] == 2 and together["time"] >= 0.9 and "value" in together["members"],
      together)
code, out, err = spex("mem", "-i", path, "--type", "struct nobody")
check("mem --type: a type that is not there", code == 0 and b"has data of this type" in out, out)
code, out, err = spex("mem", "-i", path, "--type", "x", "--sort", "type")
equal("mem --type and --sort: usage", code, 2)
done()
