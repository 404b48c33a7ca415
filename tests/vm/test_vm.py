"""Linux's own SPE driver and perf on the unit, under an unmodified qemu-system-aarch64.

Guests are prepared once in the build directory from Debian's arm64 packages; without them (no
network) every test is skipped, visibly. Names of boots as arguments: those alone. `make check`
leaves some of them to `make check-vm` (SPEX_LONG=1).
"""
import collections
import copy
import concurrent.futures
import re
import shutil
import time
from guests import *

LONG = bool(os.environ.get("SPEX_LONG"))
LOOP_OPS = 8 * 2000000  # operations of hot() in workload.c


class Boot:
    """A guest that ran its plan: what it left."""

    def __init__(self, name, where, plan, *options):
        self.name, self.plan = name, plan
        self.share = os.path.join(WORK, "run-" + name)
        shutil.rmtree(self.share, ignore_errors=True)
        os.makedirs(self.share)
        shutil.copy(os.path.join(HERE, "guest-run"), os.path.join(self.share, "run"))
        shutil.copy(os.path.join(WORK, "workload"), self.share)
        with open(os.path.join(self.share, "plan"), "w") as f:
            f.write("".join(f"{n}:{int(n in DECODED)}:{o}:{c}\n" for n, o, c in plan))
        self.log = os.path.join(self.share, "log")
        begin = time.monotonic()
        try:
            code, out, err = spex("vm", *where, "--share", self.share, "--log", self.log, *options,
                                  timeout=600)
        except subprocess.TimeoutExpired as e:
            code, out, err = None, e.stdout or b"", "the guest does not end"
        self.code, self.seconds = code, time.monotonic() - begin
        self.console = out[-200000:].decode(errors="replace") + err
        with open(os.path.join(self.share, "console"), "w") as f:
            f.write(self.console)

    def read(self, name):
        try:
            with open(os.path.join(self.share, "out", name)) as f:
                return f.read()
        except OSError:
            return ""

    def came_up(self):
        return check(f"{self.name}: the guest ran its plan",
                     self.code == 0 and self.read("dmesg.after"), self.console[-1500:])

    def attributes(self, kind):
        """caps or format attributes of the PMU."""
        return {l.split()[0].split("/")[1]: l.split()[1]
                for l in self.read("attributes").splitlines() if l.startswith(kind + "/")}

    def recordings(self):
        return {n: Recording(self, n) for n, _, _ in self.plan}

    def window(self, name):
        """When the recording began and ended, on the guest's clock."""
        times = re.findall(r"\[ *([\d.]+)\] mark (?:begin|end) " + name + r"\n",
                           self.read("dmesg.after"))
        return tuple(map(float, times))


def dumped(*tool):
    """Packets that a tool prints in perf's way, and all its lines."""
    lines = run(*tool)[1].decode(errors="replace").splitlines()
    return [l[62:].strip() for l in lines if re.match(r"\.  [0-9a-f]{8}: ", l)], lines


class Recording:
    """One perf.data that the guest made."""

    def __init__(self, boot, name):
        self.boot, self.name = boot, name
        self.path = os.path.join(boot.share, "out", name + ".data")
        self.ok = os.path.exists(self.path)
        if not self.ok:
            return
        self.exit = int(boot.read(name + ".status") or -1)
        before, after = ([int(n) for n in re.findall(r" (\d+)(?= )", line.split("GICv3")[0])]
                         for line in boot.read(name + ".irqs").splitlines())
        self.irqs = [b - a for a, b in zip(before, after)]  # per CPU
        counts = boot.read(name + ".counts").split()
        self.decoded, self.bad = map(int, counts) if counts else (None, 0)
        # perf 6.1 of the host refuses the attributes of a newer perf; spex does not.
        self.by_perf, lines = dumped("perf", "report", "-D", "-i", self.path)
        self.packets, _ = dumped(SPEX, "dump", "--style", "perf" if self.by_perf else "perf-7",
                                 self.path)
        self.aux_of_cpus = [tuple(int(x, 0) for x in m) for m in re.findall(
            r"^(-?\d+) .*PERF_RECORD_AUX offset: (\w+) size: (\w+) flags: (\w+)", "\n".join(lines),
            re.M)]
        self.aux = [a[1:] for a in self.aux_of_cpus]
        self.records = sum(p.startswith("PC ") for p in self.packets)

    def of_cpu(self, cpu):
        """The same with AUX records of one CPU alone."""
        part = copy.copy(self)
        part.aux = [a[1:] for a in self.aux_of_cpus if a[0] == cpu]
        return part

    def types(self):
        return collections.Counter(p for p in self.packets
                                   if p.startswith(("LD", "ST", "B", "OTHER")))

    def els(self):
        return set(re.search(r" el(\d)", p).group(1) for p in self.packets if p.startswith("PC "))


