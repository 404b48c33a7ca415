"""spex record on SPE itself: the arm64 build in a Linux guest whose driver sees the unit,
beside the guest's perf.

Names of tests as arguments: those alone (those of test_* below, console, and kpti)."""
import collections
import concurrent.futures
import re
import sys
import shutil
from guests import *
from support.screen import Screen
sys.path.insert(0, os.path.join(SOURCE, "scripts"))
import ports

N1 = "neoverse-n1"
V12 = "v1p2,no-pbt,no-eft,no-fpf,no-sme,no-spe-sme,countsize=2"


def cross_build():
    """spex for arm64, with Debian's libraries in the build directory: (program or None, why)."""
    place = os.path.join(BUILD + "-ports", "aarch64")
    os.makedirs(place, exist_ok=True)
    cross = ports.cross_file("aarch64", place)
    build = os.path.join(place, "native")
    if not cross:
        return None, "the libraries for arm64 cannot be fetched"
    if ports.run(f"{SOURCE}/scripts/configure", build, "gcc", "-Dwerror=true", "--cross-file",
                 cross, "-Ddebug=false", "-Doptimization=2",
                 cwd=SOURCE) or ports.run("ninja", "-C", build, "spex", log=f"{place}/native.log"):
        return None, "it does not build for arm64"
    return os.path.join(build, "spex"), ""


class Guest:
    """A boot that ran native-run: what it left."""

    def __init__(self, name, where, program, tests, *options):
        self.name = name
        self.share = os.path.join(WORK, "native-" + name)
        shutil.rmtree(self.share, ignore_errors=True)
        os.makedirs(self.share)
        shutil.copy(os.path.join(HERE, "native-run"), os.path.join(self.share, "run"))
        for tool in ("workload", "helper"):
            shutil.copy(os.path.join(WORK, tool), self.share)
        shutil.copy(os.path.join(BUILD, "spex-micro"), self.share)
        shutil.copy(program, os.path.join(self.share, "spex"))
        with open(os.path.join(self.share, "tests"), "w") as f:
            f.write(" ".join(tests))
        try:
            code, out, err = spex("vm", *where, "--share", self.share, *options, timeout=1800)
        except subprocess.TimeoutExpired as e:
            code, out, err = None, e.stdout or b"", "the guest does not end"
        self.code, self.console = code, out[-3000:].decode(errors="replace") + err

    def path(self, name):
        return os.path.join(self.share, "out", name)

    def read(self, name):
        try:
            with open(self.path(name), errors="replace") as f:
                return f.read()
        except OSError:
            return ""

    def status(self, name):
        return int(self.read(name + ".status") or -1)

    def records(self, name):
        """Records of a file, as perf 6.1 of this machine sees them, if it and spex see the same."""
        tools = [("perf", "report", "-D", "-i", self.path(name)),
                 (SPEX, "dump", "--style", "perf", self.path(name))]
        mine, theirs = ([l[62:].strip() for l in run(*t)[1].decode(errors="replace").splitlines()
                         if re.match(r"\.  [0-9a-f]{8}: ", l)] for t in tools)
        # 6.1 refuses the attributes of a newer perf; spex does not
        if mine or not name.startswith("perf-"):
            check(f"{self.name}: {name}: spex prints what perf prints", mine == theirs,
                  f"{len(mine)} and {len(theirs)} packets")
        return sum(p.startswith("PC ") for p in theirs)

    def good(self, name, features=None, whole=True):
        """It was recorded, and every record decodes: how many."""
        ok = check(f"{self.name}: {name}: recorded",
                   self.status(name) == 0 and "native, arm_spe_0" in self.read(name + ".err"),
                   self.read(name + ".err") or self.console)
        return self.decodes(name + ".data", features, whole) if ok else 0

    def decodes(self, name, features=None, whole=True):
        features = features or (N1 if self.name == "6.1" else V12)
        code, out, err = spex("verify", "--features", features, self.path(name))
        check(f"{self.name}: {name}: every record decodes",
              code == 0 or (not whole and len(out.splitlines()) <= 10), out[-1500:].decode() + err)
        return self.records(name)

    def flags(self, name):
        text = run("perf", "report", "-D", "-i", self.path(name))[1].decode(errors="replace")
        return collections.Counter(re.findall(r"PERF_RECORD_AUX offset: \w+ size: \w+ flags: (\w+)",
                                              text))

    def script(self, name, fields):
        return run("perf", "script", "-i", self.path(name), "--itrace=i1i", "-F",
                   fields)[1].decode(errors="replace")


