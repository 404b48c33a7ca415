"""What small inputs may cost: memory and instructions, for every command that reads; what names in
files may open; and nothing left out without a word."""
import atexit, os, re, shutil, subprocess, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *
import support.tap
import bombs

DIR = tempfile.mkdtemp(prefix="spex-limits-")
atexit.register(shutil.rmtree, DIR)
os.chdir(DIR)
NAMES = set()  # of the checks, which docs/limits.md names


def check(name, ok, detail=""):
    NAMES.add(name)
    return support.tap.check(name, ok, detail)


READING = ["report", "annotate", "mem", "c2c", "branch", "script", "dump", "verify", "diff"]


def save(data, name="x.data"):
    with open(name, "wb") as f:
        f.write(data)
    return name


def arguments(command, name):
    return [command, name, name] if command == "diff" else [command, "-i", name]


# A process begins with the peak of the one that starts it: this one is small.
LAUNCH = """
import os, resource, sys
pid = os.fork()
if not pid:
    resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]), int(sys.argv[1])))
    os.execv(sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(pid, 0)
sys.stderr.write("\\n%d" % usage.ru_maxrss)
sys.exit(min(os.waitstatus_to_exitcode(status), 255) % 256)
"""


def measure(*args, timeout=60):
    """Exit code, output, messages and the peak of memory in MB of a run."""
    code, out, err = run(sys.executable, "-S", "-c", LAUNCH, str(timeout), SPEX, *args)
    err, peak = err.rsplit("\n", 1)
    return code, out.decode(errors="replace"), err, int(peak or 0) >> 10


def instructions(command, *args):
    """Of one thread: several wait for each other for as long as the machine's load makes them."""
    code, _, err = run("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", SPEX,
                       command, "--threads", "1", *args)
    m = re.search(r"Collected : (\d+)", err)
    return int(m.group(1)) if m else (code, err)


# ---- memory: bombs ----
save(bombs.overlapping_ids(), "ids.data")
for command in READING:
    code, out, err, peak = measure(*arguments(command, "ids.data"))
    check(f"{command}: ids that overlap: told, in 100 MB",
          code == 1 and "overlap" in err and peak < 100, (code, peak, err))
save(bombs.zstd_flood(), "zstd.data")
for command in ("report", "dump"):
    code, out, err, peak = measure(*arguments(command, "zstd.data"))
    check(f"{command}: zstd without a total: told, in 300 MB",
          code == 1 and "beyond all bounds" in err and peak < 300,
          (code, peak, err))
save(bombs.queues(20000), "queues.data")
for command in READING:
    code, out, err, peak = measure(*arguments(command, "queues.data"))
    most = 500 if command == "script" else 150  # script merges all of them
    check(f"{command}: 20,000 queues in {most} MB", code in (0, 1) and peak < most,
          (code, peak, err[-300:]))

# ---- the limit of a run ----
save(bombs.forks(300000), "forks.data")
code, out, err, peak = measure("report", "-i", "forks.data", "--max-memory", "48M")
check("what needs more memory than --max-memory is cut there, with the place and what to do",
      code == 1 and re.search(r"byte \d+: .*allowed \(48 MB.*--max-memory", err) and peak < 80,
      (code, peak, err))
code, out, err, peak = measure("report", "-i", "forks.data")
check("without the limit it is read", code == 0 and "1 sample," in out, (code, out, err))
data = bombs.lines(300000)
save(data, "lines.data")
code, out, err, peak = measure("mem", "-i", "lines.data", "--max-memory", "64M")
check("groups merge where memory ends, and say so", code == 0 and
      re.search("about (29|30)\\d,\\d{3}", out) and peak < 100, (code, peak, out[-600:], err))
code, out, err, peak = measure("mem", "-i", "lines.data", "--max-memory", "80M", "--format", "json")
check("formats without such a row: what is not listed is told",
      code == 0 and re.search("by line: .* merged and not listed", err),
      (code, err))
