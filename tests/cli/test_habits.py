"""What people who know perf type: it works as its twin here, or the message names what does."""
import os, re, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

# perf's spelling, ours
TWINS = [
    ("report --symbols *", "report --symbol *"), ("report -S x", "report --symbol x"),
    ("report --comms x", "report --comm x"), ("report -c x", "report --comm x"),
    ("report --dsos=x", "report --dso=x"), ("report -d x", "report --dso x"),
    ("report -C 7", "report --cpu 7"), ("report -C7", "report --cpu 7"),
    ("report -kx -n", "report --vmlinux x"), ("report -nfv --sort=op", "report --sort op"),
    ("report --no-children --stdio", "report"),
    ("report --max-memory 1g", "report --max-memory 1G"),
    ("record -m 512,4M nowhere/x", "record -m ,4M nowhere/x"),
    ("annotate -s x", "annotate --symbol x"), ("annotate -l --stdio2", "annotate"),
    ("script -C 7", "script --cpu 7"), ("script -c x", "script --comm x"),
    ("script --ns -G -F ip,addr,weight", "script -F pc,va,latency"),
    ("mem report -C 7", "mem --cpu 7"), ("mem -f report", "mem"), ("c2c report --stdio", "c2c"),
    ("record -dTWR -N -v -- nowhere/x", "record -- nowhere/x"),
    ("record --data --period --no-buildid-cache nowhere/x", "record nowhere/x"),
    ("stat -Bd -- nowhere/x", "stat -- nowhere/x"), ("-v", "--version"),
]
# perf's spelling, what the message says
SAYS = [
    ("record -F 999 -- ls", "-c PERIOD"), ("record --freq=max ls", "-c PERIOD"),
    ("record --call-graph dwarf -- ls", "-g keeps"), ("record --ldlat 30 ls", "min_latency="),
    ("record --phys-data ls", "pa_enable=1"), ("record -b ls", "branch_filter=1"),
    ("record --cpu 0 ls", "-C 0"), ("record --cpu= ls", "name is empty"),
    ("record -m 64M ls", "-m ,4M"), ("record -m x,4M ls", "-m ,4M"),
    ("record -m ,99999999999G ls", "-m ,4M"), ("record -e cycles ls", "arm_spe/TERMS/"),
    ("record -c 100ms ls", "4096, 0x1000, 4K, 1M"), ("record -c -5 ls", "4096, 0x1000, 4K, 1M"),
    ("record -n ls", "spex stat"), ("record -i ls", "--per-thread"),
    ("report -g caller", "callers and callees"), ("report -gcaller", "callers and callees"),
    ("report --call-graph=callee", "callers and callees"), ("report -G", "callers and callees"),
    ("report --children", "-g"), ("report --tui", "spex html"), ("report -t,", "--format csv"),
    ("report -x ,", "--format csv"), ("report --mem-mode", "spex mem"), ("report -D", "spex dump"),
    ("report --itrace=i1i", "spex script --itrace"), ("report -b", "spex branch"),
    ("report --symbol-filter=x", "--symbol '*TEXT*'"), ("report --header", "first line"),
    ("report -F overhead,sym", "'time'"), ("report --sort overhead,sym", "-F LIST"),
    ("report --sort local_weight", "'latency'"), ("report --min-latency -3", "number of cycles"),
    ("report --no-demangle=1", "--no-demangle takes no value"),
    ("report --force=1", "--force takes no value"), ("report -S", "--symbol needs a value"),
    ("report --sorted=op", "did you mean '--sort'"), ("report -g-", "-g- takes no value"),
    ("report --percent 1", "did you mean '--percent-limit'"),
    ("report --no-dem", "did you mean '--no-demangle'"),
    ("script --show-mmap-events", "perf script"),
    ("annotate -M intel", "libLLVM"), ("script -s x.py", "--format json"),
    ("script -D", "spex dump --style perf"), ("script -F data_src", "'source'"),
    ("mem -t load report", "--op load"), ("mem record ls", "spex record -- PROGRAM"),
    ("mem --type=load", "--op load"), ("mem --ldlat=30", "--min-latency"),
    ("c2c report -NN", "by thread"), ("c2c report -d lcl", "score"), ("c2c report -c tid", "row"),
    ("c2c report --stats", "spex mem"), ("diff -c delta a b", "-F LIST"),
    ("stat -r 3 ls", "in the shell"), ("stat -j ls", "--format"),
    ("stat -I 100 ls", "--slices"), ("top -s sym ls", "--by"), ("top -F 99 ls", "-c PERIOD"),
    ("list", "spex help record"), ("evlist -v", "spex report"), ("inject -b", "spex export"),
    ("buildid-list", "spex archive"), ("kvm stat", "spex vm"), ("data convert", "spex export"),
    ("version", "spex --version"), ("sched", "perf has this"),
]