def check_recording(r, features, whole=True):
    """What holds for every recording: perf took it, no bad packet, spex sees the same.
    A snapshot is not whole: it starts in the middle of a record."""
    title = f"{r.boot.name}: {r.name}"
    if not check(f"{title}: recorded", r.ok and r.exit == 0 and r.records > 0,
                 r.boot.read(r.name + ".err") + r.boot.console[-500:]):
        return False
    if r.decoded is not None:
        check(f"{title}: the guest's perf decodes every record", r.bad <= (0 if whole else 8),
              f"{r.decoded} records, {r.bad} bad lines")
        equal(f"{title}: the guest's perf and spex see the same records", r.decoded, r.records)
    if r.by_perf:
        check(f"{title}: spex prints what the host's perf prints", r.packets == r.by_perf,
              f"{len(r.packets)} and {len(r.by_perf)} packets")
    code, out, err = spex("verify", "--features", features, r.path)
    check(f"{title}: spex verify finds nothing",
          code == 0 or (not whole and len(out.splitlines()) <= 10), out[-2000:].decode() + err)
    return True


def golden(name):
    """Episodes of a golden file, longest first: (name, lines). A line with
    "?" may be there or not."""
    variants, current = [], []
    with open(os.path.join(HERE, name)) as f:
        for line in f:
            words = line.split("#")[0].split()
            if line.startswith("["):
                current = [(line.strip()[1:-1], [])]
                variants.append(current)
            elif words:
                without = [(n, list(steps)) for n, steps in current] if words[0] == "?" else []
                for _, steps in current:
                    steps.append(words[1:] if words[0] == "?" else words)
                current += without
    return sorted((v for group in variants for v in group), key=lambda v: -len(v[1]))


def check_protocol(boot, name, *want, cpu=0):
    """The driver's accesses consist of the episodes of the golden file and nothing
    else: how often each."""
    title = f"{boot.name}: CPU {cpu}"
    episodes, lines = golden(name), [l.replace(" expect ", " ").split()
                                     for l in Log(boot.log, cpu).accesses()]
    found, at = collections.Counter(), 0
    while at < len(lines):
        fit = next(((e, steps) for e, steps in episodes if len(steps) <= len(lines) - at and
                    all(len(s) == len(l) and all(a in ("*", b) for a, b in zip(s, l))
                        for s, l in zip(steps, lines[at:at + len(steps)]))), None)
        if not fit:
            break
        found[fit[0]] += 1
        at += len(fit[1])
    check(f"{title}: the driver's protocol is that of {name}", at == len(lines) > 0,
          f"after {sum(found.values())} episodes: {lines[at:at + 12]}")
    check(f"{title}: all of it was seen: {', '.join(want)}", all(found[e] for e in want), found)
    return found


def reported(lines):
    """What the driver must say in AUX records, by the registers it read: (size, flags) of each."""
    truncated, partial, collision = 1, 4, 8
    found, start, status = [], None, 0
    for line in lines:
        words = line.split()
        if line.startswith("write PMBPTR_EL1"):
            start = int(words[2], 0)
        elif line.startswith("read PMBSR_EL1"):
            status = int(words[3], 0)
        elif line.startswith("read PMBPTR_EL1") and start is not None:
            end, flags = int(words[3], 0), 0
            if status >> 17 & 1:  # S; else there is nothing to report
                flags = (truncated | partial) * (status >> 19 & 1) | collision * (status >> 16 & 1)
            found.append((end - start, flags))
            start, status = end, 0
    return [f for f in found if any(f)]