def test_count(g):
    n, p = g.good("count"), g.decodes("perf-count.data")
    check(f"{g.name}: as many records as perf record takes", p > 3000 and abs(n - p) < 0.02 * p,
          f"{n} and {p}")
    if not g.flags("perf-count.data"):
        return
    equal(f"{g.name}: and the same flags of AUX records", set(g.flags("count.data")),
          set(g.flags("perf-count.data")))
    where = [collections.Counter(re.findall(r"(\w+)$", g.script(f, "comm,tid,ip"), re.M))
             for f in ("count.data", "perf-count.data")]
    check(f"{g.name}: at the same instructions",
          len(set(where[0]) & set(where[1])) > 0.3 * len(where[1]), where)
    check(f"{g.name}: /u: programs alone", all(int(a, 16) >> 48 == 0 for a in where[0]), where[0])
    mine, theirs = (run("perf", "report", "-D", "-i", g.path(f))[1].decode(errors="replace")
                    for f in ("count.data", "perf-count.data"))
    for what in (r"Time Shift +(\d+)", r"Time Mul\w+ +(\d+)", r"PMU Type +:?(\w+)"):
        equal(f"{g.name}: {what.split(' +')[0]} as perf record has it", re.findall(what, mine)[:1],
              re.findall(what, theirs)[:1])
    mine, theirs = ({re.sub(r"(cpuid : 0x\w{10}).(\w{4}).", r"\1*\2*", l)
                     # perf leaves out variant and revision
                     for l in run("perf", "report", "-i", g.path(f),
                                  "--header-only")[1].decode(errors="replace").splitlines()
                     if l.startswith(("# arch", "# nrcpus", "# cpuid", "# os release"))}
                    for f in ("count.data", "perf-count.data"))
    equal(f"{g.name}: machine and CPUs as perf record has them", mine, theirs)
    comm = re.findall(r"^ *(\S+) +\d+", g.script("count.data", "comm,tid,ip"), re.M)
    check(f"{g.name}: perf knows the program", comm and comm.count("workload") > 0.99 * len(comm),
          collections.Counter(comm))


def test_filters(g):
    n, p = g.good("loads"), g.decodes("perf-loads.data")
    check(f"{g.name}: loads alone, as many as perf record takes", p > 100 and abs(n - p) < 0.15 * p,
          f"{n} and {p}")
    ops = {l[62:].split()[0] for l in run(SPEX, "dump", "--style", "perf",
                                          g.path("loads.data"))[1].decode().splitlines()
           if re.match(r".{62}(LD|ST|B|OTHER)\b", l)}
    equal(f"{g.name}: nothing but loads", ops, {"LD"})
    if g.name == "7.2":
        g.good("inverse")
        misses = [spex("script", "--format", "json", g.path(f))[1].count(b"\"l1d-miss\"")
                  for f in ("count.data", "inverse.data")]
        check("7.2: inv_event_filter reaches the driver: of all but misses",
              misses[0] > 10 and misses[1] == 0, misses)
    else:
        check(f"{g.name}: a term of a newer driver is refused with what this one has",
              g.status("inverse") == 2 and
              "event_filter, jitter, load_filter" in g.read("inverse.err"), g.read("inverse.err"))