code, out, err, peak = measure("mem", "-i", "lines.data", "--max-memory", "1M")
check("a limit that is too small for anything is a message", code == 1 and "--max-memory" in err,
      (code, err))

# ---- nothing left out without a word ----
text = measure("mem", "-i", "lines.data")[1]
check("mem: all lines are counted", "none of 300,000 stands out" in text, text)
code, out, err, peak = measure("html", "-i", "lines.data", "-o", "page.html")
check("html: a page of 300,000 lines of memory is below 3 MB",
      code == 0 and os.path.getsize("page.html") < 3000000, (code, err))
code, out, err, peak = measure("archive", "-i", "lines.data", "-o", "all.tar")
check("archive: as large as what it holds",
      code == 0 and 0 < os.path.getsize("all.tar") - os.path.getsize("lines.data") <= 2047, err)
nop = b"\x1f\x20\x03\xd5"
bombs.elf("prog", [("long", 0, 4 * 70000)], nop * 70000)
save(bombs.profile(module=DIR + "/prog", pcs=[0x400000 + 4 * i for i in (0, 5, 65536, 69999)]),
     "long.data")
code, out, err, peak = measure("annotate", "-i", "long.data", "--format", "csv")
rows = out.strip().splitlines()
check("annotate: all 70,000 instructions, the last with its sample",
      code == 0 and len(rows) == 70001 and "0x4445bc" in rows[-1] and rows[-1][0] != "," and
      sum(r[0] != "," for r in rows[1:]) == 4,
      (code, len(rows), rows[-1:], err))
bombs.elf("prog", [("huge", 0, 1 << 40)], nop * 16)
save(bombs.profile(module=DIR + "/prog", pcs=[0x400000, 0x400000 + (1 << 22)]), "huge.data")
code, out, err, peak = measure("annotate", "-i", "huge.data", "--format", "csv")
check("annotate: a size that lies: what is there and what was sampled", code == 0 and
      len(out.splitlines()) == 18 and "0x800000" in out.splitlines()[-1], (code, out[-500:], err))

# ---- names ----
bombs.elf("prog",
          [(bombs.cxx_bomb(40), 0, 4), (bombs.cxx_bomb(3), 4, 4), ("_RIC1aKB" + "a_" * 3, 8, 4)],
          nop * 4)
save(bombs.profile(module=DIR + "/prog", pcs=[0x400000, 0x400004, 0x400008]), "names.data")
code, out, err, peak = measure("report", "-v", "-i", "names.data", timeout=5)
check("a name that would expand without end is shown as it is, others in full", code == 0 and
      peak < 100 and bombs.cxx_bomb(40)[:60] in out and "A<char>" in out, (code, peak, out, err))
deep = "_RIC1aKj0_" + "".join(f"KB{'0123456789abcdef'[i % 10]}_" for i in range(20)) + "E"
chain = "_RIC1a" + "K" + "B0_" * 100000
bombs.elf("prog", [(deep, 0, 4), (chain, 4, 4)], nop * 4)
save(bombs.profile(module=DIR + "/prog", pcs=[0x400000, 0x400004]), "rust.data")
code, out, err, peak = measure("report", "-i", "rust.data")
check("Rust constants one in the other without end", code == 0, (code, err))

# ---- files that input names ----
os.mkfifo("fifo")
os.symlink("/dev/zero", "zero")
for name, what in ((DIR + "/fifo", "a FIFO"), ("//dev/zero", "/dev/zero"),
                   (DIR + "/zero", "a link to /dev/zero"),
                   (DIR, "a directory"), ("/proc/self/mem", "a file of /proc without end")):
    save(bombs.profile(module=name), "named.data")
    for command in ("report", "annotate"):
        code, out, err, peak = measure(command, "-i", "named.data", timeout=5)
        check(f"{command}: a module that is {what} is not waited for",
              code in (0, 1) and peak < 100, (code, peak, err))