def check_interrupts(boot, recordings, episodes, cpu=0, spurious=0):
    """Interrupts that the kernel counted are those that the unit raised, but for events
    that a stop found first."""
    taken = sum(r.irqs[cpu] for r in recordings.values())
    found = episodes["stop with an event pending"]
    equal(f"{boot.name}: CPU {cpu}: the driver's interrupts are the unit's",
          taken - spurious + found, Log(boot.log, cpu).interrupts())
    return taken


def check_aux(title, recordings, log):
    """Sizes and flags of the driver's AUX records are the pointers and PMBSR_EL1
    that it read, one by one."""
    # Nothing, truncated: the reader was late and there was no room for a
    # buffer; no register says it.
    got = [(size, flags) for r in recordings.values()
           for _, size, flags in r.aux if (size, flags) != (0, 1)]
    want = reported(log.accesses())
    differ = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b),
                  min(len(got), len(want)))
    check(f"{title}: AUX records say what PMBPTR_EL1 and PMBSR_EL1 said", got == want != [],
          f"{len(got)} and {len(want)}; from {differ}: {got[differ:differ + 3]} and "
          f"{want[differ:differ + 3]}")


def near(name, got, want, share, spec=()):
    check(name, abs(got - want) <= share * want, f"got {got}, expected {want} within {share:.0%}",
          spec)


# ---- plans: NAME, options of perf record, command ----

N1 = "neoverse-n1"
V10 = "v1p0,no-eft,no-fpf,no-sme,no-spe-sme,countsize=2"
V12 = "v1p2,no-pbt,no-eft,no-fpf,no-sme,no-spe-sme,countsize=2"
SPE = "-e arm_spe/ts_enable=1"
RUN = "/tmp/workload"
PLAN_N1 = [
    ("user", f"{SPE},pa_enable=1,jitter=1/u -c 4096 -m,256", RUN),
    ("exact", f"{SPE},jitter=0/u -c 4096 -m,256", RUN),
    ("small", f"{SPE},pa_enable=1/ -c 2048 -m,4", RUN),
    ("kernel", f"{SPE}/k -c 2048 -m,64", "ls -la /bin"),
    ("load", f"{SPE},load_filter=1/u -c 2048 -m,64", RUN),
    ("store", f"{SPE},store_filter=1/u -c 1024 -m,64", RUN),
    ("branch", f"{SPE},branch_filter=1/u -c 2048 -m,64", RUN),
    ("latency", f"{SPE},min_latency=60/u -c 1024 -m,64", RUN),
    ("event", f"{SPE},event_filter=0x8/u -c 1024 -m,64", RUN),
    ("notime", "-e arm_spe/ts_enable=0/u -c 8192 -m,64", RUN),
    ("faults", f"{SPE}/ -c 4096 -m,256", f"{RUN} faults"),
]
PLAN_SMP = [
    ("wide", f"-a {SPE},pa_enable=1/ -c 8192 -m,16", f"taskset 1 {RUN} & taskset 2 {RUN}; wait"),
    ("snapshot", f"-S {SPE}/u -c 2048 -m,16", f"{RUN}; kill -USR2 $PPID; sleep 1"),
]
PLAN_V12 = [
    ("inverse", f"{SPE},inv_event_filter=0x8/u -c 2048 -m,64", RUN),
    ("discard", "-e arm_spe/discard=1/u -c 1024 -m,64", RUN),
    ("retired", f"{SPE},event_filter=2/u -c 4096 -m,64", RUN),
    ("newest", f"{SPE},jitter=1/u -c 4096 -m,256", RUN),
]
PLAN_MAX = [
    ("tiny", f"{SPE},jitter=1/ -c 256 -m,256", "ls -la /bin"),
    ("room", f"{SPE}/ -c 1024 -m,4", RUN),
    ("simd", f"{SPE},simd_filter=1,simd_filter_mask=1/u -c 256 -m,64", f"{RUN} vector"),
    ("float", f"{SPE},float_filter=1,float_filter_mask=1/u -c 256 -m,64", f"{RUN} vector"),
    ("nofloat", f"{SPE},float_filter=0,float_filter_mask=1/u -c 256 -m,64", f"{RUN} vector"),
    ("noload", f"{SPE},load_filter=0,load_filter_mask=1/u -c 256 -m,64", f"{RUN} vector"),
    ("source", f"{SPE},load_filter=1,inv_data_src_filter=0x1/u -c 512 -m,64", RUN),
]
PLAN_FAULT = [
    # the driver goes on at the next context switch: several faults may come in one recording
    ("fault", f"{SPE}/u -c 16384 -m,8", RUN),
    ("again", f"{SPE}/u -c 16384 -m,8", RUN),
    ("more", f"{SPE}/u -c 16384 -m,8", RUN),
    ("last", f"{SPE}/u -c 16384 -m,8", RUN),
    ("after", f"{SPE}/u -c 4096 -m,256", RUN),
]
DECODED = {"user", "small", "snapshot", "newest"}  # by the guest's own perf too: it is slow there