with tempfile.TemporaryDirectory() as directory:
    spex("generate", "--records", "300", "--seed", "3", "-o", "perf.data", cwd=directory)

    def ask(line):
        command, *rest = line.split(" ")
        reads = command in ("report", "annotate", "script", "mem", "c2c")
        at = 1 if rest[:1] == ["report"] else 0
        if reads:
            rest[at:at] = ["--raw"]
        return spex(command, *rest, cwd=directory, env={"SPEX_ROOT": directory})

    for theirs, ours in TWINS:
        got, want = ask(theirs), ask(ours)
        check(f"{theirs} is {ours}", got == want and "unknown option" not in got[2], (got, want))
    for theirs, part in SAYS:
        code, out, err = ask(theirs)
        text = err + out.decode()
        check(f"{theirs}: {part}", part in text and (code == 2 or out), (code, text))
    os.mkdir(os.path.join(directory, "caller"))
    code, out, err = ask("report caller")
    check("a file by the name of a word is a file", "callers" not in err, err)
    code, out, err = spex("report", "-i", "")
    check("a file without a name", code == 1 and "the name of the file is empty" in err, err)
    code, out, err = spex("record", "-a", "--", "ls", env={"SPEX_ROOT": directory}, cwd=directory)
    check("-a without SPE: what the model records", code == 1 and "spex record -- PROGRAM" in err,
          err)

# The table itself: its commands and options exist, no row is hidden, every sentence is reached.
with open(os.path.join(SOURCE, "src/cli/perf_words.c")) as f:
    text = f.read()
names = dict(re.findall(r'#define (\w+)\s+(.*)', text))
for name in names:
    for other in names:
        names[other] = re.sub(rf"\b{name}\b", names[name], names[other])
body = re.sub(r'"\s*\n\s*"', "", text[text.index("words[] = {"):text.index("\n};")])
string = r'"(?:[^"\\]|\\.)*"'
rows = re.findall(rf"\{{({string}|[A-Z]+),\s*({string}),\s*(NULL|{string}),\s*(NULL|{string})\}}",
                  body)
check("the table is read whole", len(rows) == body.count("},"), (len(rows), body.count("},")))
options = {}
for line in spex("help")[1].decode().partition("Topics:")[0].splitlines():
    if line.startswith("  ") and line[2] != " ":
        text = spex("help", line.split()[0])[1].decode()
        options[line.split()[0]] = set(re.findall(r"(?m)^  (?:(?:-\w), )?(--[\w-]+)", text)) | set(
            re.findall(r"(?m)^  (-\w), --", text))
wrong, seen = [], set()
for where, words, ours, says in rows:
    where = re.sub(r'" *"|^"|"$', "", names.get(where, where)).split() or [""]
    says = says.strip('"').replace('\\"', '"')
    for command in where:
        if command.startswith("--"):
            continue
        if command and command not in options:
            wrong.append(f"no command {command}")
        for word in words.strip('"').split():
            if word in options.get(command, ()) or (command, word) in seen:
                wrong.append(f"{command} {word} is hidden")
            elif command and ours.strip('"') and ours != "NULL" and \
                    "--" + ours.strip('"') not in options[command]:
                wrong.append(f"{command} has no --{ours}")
            elif ours == "NULL" and says not in spex(*filter(None, [command, word]))[2]:
                wrong.append(f"{command} {word} does not say: {says}")
            seen.add((command, word))
    for command, rest in re.findall(r"'spex (\w+)((?: [^' ]+)*)'", says):
        missing = set(re.findall(r"--?[\w-]+", rest)) - options.get(command, set()) - {"-"}
        if command not in options or missing - {"--"}:
            wrong.append(f"spex {command}: no {missing}: {says}")
check("every row of the table is right", not wrong, "\n".join(wrong))
done()