save(bombs.profile(module=DIR + "/fifo"), "named.data")
os.symlink("loop", "loop")
save(bombs.profile(module=DIR + "/loop/prog"), "loop.data")
err = measure("report", "-i", "loop.data")[2]
check("a module that cannot be opened: the reason is said",
      "loop/prog cannot be opened: Too many levels" in err and "no such file" not in err, err)
check("what is no regular file is said",
      "not a regular file" in measure("report", "-i", "named.data")[2])
os.mkdir("fs"), os.mkdir("fs/tmp")
save(bombs.profile(module="//anon"), "jit.data")
MAP = "fs/tmp/perf-10.map"
with open(MAP, "w") as f:
    f.write("400000 10 jitted\n")
check("perf-PID.map of the user is read",
      "jitted" in measure("report", "-i", "jit.data", "--symfs", "fs")[1])
if os.geteuid() == 0:
    os.chown(MAP, 12345, 12345)
    code, out, err, _ = measure("report", "-i", "jit.data", "--symfs", "fs")
    check("that of somebody else is not, and that is said",
          "jitted" not in out and "neither to you nor to root" in err, (out, err))
else:
    skip("perf-PID.map of somebody else", "needs root to make one", machine=True)
os.unlink(MAP)
os.mkfifo(MAP)
code, out, err, _ = measure("report", "-i", "jit.data", "--symfs", "fs", timeout=5)
check("perf-PID.map that is a FIFO", code == 0 and "not a regular file" in err, (code, err))
bombs.compressed_section("prog", 1 << 42)
save(bombs.profile(module=DIR + "/prog"), "section.data")
code, out, err, peak = measure("report", "-i", "section.data", "--sort", "srcline")
check("debug information that says it becomes 4 TB is not decompressed",
      code == 0 and peak < 100 and "4194304 MB" in err,
      (code, peak, err))
alt = bombs.struct.pack("20s", b"\1" * 20)
bombs.elf("prog", [("main", 0, 4)],
          sections=[(".gnu_debugaltlink", 1, 0, (DIR + "/fifo").encode() + b"\0" + alt),
                    (".debug_info", 1, 0, b"\0" * 16), (".debug_abbrev", 1, 0, b"\0" * 8)])
code, out, err, peak = measure("report", "-i", "section.data", "--sort", "srcline", timeout=5)
check("an alternate debug file that is a FIFO is not waited for", code == 0, (code, err))
with open("a.S", "w") as f:
    f.write('.file 1 "%s/fifo"\n.text\n.globl main\n.type main,%%function\nmain: .loc 1 1\nnop\n'
            '.loc 1 2\nret\n.size main,.-main\n' % DIR)
if shutil.which("aarch64-linux-gnu-gcc"):
    subprocess.run(["aarch64-linux-gnu-gcc", "-g", "-nostdlib", "-static",
                    "-Wl,-e,main,-Ttext=0x400000,-z,max-page-size=4096", "a.S", "-o", "prog"],
                   check=True)
    code, out, err, peak = measure("annotate", "-i", "section.data", timeout=5)
    check("a source that is a FIFO is not waited for", code == 0 and "ret" in out, (code, out, err))

# ---- debug information whose DIEs share ranges ----
PCS = [0x400000 + 4 * i for i in range(1000)]
for make, what, words in (
        (bombs.shared_by_calls, "inlined calls", ["export", "--to", "pprof", "-o", "x.pb"]),
        (bombs.shared_by_units, "units", ["report", "--sort", "srcline"])):
    make("prog", 6000, 6000)
    save(bombs.profile(module=DIR + "/prog", pcs=PCS), "ranges.data")
    code, out, err, peak = measure(*words, "-i", "ranges.data", timeout=5)
    check(f"ranges that {what} share: told, in 5 s of CPU time and 150 MB",
          code == 0 and peak < 150 and "more ranges of addresses than bytes" in err,
          (code, peak, err))