def test_n1(boot):
    r = boot.recordings()
    n1_records(boot, r)
    n1_interval(r)
    n1_who_and_when(boot, r)
    n1_profile(boot, r)
    n1_feeds(boot, r)
    n1_protocol(boot, r)


def n1_records(boot, r):
    """The driver's attributes, and what each kind of event records."""
    dmesg = boot.read("dmesg")
    check("n1: the driver's probe line", "[max_record_sz 64, align 64, features 0x37]" in dmesg,
          "\n".join(l for l in dmesg.splitlines() if "spe" in l))
    equal("n1: caps", boot.attributes("caps"),
          {"arch_inst": "0", "count_size": "12", "ernd": "1", "min_interval": "1024"})
    for name in r:
        check_recording(r[name], N1 + (",no-ts" if name == "notime" else ""))
    near("n1: as many samples as operations / interval", r["user"].records, LOOP_OPS / 4096 / 0.86,
         0.05)
    check("n1: :u samples EL0 alone", r["user"].els() == {"0"}, r["user"].els())
    check("n1: :k samples EL1 alone", r["kernel"].els() == {"1"}, r["kernel"].els())
    check("n1: without a suffix both", r["small"].els() == {"0", "1"}, r["small"].els())
    check("n1: load filter", set(t[:2] for t in r["load"].types()) == {"LD"}, r["load"].types())
    check("n1: store filter", set(t[:2] for t in r["store"].types()) == {"ST"}, r["store"].types())
    check("n1: branch filter", set(t[0] for t in r["branch"].types()) == {"B"}, r["branch"].types())
    latencies = [int(p.split()[1]) for p in r["latency"].packets if p.endswith("TOT")]
    check("n1: minimum latency", latencies and min(latencies) >= 60)
    check("n1: event filter",
          all("L1D-REFILL" in p for p in r["event"].packets if p.startswith("EV")))
    check("n1: without timestamps", not any(p.startswith("TS") for p in r["notime"].packets))