def test_by_perf(g):
    n = g.decodes("guest.data")
    equal(f"{g.name}: the guest's perf scripts every record of spex's file",
          len(re.findall(r"^ *\S+ +\d+ +[0-9a-f]+ ", g.read("guest-script.out"), re.M)) >= n > 200,
          True)
    for tool in ("report", "mem", "c2c"):
        text = g.read(f"guest-{tool}.out")
        check(f"{g.name}: perf {tool} of the guest", g.status(f"guest-{tool}") == 0 and
              re.search("workload|Total records", text), text[-600:])
        code, out, err = run("perf", *[tool, "report"][tool == "report":], "-i",
                             g.path("guest.data"), "--stdio")
        check(f"{g.name}: perf {tool} of 6.1",
              code == 0 and re.search(b"workload|Total records", out), err)
    code, out, err = spex("report", "-i", g.path("guest.data"), "--format", "json")
    check(f"{g.name}: spex report", code == 0 and b"workload" in out, err)
    info = run("perf", "script", "-i", g.path("guest.data"), "--header-only")[1].decode()
    check(f"{g.name}: a second event has callchains", re.search(r"name = (cycles|cpu-clock)", info),
          info[-800:])
    ids = run("perf", "buildid-list", "-i", g.path("guest.data"))[1].decode()
    want = re.search(r"Build ID: (\w+)",
                     run("readelf", "-n", os.path.join(g.share, "workload"))[1].decode()).group(1)
    check(f"{g.name}: build-ids of kernel and program",
          f"{want} /tmp/workload" in ids and "[kernel.kallsyms]" in ids, ids)


def test_top(g):
    text = g.read("top.out")
    check(f"{g.name}: spex top on the machine's SPE names the hot function",
          g.status("top") == 0 and
          re.search(r"^# [\d,]+ samples", text) and re.search(r"\d%.* hot$", text, re.M) and
          not re.search(r" 0xffff[0-9a-f]+$", text, re.M), text + g.read("top.err"))


def test_figures(g):
    text = g.read("figures.err")
    records = re.search(r"([\d,]+)  records", text)
    n = int(records.group(1).replace(",", "")) if records else 0
    check(f"{g.name}: spex stat counts the records, and suggests a period",
          g.status("figures") == 0 and 3000 < n < 5000 and
          all(w in text for w in ("branches", "does not count them", "overhead",
                                  "-c 2048 would suit better")), text)


def on_second(g, name):
    """Samples of the workload on CPU 1."""
    return len(re.findall(r"^ *workload .*\[001\]", g.script(name + ".data", "comm,tid,cpu,ip"),
                          re.M))


def test_wide(g):
    g.good("wide")
    text = g.script("wide.data", "cpu,comm,tid,ip")
    cpus = collections.Counter(re.findall(r"\[(\d+)\]", text))
    check(f"{g.name}: -a: both CPUs have records", min(cpus["000"], cpus["001"]) > 1000, cpus)
    programs = set(re.findall(r"^ *workload +(\d+)", text, re.M))
    check(f"{g.name}: -a: both programs are named, and the kernel's threads",
          len(programs) == 2 and "swapper" in text, programs)
    g.good("list")
    equal(f"{g.name}: -C: one CPU alone",
          set(re.findall(r"\[(\d+)\]", g.script("list.data", "cpu,comm,tid,ip"))), {"001"})
    check(f"{g.name}: -C: all of it", on_second(g, "list") > 100, on_second(g, "list"))


def test_attach(g):
    for name, comm in (("attach", "workload"), ("threads", "sh")):
        n = g.good(name)
        check(f"{g.name}: {name}: what was running, and what it starts, is recorded", n > 100, n)
        names = collections.Counter(re.findall(r"^ *(\S+) +\d+",
                                               g.script(name + ".data", "comm,tid,ip"), re.M))
        check(f"{g.name}: {name}: and named", names[comm] > 100, names)


def test_snapshot(g):
    g.good("snapshot", whole=False)
    code, out, err = run("perf", "report", "-D", "-i", g.path("snapshot.data"))
    chunks = re.findall(rb"PERF_RECORD_AUXTRACE size: (\w+)", out)
    check(f"{g.name}: snapshots, each as large as the AUX area at most", len(chunks) >= 2 and
          all(0 < int(c, 0) <= 65536 for c in chunks), chunks)