bombs.nested("prog", 100000)
save(bombs.profile(module=DIR + "/prog", pcs=PCS), "nested.data")
for kind in ("llvm", "pprof"):
    code, out, err, peak = measure("export", "--to", kind, "-o", "x." + kind, "-i", "nested.data",
                                   timeout=5)
    check(f"{kind}: blocks nested 100,000 deep: the outer ones are read, in 100 MB",
          code == 0 and peak < 100, (code, peak, err))

bombs.go_lines("prog", 200, 200)
save(bombs.profile(module=DIR + "/prog", pcs=[0x400000 + 4 * i for i in range(0, 40000, 100)]),
     "go.data")
code, out, err, peak = measure("report", "-i", "go.data", "--sort", "srcline", timeout=5)
check("lines of Go whose lists overlap: told, in 5 s of CPU time and 100 MB",
      code == 0 and peak < 100 and "longer than .gopclntab" in err and "main.go:" in out,
      (code, peak, err))

# ---- instructions: twice the input, about twice the work ----
CASES = [("modules", bombs.modules, 2000, "report"), ("builds", bombs.builds, 2000, "report"),
         ("jits", bombs.jits, 1000, "report"),
         ("versions", bombs.versions, 1500, "mem"),
         ("chosen addresses", bombs.chosen_pcs, 4000, "report --sort pc"),
         ("threads", bombs.chosen_tids, 4000, "report"), ("queues", bombs.queues, 1000, "c2c"),
         ("forks", bombs.forks, 4000, "report")]
if shutil.which("valgrind"):
    for name, make, count, command in CASES:
        words = command.split()
        costs = [instructions(words[0], "-i", save(make(count * k)), *words[1:]) for k in (1, 2, 3)]
        ok = all(isinstance(c, int) for c in costs)
        ratio = (costs[2] - costs[1]) / (costs[1] - costs[0]) if ok else 0
        check(f"{words[0]}: {name}: work grows with the input, not with its square",
              ok and ratio < 1.4, (costs, ratio))
    bombs.elf("prog", [("long", 0, 4 * 6000)], nop * 6000)
    costs = []
    for k in (1, 2, 3):
        save(bombs.profile(module=DIR + "/prog", pcs=[0x400000 + 4 * i for i in range(2000 * k)]),
             "long.data")
        bombs.elf("prog", [("long", 0, 8000 * k)], nop * 2000 * k)
        costs.append(instructions("annotate", "-i", "long.data"))
    ok = all(isinstance(c, int) for c in costs)
    ratio = (costs[2] - costs[1]) / (costs[1] - costs[0]) if ok else 0
    check("annotate: instructions: work grows with the input, not with its square",
          ok and ratio < 1.4, (costs, ratio))
    costs = []
    for k in (1, 2, 3):
        save(bombs.profile(module=DIR + "/prog", pcs=[0x400000 + 4 * i for i in range(4000 * k)]),
             "go.data")
        bombs.go_lines("prog", 1, 4000 * k)
        costs.append(instructions("report", "-i", "go.data", "--sort", "srcline"))
    ok = all(isinstance(c, int) for c in costs)
    ratio = (costs[2] - costs[1]) / (costs[1] - costs[0]) if ok else 0
    check("report: lines of Go: work grows with the input, not with its square",
          ok and ratio < 1.4, (costs, ratio))
else:
    skip("work grows with the input", "needs valgrind")
page = open(os.path.join(SOURCE, "docs/limits.md")).read()
rows = re.findall(r"^\|.*\| ([^|]+) \|$", page, re.M)
rows = [r for r in rows if r not in ("check", "---")]
wrong = [r for r in rows if r not in NAMES and not r.endswith("its square")]
if shutil.which("valgrind"):
    wrong += [r for r in rows if r.endswith("its square") and r not in NAMES]
check("docs/limits.md: each row has its check", len(rows) > 15 and not wrong, wrong)
done()