def n1_interval(r):
    """Exactly one interval and one operation lie between samples: in hot() each is one instruction
    further."""
    symbols = run("aarch64-linux-gnu-nm", os.path.join(WORK, "workload"))[1].decode()
    hot = int(re.search(r"^(\w+) t hot$", symbols, re.M).group(1), 16)
    words = run("aarch64-linux-gnu-objdump", "-d", "--disassemble=hot",
                os.path.join(WORK, "workload"))[1].decode()
    loop = int(re.search(r"b\.ne\s+([0-9a-f]+)", words).group(1), 16)
    pcs = [int(p.split()[1], 16) for p in r["exact"].packets if p.startswith("PC ")]
    inside = [(p - loop) // 4 if loop <= p < loop + 32 else None for p in pcs]
    steps = [(b - a) % 8 for a, b in zip(inside, inside[1:]) if a is not None and b is not None]
    check("n1: the interval is exact over context switches and interrupts",
          hot <= loop < hot + 64 and len(steps) > 3000 and set(steps) == {4097 % 8},
          collections.Counter(steps))


def n1_who_and_when(boot, r):
    """CONTEXTIDR_EL1 is the process; times are the guest's clock, in order."""
    contexts = {int(p.split()[1], 16) for p in r["user"].packets if p.startswith("CONTEXT")}
    code, text, err = run("perf", "script", "-i", r["user"].path, "--show-task-events")
    pids = {int(p) for p in re.findall(r"PERF_RECORD_COMM exec: workload:(\d+)/", text.decode())}
    check("n1: context packets hold the program's process id", pids and pids <= contexts,
          f"{contexts} and {pids}")
    for name in ("user", "small"):
        code, text, err = run("perf", "script", "-i", r[name].path, "--itrace=i1i", "-F", "time")
        times = [float(t.rstrip(":")) for t in text.decode().split()]
        begin, end = boot.window(name)
        check(f"n1: {name}: times are in order and inside the recording", times == sorted(times) and
              len(times) > 1000 and begin <= times[0] and times[-1] <= end,
              f"{begin} <= {times[:1]} .. {times[-1:]} <= {end}")


def n1_profile(boot, r):
    """The guest's perf and spex report name the same functions."""
    shares = dict((m[1], float(m[0]))
                  for m in re.findall(r"([\d.]+)%\s+\[\.\] (\w+)", boot.read("user.report")))
    check("n1: the guest's perf names the hot function", 80 < shares.get("hot", 0) < 92 and
          all(s in shares for s in ("walk", "flip")), shares)
    os.makedirs(os.path.join(WORK, "symfs/tmp"), exist_ok=True)
    shutil.copy(os.path.join(WORK, "workload"), os.path.join(WORK, "symfs/tmp/workload"))
    code, text, err = spex("report", "-i", r["user"].path, "--symfs", os.path.join(WORK, "symfs"),
                           "--format", "json")
    rows = json.loads(text)["rows"] if code == 0 else []
    ours = {row["symbol"]: 100 * row["samples"] / sum(x["samples"] for x in rows) for row in rows}
    check("n1: spex report names it too, with the same share of samples",
          abs(ours.get("hot", 0) - shares.get("hot", 0)) < 2, ours)


def n1_feeds(boot, r):
    """Other tools get the kernel's profile."""
    def feed(to):
        path = os.path.join(boot.share, "feed." + to)
        code, out, err = spex("export", "--to", to, "-i", r["kernel"].path, "--kallsyms",
                              os.path.join(boot.share, "out/kallsyms"), "-o", path)
        return open(path, "rb").read() if check(f"n1: export --to {to} of the kernel",
                                                code == 0 and os.path.exists(path), err) else b""
    for to in ("speedscope", "firefox", "pprof", "bolt", "profgen", "llvm", "autofdo", "parquet"):
        feed(to)
    lines = [l.rsplit(b" ", 1) for l in feed("collapsed").splitlines()]
    equal("n1: collapsed has all samples", sum(int(n) for _, n in lines), r["kernel"].records)
    named = sum(int(n) for stack, n in lines if stack.count(b";") >= 2)
    check("n1: with the kernel's functions", named > 0.99 * r["kernel"].records, lines[:5])


def n1_protocol(boot, r):
    """The driver's view and the unit's log agree."""
    log = Log(boot.log)
    check("n1: a small buffer fills often", r["small"].irqs[0] >= 20,
          f"{r['small'].irqs} interrupts")
    episodes = check_protocol(boot, "golden-6.1.txt", "probe", "reset", "start", "interrupt",
                              "stop")
    check_interrupts(boot, r, episodes)
    check_aux("n1", r, log)
    data = sum(len(l.split()[-1]) // 2 for l in log.lines if l.startswith("expect bytes"))
    equal("n1: sizes of AUX records are the bytes that the unit wrote",
          sum(a[1] for x in r.values() for a in x.aux), data)
    status = collections.Counter(l.split()[-1] for l in log.lines if l.startswith("read PMBSR_EL1"))
    check("n1: PMBSR_EL1 is nothing or buffer full, collided or not",
          set(status) <= {"0x0", "0x10000", "0x20001", "0x30001"} and
          status["0x20001"] + status["0x30001"] > 20, status)
    drop = [log.lines[i - 1] for i, l in enumerate(log.lines) if l == "expect irq 0"]
    check("n1: PMBIRQ drops when the driver clears PMBSR_EL1", drop and
          all(l == "write PMBSR_EL1 0x0" for l in drop), set(drop))
    # The counter goes on where it was: a start writes the period, or what a stop has read.
    read = {"0x400", "0x800", "0x1000", "0x2000"}
    odd = []
    for line in log.accesses():
        if line.startswith("read PMSICR_EL1"):
            read.add(line.split()[-1])
        elif line.startswith("write PMSICR_EL1") and line.split()[-1] not in read:
            odd.append(line)
    check("n1: PMSICR_EL1 is kept from stop to start", not odd and len(read) > 100, odd[:5])
    log.replay("n1")


def test_smp(boot):
    dmesg = boot.read("dmesg")
    check(f"{boot.name}: both CPUs are probed", "for CPUs 0-1" in dmesg)
    check(f"{boot.name}: booted at EL2 with VHE", "VHE mode initialized" in dmesg)
    r = boot.recordings()
    if check_recording(r["wide"], "max"):
        check(f"{boot.name}: kernel records say EL2, user records EL0",
              r["wide"].els() == {"0", "2"}, r["wide"].els())
        contexts = [p for p in r["wide"].packets if p.startswith("CONTEXT")]
        check(f"{boot.name}: context is CONTEXTIDR_EL2",
              contexts and all("el2" in p for p in contexts))
        code, text, err = run("perf", "script", "-i", r["wide"].path, "--itrace=i1i", "-F",
                              "cpu,comm")
        check(f"{boot.name}: both CPUs have samples",
              {"000", "001"} <= set(re.findall(r"\[(\d+)\]", text.decode())))
        check(f"{boot.name}: the program is among them", b"workload" in text)
    if "snapshot" in r:
        check_recording(r["snapshot"], "max", whole=False)
    logs = [Log(boot.log, cpu) for cpu in (0, 1)]
    # The driver on each CPU and that CPU's unit.
    for cpu in (0, 1):
        episodes = check_protocol(boot, "golden-6.1.txt", "boot at EL2", "reset", "start",
                                  "interrupt", cpu=cpu)
        taken = check_interrupts(boot, r, episodes, cpu)
        check(f"{boot.name}: CPU {cpu} has interrupts", taken)
    if list(r) == ["wide"]:
        for cpu, log in enumerate(logs):
            part = {"wide": r["wide"].of_cpu(cpu)}
            check_aux(f"{boot.name}: CPU {cpu}", part, log)
    for cpu, log in enumerate(logs):
        log.replay(f"{boot.name}-cpu{cpu}")


FORMAT = {"branch_filter": "config:32", "event_filter": "config1:0-63", "jitter": "config:16",
          "load_filter": "config:33", "min_latency": "config2:0-11", "pa_enable": "config:1",
          "pct_enable": "config:2", "store_filter": "config:34", "ts_enable": "config:0"}
FORMAT_V12 = {**FORMAT, "discard": "config:35", "inv_event_filter": "config3:0-63"}
FORMAT_MAX = {**FORMAT_V12, "branch_filter_mask": "config:36", "load_filter_mask": "config:37",
              "store_filter_mask": "config:38", "simd_filter": "config:39",
              "simd_filter_mask": "config:40", "float_filter": "config:41",
              "float_filter_mask": "config:42", "inv_data_src_filter": "config4:0-63"}


def check_attributes(boot, version, form, caps):
    dmesg = boot.read("dmesg")
    check(f"{boot.name}: the driver names the version", f"probed SPEv1.{version} for" in dmesg,
          "\n".join(l for l in dmesg.splitlines() if "spe_pmu" in l))
    equal(f"{boot.name}: format attributes", boot.attributes("format"), form)
    equal(f"{boot.name}: caps", boot.attributes("caps"), caps)


def test_v1p0(boot):
    check_attributes(boot, 0, FORMAT, {"arch_inst": "1", "count_size": "12", "ernd": "1",
                                       "event_filter": "0xaa", "min_interval": "1024"})


def test_v1p2(boot):
    check_attributes(boot, 2, FORMAT_V12, {"arch_inst": "1", "count_size": "12", "ernd": "1",
                                           "event_filter": "0x608ea", "min_interval": "1024"})
    r = boot.recordings()
    if check_recording(r["inverse"], V12):
        check("v1p2: no record with a filtered event",
              not any("L1D-REFILL" in p for p in r["inverse"].packets if p.startswith("EV")))
    check_recording(r["newest"], V12)
    check("v1p2: perf's example event_filter=2 is accepted, and everything is retired",
          check_recording(r["retired"], V12) and
          all("RETIRED" in p for p in r["retired"].packets if p.startswith("EV")))
    d = r["discard"]
    log = Log(boot.log)
    begins = sum(l.startswith("begin s")
                 for l in log.lines[log.lines.index("write PMBLIMITR_EL1 0x5"):])
    check("v1p2: discard mode: sampled, but no record and no interrupt", d.ok and d.exit == 0 and
          d.records == 0 and d.irqs == [0] and begins > 10000, f"{begins} samples")
    log.replay("v1p2")


def test_max(boot):
    check_attributes(boot, 5, FORMAT_MAX, {"arch_inst": "1", "count_size": "16", "ernd": "1",
                                           "event_filter": "0x3fe0ffe", "min_interval": "1024"})
    r = boot.recordings()
    for name in r:
        check_recording(r[name], "max")
    types = {n: r[n].types() for n in ("simd", "float", "nofloat", "noload", "source")}
    # Loads of D registers are floating point, loads of Q registers SIMD: perf prints both as
    # SIMD-FP. The C library loads a few Q registers, vector() none.
    simd = {"OTHER ASE FP INSN-OTHER", "OTHER ASE INSN-OTHER", "ST SIMD-FP", "LD SIMD-FP"}
    check("max: SIMD filter", set(types["simd"]) <= simd and len(types["simd"]) >= 3 and
          types["simd"]["LD SIMD-FP"] < 20, types["simd"])
    check("max: floating-point filter",
          all(t == "LD SIMD-FP" or " FP " in t for t in types["float"]) and
          len(types["float"]) == 3, types["float"])
    check("max: no floating point",
          types["nofloat"] and not any(" FP " in t for t in types["nofloat"]) and
          types["nofloat"]["LD SIMD-FP"] < 20, types["nofloat"])
    check("max: no loads", types["noload"] and not any(t.startswith("LD") for t in types["noload"]),
          types["noload"])
    sources = collections.Counter(p for p in r["source"].packets if p.startswith("DATA-SOURCE"))
    check("max: data source filter drops source 0", sources and "DATA-SOURCE 0" not in sources,
          sources)
    check_protocol(boot, "golden-7.2.txt", "probe", "reset", "start", "interrupt", "stop")
    Log(boot.log).replay("max")


def test_injected(boot):
    after = boot.read("dmesg.after")
    for name, message, status in [("fault", "Unexpected buffer fault", 0x90020007),
                                  ("abort", "Unexpected buffer fault", 0x90060010),
                                  ("event", "Unknown error code", 0x7c020000)]:
        equal(f"injected {name}: the driver reports it, once",
              after.count(f"{message} on CPU 0 [PMBSR=0x{status:016x}"), 1)
    r = boot.recordings()
    for name in r:
        check_recording(r[name], N1)
    check("injected collisions: an AUX record says so",
          any(a[2] & 8 for x in r.values() for a in x.aux))
    log = Log(boot.log)
    equal("injected collisions: as many as asked",
          sum(l.startswith("begin none") for l in log.lines), 20)
    check_aux("injected", r, log)
    near("profiling goes on after the faults", r["after"].records, LOOP_OPS / 4096 / 0.86, 0.05)
    episodes = check_protocol(boot, "golden-6.1.txt", "fault", "stop without a buffer",
                              "spurious interrupt")
    check_interrupts(boot, r, episodes, spurious=1)
    equal("injected irq: the driver looks and leaves, once", episodes["spurious interrupt"], 1)
    log.replay("injected")


def test_reserved_id(boot):
    dmesg = boot.read("dmesg")
    check("reserved PMSIDR_EL1: the driver warns and assumes",
          "unknown PMSIDR_EL1.Interval [15]; assuming 8" in dmesg and
          "unknown PMSIDR_EL1.CountSize [15]; assuming 2" in dmesg and "probed for CPUs 0" in dmesg,
          "\n".join(l for l in dmesg.splitlines() if "spe" in l))
    caps = boot.attributes("caps")
    equal("reserved PMSIDR_EL1: caps", (caps.get("min_interval"), caps.get("count_size")),
          ("4096", "12"))


def test_owned(boot):
    dmesg = boot.read("dmesg")
    check("PMBIDR_EL1.P: the driver refuses",
          "profiling buffer owned by higher exception level" in dmesg and
          not boot.attributes("caps"), "\n".join(l for l in dmesg.splitlines() if "spe" in l))
    check("--kernel, --initrd and --append boot too",
          re.search(r"Kernel command line: .* kpti=off .*word=1$", dmesg, re.M))


def main():
    os.makedirs(WORK, exist_ok=True)
    code, out, err = run("aarch64-linux-gnu-gcc", "-O2", "-g", "-static", "-o",
                         os.path.join(WORK, "workload"), os.path.join(HERE, "workload.c"))
    if code or not shutil.which("qemu-system-aarch64"):
        skip("spex vm", "no cross compiler or no qemu-system-aarch64")
        done()
    old, why = guest("debian")
    if not old:
        skip("spex vm", "the guest could not be prepared: " + why)
        done()
    new, why = guest("newest", "trixie-backports")
    old, new = ("--guest", old), new and ("--guest", new)
    # Other sets of features, ID registers and versions of QEMU show no more of how
    # driver and unit work together.
    chosen = sys.argv[1:] or (None if LONG else ["n1", "max", "smp", "injected"])
    later, why_later = (None, "") if chosen and "smp on QEMU 11.1" not in chosen else qemu11()
    two = ("--cpu", "max", "--smp", "2", "--el2")
    boots = [  # test, name, guest, plan, options; the long ones first
             (test_n1, "n1", old, PLAN_N1, ("--cpu", N1)),
             (test_max, "max", new, PLAN_MAX, ("--cpu", "max")),
             (test_smp, "smp", old, PLAN_SMP, two),
             (test_v1p2, "v1p2", new, PLAN_V12, ("--features", V12)),
             (test_injected, "injected", old, PLAN_FAULT,
              ("--cpu", N1, "--inject", "fault@100", "--inject", "abort@300", "--inject",
               "event@500", "--inject", "collide@900+20", "--inject", "irq@2500")),
             (test_smp, "smp on QEMU 11.1", old if later else None, PLAN_SMP[:1],
              two + ("--qemu", later)),
             (test_v1p0, "v1p0", new, [], ("--features", V10)),
             (test_reserved_id, "reserved", old, [],
              ("--cpu", N1, "--inject", "id:PMSIDR_EL1:0xf6f37", "--inject", "id:PMSVer:15")),
             (test_owned, "owned", ("--kernel", old[1] + "/Image", "--initrd", old[1] + "/initrd",
                                    "--append", "word=1"), [],
              ("--cpu", N1, "--inject", "id:PMBIDR_EL1:0x36")),
    ]
    boots = [b for b in boots if not chosen or b[1] in chosen]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [(b, pool.submit(Boot, b[1].replace(" ", "-"), *b[2:4], *b[4]) if b[2] else None)
                for b in boots]
        for (test, name, _, _, _), job in jobs:
            if not job:
                skip(name, "could not be prepared: " + (why_later if "QEMU" in name else why))
                continue
            try:
                boot, begin = job.result(), time.monotonic()
                if boot.came_up():
                    test(boot)
                print(f"# {name}: {boot.seconds:.0f} s in the guest, "
                      f"{time.monotonic() - begin:.0f} s to look at it")
            except Exception as e:
                check(f"{name}: {test.__name__}", False, repr(e))
    done()


main()