def test_parts(g):
    names = sorted(f for f in os.listdir(g.path("")) if f.startswith("parts.data.") and
                   not f.endswith(".err"))
    found = [spex("dump", "--style", "perf", g.path(n))[1].count(b" PC 0x") for n in names]
    said = g.read("parts.err")
    truncated = re.search(r"(\d+) buffers truncated", said)
    # On a loaded host the guest may be too slow for its buffer: then that is said.
    check(f"{g.name}: --switch-output: several files, together the whole run",
          len(names) >= 2 and truncated and
          (4000 if truncated[1] == "0" else 1000) < sum(found) < 5500, (found, said))
    for n, count in zip(names, found):
        if count:
            comm = re.findall(r"^ *(\S+) +\d+", g.script(n, "comm,tid,ip"), re.M)
            check(f"{g.name}: {n} names the program by itself",
                  comm and comm.count("workload") > 0.9 * len(comm), collections.Counter(comm))
    n = g.good("most")
    check(f"{g.name}: --max-size: sampling ends",
          0 < n < 4200 and "--max-size was reached" in g.read("most.err"), n)
    check(f"{g.name}: -D: nothing before", g.status("delay") == 0 and
          "0.0 kB of records" in g.read("delay.err"), g.read("delay.err"))


def test_control(g):
    n = g.decodes("control.data")
    check(f"{g.name}: --control: samples of one run of two", 3000 < n < 6000, n)
    equal(f"{g.name}: --control answers", g.read("acks").split(), ["ack"] * 3)


def test_calibrate(g):
    said = g.read("calibrate.err")
    check(f"{g.name}: calibrate ends here, and says that an emulator's clock is none",
          g.status("calibrate") == 1 and "the clock here cannot be used" in said and
          "spex calibrate --cpu" in said and not os.path.exists(g.path("calibrate.data")),
          f"{g.status('calibrate')} {said}")


def test_processes(g):
    g.good("processes")
    text = run("perf", "script", "-i", g.path("processes.data"),
               "--show-task-events")[1].decode(errors="replace")
    kinds = collections.Counter(re.findall(r"PERF_RECORD_(FORK|EXIT|COMM exec)", text))
    check(f"{g.name}: 2,000 processes come and go, none is lost",
          kinds["FORK"] >= 2000 and kinds["EXIT"] >= 2000 and
          kinds["COMM exec"] >= 2000 and " 0 events lost" in g.read("processes.err"), kinds)


def test_hotplug(g):
    equal(f"{g.name}: CPU 1 goes and comes", set(g.read("plugged").split()), {"0"})
    for name, words in [("hotplug", "1 CPU went offline and came back: not recorded for"),
                        ("moment", "1 CPU went offline and came back: not recorded for"),
                        ("late", "1 CPU came online: recorded from then on")]:
        g.good(name)
        n = on_second(g, name)
        check(f"{g.name}: {name}: the CPU is recorded when it is there again, and it is said",
              n > 1000 and words in g.read(name + ".err"), f"{n} {g.read(name + '.err')}")
    g.good("moved")
    n = on_second(g, "moved")
    check(f"{g.name}: a program is recorded wherever it runs, through it all",
          n > 1000 and "CPU" not in g.read("moved.err"), f"{n} {g.read('moved.err')}")


def test_bpf(g):
    g.good("bpf")
    listed = re.findall(r"^(\w+) t (bpf_prog_\w+_busy)", g.read("bpf.kallsyms"), re.M)
    told = [re.findall(r"KSYMBOL addr (\w+) len (\d+) type 1 flags 0x0 name (\w+_busy)",
                       run("perf", "script", "-i", g.path(f),
                           "--show-bpf-events")[1].decode(errors="replace"))
            for f in ("bpf.data", "perf-bpf.data")]
    check(f"{g.name}: a BPF program that was there before has its name and length, as "
          "perf record says them", told[0] and
          {t[1:] for t in told[0]} == {t[1:] for t in told[1]} and
          told[0][0][2] in {n for _, n in listed}, f"{told} {listed}")
    code, out, err = spex("report", "-i", g.path("bpf.data"), "--format", "json")
    row = [r["samples"] for r in json.loads(out)["rows"] if told[0] and
           r["symbol"].endswith(told[0][0][2])] if code == 0 else []
    check(f"{g.name}: and its samples are named", row and row[0] > 1000, out[:500])
    where = set(re.findall(r"(\w+)$", g.script("bpf.data", "comm,tid,ip"), re.M))
    check(f"{g.name}: /k: the kernel alone", where and all(a.startswith("ffff") for a in where),
          where)


def test_overrun(g):
    n = g.good("overrun")
    flags = g.flags("overrun.data")
    check(f"{g.name}: an overrun is counted and said", n and any(int(f, 0) & 1 for f in flags) and
          "records are missing" in g.read("overrun.err"), f"{flags} {g.read('overrun.err')}")


def test_killed(g):
    n = g.decodes("killed.data")
    check(f"{g.name}: a killed recorder leaves a file with what it had", n > 3000, n)


def test_paranoid(g):
    n = g.good("paranoid2")
    check(f"{g.name}: paranoid 2: a user records programs alone, and is told", n > 1000 and
          "perf_event_paranoid is 2" in g.read("paranoid2.err"), g.read("paranoid2.err"))
    for name, words in [("paranoid2a", ["whole CPUs", "CAP_PERFMON"]),
                        ("paranoid2earmspepaenableu", ["pa_enable"]),
                        ("paranoid2earmspek", ["the kernel", "CAP_PERFMON"]),
                        ("paranoid3", ["perf_event_paranoid is 3", "CAP_PERFMON"])]:
        check(f"{g.name}: {name}: refused with what to do", g.status(name) == 1 and
              all(w in g.read(name + ".err") for w in words), g.read(name + ".err"))


def test_capable(g):
    n = g.good("capable2", whole=False)
    check(f"{g.name}: CAP_PERFMON lets a user record whole CPUs at paranoid 2", n > 0,
          g.read("capable2.err"))
    equal(f"{g.name}: and the program has none of it",
          re.findall(r"^Cap\w+:\s+(\w+)", g.read("capable2.out"), re.M), ["0" * 16] * 2)
    check(f"{g.name}: at paranoid 3, too, or it is said that this kernel wants more",
          g.status("capable3") == 0 or
          "CAP_SYS_ADMIN" in g.read("capable3.err"), g.read("capable3.err"))


def test_refused(g):
    for name, status, words in [("colour", 2, ['no term "colour"', "load_filter"]),
                                ("model", 2, ["-C 1"]),
                                ("event", 1, ["event_filter"]),
                                ("unloaded", 1, ["modprobe arm_spe_pmu"])]:
        check(f"{g.name}: {name}: refused with what to do", g.status(name) == status and
              all(w in g.read(name + ".err") for w in words),
              f"{g.status(name)} {g.read(name + '.err')}")


# In this order: the last takes the driver away.
TESTS = {name[5:]: f for name, f in list(globals().items()) if name.startswith("test_")}


def check_kpti(g):
    """A kernel that unmaps itself, where the driver refuses."""
    check("kpti: refused with what to do",
          g.status("kpti") == 1 and "kpti=off" in g.read("kpti.err"), g.read("kpti.err"))


class Console:
    """spex top on the terminal of a guest, and what it costs by the unit's
    own count of operations."""

    def __init__(self, where, program):
        self.share = os.path.join(WORK, "native-console")
        shutil.rmtree(self.share, ignore_errors=True)
        os.makedirs(self.share)
        shutil.copy(program, os.path.join(self.share, "spex"))
        shutil.copy(os.path.join(WORK, "workload"), self.share)
        self.log = os.path.join(self.share, "log")
        self.screen = Screen(110, 24, SPEX, "vm", "--guest", where, "--share", self.share, "--cpu",
                             N1, "--log", self.log)
        self.screen.run("pipe-pane", f"cat >{self.share}/typed")

    def operations(self):
        """That the unit has counted while it was on: those between samples, and the samples."""
        lines = Log(self.log).lines
        return (sum(int(l[4:]) for l in lines if l.startswith("ops ")) +
                sum(l.startswith("begin ") for l in lines))

    def refreshes(self):
        with open(f"{self.share}/typed", "rb") as f:
            return f.read().count(b"\033[H")

    def until(self, title, want, seconds=600):
        text = self.screen.until(want, seconds)
        check(f"console: {title}", text, self.screen.text())
        return text or ""

    def counted(self, title, command):
        """Operations of a command, which ends by itself."""
        before = self.operations()
        self.screen.type(f"{command}; echo ended $?")
        self.until(title, lambda s: re.search(r"^ended 0$", s, re.M))
        self.screen.type("clear")
        self.screen.until(lambda s: "ended" not in s)
        return self.operations() - before


def check_screens(c):
    c.screen.type("./spex top -e arm_spe//u -c 8192 -- sh -c 'while :; do ./workload; done "
                  ">/dev/null'; echo ended $?")
    text = c.until("top names the hot function while the program runs",
                   lambda s: s.startswith("spex top: ") and
                   "by function, most time first" in s and re.search(r"\d%.* hot$", s, re.M))
    check("console: top: as large as the terminal",
          len(text.splitlines()) == 24 and text.splitlines()[-1].startswith("f function"), text)
    for key, want in [("l", r"by line(?s:.*)workload\.c:\d+$"), ("s", r"by source(?s:.*) l1$"),
                      ("p", r"by page(?s:.*) 0x[0-9a-f]+000$"),
                      ("f", r"by function(?s:.*) hot$")]:
        c.screen.press(key)
        c.until(f"top: {key}", lambda s: re.search(want, s, re.M))
    c.screen.press("q")
    c.until("q ends it, and the program",
            lambda s: re.search(r"^ended 0$", s, re.M) and "spex top:" not in s)
    c.screen.type("clear")
    c.screen.until(lambda s: "ended" not in s)


def check_console(where, program):
    c = Console(where, program)
    loop = "-- sh -c 'for i in 1 2 3 4 5; do ./workload; done >/dev/null'"
    c.until("the guest is up", lambda s: re.search(r"guest:.*# *$", s.strip()))
    c.screen.type("cd /host; export TMPDIR=/tmp TERM=linux; clear")
    alone = c.counted("the program alone",
                      f"./spex record -q -o /tmp/a.data -e arm_spe//u -c 8192 {loop}")
    recorded = c.counted("the machine recorded",
                         f"./spex record -q -a -o /tmp/a.data -c 8192 {loop}")
    before = c.operations()
    c.screen.type(f"./spex top -a -c 8192 {loop}")
    c.until("top goes on until the program ends", lambda s: "(the program has ended)" in s)
    live, refreshes = c.operations() - before, c.refreshes()
    c.screen.press("q")
    c.screen.until(lambda s: "spex top:" not in s)
    check_screens(c)
    c.screen.type("exit")
    c.screen.until(lambda s: "Pane is dead" in s)
    c.screen.end()
    print(f"# operations: the program {alone:,}; with everything else and spex record "
          f"{recorded:,}; with spex top {live:,}, "
          f"{refreshes} screens: {(live - recorded) // max(refreshes, 1):,} each")
    check("console: the unit counts the program, what records it, and what shows it",
          5 * 16e6 < alone < recorded < live, f"{alone} {recorded} {live}")



def main():
    os.makedirs(WORK, exist_ok=True)
    built = [run("aarch64-linux-gnu-gcc", "-O2", "-g", "-static", "-Wl,--build-id", "-o",
                 os.path.join(WORK, tool),
                 os.path.join(HERE, tool + ".c"))[0] for tool in ("workload", "helper")]
    if any(built) or not shutil.which("qemu-system-aarch64"):
        skip("native", "no cross compiler or no qemu-system-aarch64")
        done()
    program, why = cross_build()
    old, no_guest = guest("debian")
    new, no_new = guest("newest", "trixie-backports")
    if not program or not old:
        skip("native", why or no_guest)
        done()
    if not sys.argv[1:] or "console" in sys.argv[1:]:
        if shutil.which("tmux"):
            check_console(old, program)
        else:
            skip("console", "tmux is not installed")
    chosen = [t for t in TESTS if not sys.argv[1:] or t in sys.argv[1:]]
    few = [t for t in ("count", "filters", "by_perf", "capable") if t in chosen]
    boots = [("6.1", old, chosen, ("--cpu", N1, "--smp", "2"))] if chosen else []
    boots += ([("kpti", old, ["kpti"], ("--cpu", N1, "--append", "kpti=on"))]
              if not sys.argv[1:] or "kpti" in sys.argv[1:] else [])
    boots += [("7.2", new, few, ("--features", V12))] if new and few else []
    if not new:
        skip("native on the newest kernel", no_new)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for (name, where, tests, options), g in zip(boots, pool.map(
                lambda b: Guest(b[0], ("--guest", b[1]), program, b[2], *b[3]), boots)):
            if check(f"{name}: the guest ran its tests", g.code == 0 and g.read("release"),
                     g.console):
                for t in tests:
                    TESTS.get(t, check_kpti)(g)
    done()


if __name__ == "__main__":
    main()
