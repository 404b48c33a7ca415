"""Linux's own SPE driver and perf on the unit, under an unmodified qemu-system-aarch64.

Guests are prepared once in the build directory from Debian's arm64 packages; without them (no
network) every test is skipped, visibly.
"""
import collections
import concurrent.futures
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = os.path.join(BUILD, "vm")
LOOP_OPS = 8 * 2000000  # operations of hot() in workload.c


def guest(name, suite=None):
    path = os.path.join(WORK, name)
    code, out, err = spex("vm", "--setup", path, *(["--suite", suite] if suite else []), timeout=900)
    return path if code == 0 else None, err


def boot(name, where, plan, *options):
    """Boots, runs the plan, returns the directory of results."""
    share = os.path.join(WORK, "run-" + name)
    shutil.rmtree(share, ignore_errors=True)
    os.makedirs(share)
    shutil.copy(os.path.join(HERE, "guest-run"), os.path.join(share, "run"))
    shutil.copy(os.path.join(WORK, "workload"), share)
    with open(os.path.join(share, "plan"), "w") as f:
        f.write("".join(f"{n}:{o}:{c}\n" for n, o, c in plan))
    log = os.path.join(share, "log")
    code, out, err = spex("vm", "--guest", where, "--share", share, "--log", log, *options, timeout=400)
    with open(os.path.join(share, "console"), "wb") as f:
        f.write(out[-200000:] + err.encode())
    return share


class Recording:
    """One perf.data that the guest made, as the host's perf prints it."""

    def __init__(self, share, name):
        out = os.path.join(share, "out")
        self.path = os.path.join(out, name + ".data")
        self.ok = os.path.exists(self.path)
        if not self.ok:
            return
        self.exit, self.irqs = map(int, open(os.path.join(out, name + ".status")).read().split())
        self.guest_records, self.guest_bad = map(int, open(os.path.join(out, name + ".counts")).read().split())
        self.err = open(os.path.join(out, name + ".err")).read()
        code, dump, err = run("perf", "report", "-D", "-i", self.path)
        self.packets = [l[62:].strip() for l in dump.decode(errors="replace").splitlines()
                        if re.match(r"\.  [0-9a-f]{8}: ", l)]
        self.by_perf = b"incompatible" not in err.encode() and bool(self.packets)
        if not self.by_perf:  # perf 6.1 refuses the attributes of a newer perf; spex does not
            code, dump, err = spex("dump", "--style", "perf", self.path)
            self.packets = [l[62:].strip() for l in dump.decode(errors="replace").splitlines()
                            if re.match(r"\.  [0-9a-f]{8}: ", l)]
        self.records = sum(p.startswith("PC ") for p in self.packets)

    def all(self, prefix, pattern):
        some = [p for p in self.packets if p.startswith(prefix)]
        return bool(some) and all(re.search(pattern, p) for p in some)

    def els(self):
        return collections.Counter(re.search(r" el(\d)", p).group(1) for p in self.packets if p.startswith("PC "))


def check_recording(title, r, features, whole=True):
    """What holds for every recording: perf took it, no bad packet, spex sees the same.
    A snapshot is not whole: it starts in the middle of a record."""
    if not check(f"{title}: recorded", r.ok and r.exit == 0, getattr(r, "err", "no perf.data")):
        return False
    check(f"{title}: the guest's perf decodes every record", r.guest_bad <= (0 if whole else 8) and r.guest_records > 0,
          f"{r.guest_records} records, {r.guest_bad} bad lines")
    equal(f"{title}: guest's and host's perf see the same records", r.guest_records, r.records)
    code, out, err = spex("verify", "--features", features, r.path)
    check(f"{title}: spex verify finds nothing", code == 0 or (not whole and len(out.splitlines()) <= 3),
          out[-2000:].decode() + err)
    if not r.by_perf or not whole:
        return True
    code, out, err = spex("dump", "--style", "perf", r.path)
    mine = [l[62:].strip() for l in out.decode().splitlines() if re.match(r"\.  [0-9a-f]{8}: ", l)]
    check(f"{title}: spex dump prints what perf prints", mine == r.packets,
          f"{len(mine)} and {len(r.packets)} packets")
    return True


def near(name, got, want, share, spec=()):
    check(name, abs(got - want) <= share * want, f"got {got}, expected {want} within {share:.0%}", spec)


N1 = "neoverse-n1"
V12 = "v1p2,no-pbt"
BASIC = "-e arm_spe/ts_enable=1,pa_enable=1,jitter=1"
PLAN_N1 = [
    ("user", "-e arm_spe/ts_enable=1,pa_enable=1,jitter=1/u -c 4096 -m,256", "/tmp/workload"),
    ("small", "-e arm_spe/ts_enable=1,pa_enable=1,jitter=0/ -c 2048 -m,4", "/tmp/workload"),
    ("kernel", "-e arm_spe/ts_enable=1/k -c 2048 -m,64", "ls -la /bin"),
    ("load", "-e arm_spe/ts_enable=1,load_filter=1/u -c 2048 -m,64", "/tmp/workload"),
    ("store", "-e arm_spe/ts_enable=1,store_filter=1/u -c 1024 -m,64", "/tmp/workload"),
    ("branch", "-e arm_spe/ts_enable=1,branch_filter=1/u -c 2048 -m,64", "/tmp/workload"),
    ("latency", "-e arm_spe/ts_enable=1,min_latency=60/u -c 1024 -m,64", "/tmp/workload"),
    ("event", "-e arm_spe/ts_enable=1,event_filter=0x8/u -c 1024 -m,64", "/tmp/workload"),
    ("notime", "-e arm_spe/ts_enable=0/u -c 8192 -m,64", "/tmp/workload"),
]
PLAN_SMP = [
    ("wide", "-a -e arm_spe/ts_enable=1,pa_enable=1/ -c 8192 -m,128", "/tmp/workload & /tmp/workload; wait"),
    ("snapshot", "-S -e arm_spe/ts_enable=1/u -c 2048 -m,16", "/tmp/workload; kill -USR2 $PPID; sleep 1"),
]
PLAN_NEW = [
    ("inverse", "-e arm_spe/ts_enable=1,inv_event_filter=0x8/u -c 2048 -m,64", "/tmp/workload"),
    ("discard", "-e arm_spe/discard=1/u -c 1024 -m,64", "/tmp/workload"),
    ("user", "-e arm_spe/ts_enable=1,jitter=1/u -c 4096 -m,256", "/tmp/workload"),
]
PLAN_FAULT = [
    ("fault", "-e arm_spe/ts_enable=1/u -c 1024 -m,64", "/tmp/workload"),
    ("after", "-e arm_spe/ts_enable=1/u -c 4096 -m,64", "/tmp/workload"),
]


def protocol(share):
    """The driver's register accesses as the unit logged them."""
    lines = [l.split(None, 1)[1].strip() for l in open(os.path.join(share, "log"))]
    return [l for l in lines if l.startswith(("read ", "write ", "psb", "expect irq"))]


def shape(line):
    """An access without its value."""
    words = line.split()
    return " ".join(words[:2]) if words[0] in ("read", "write") else line


def sequence(lines, *want):
    """want occurs as one run."""
    shapes = [shape(l) for l in lines if not l.startswith(("#", "expect"))]
    return any(shapes[i:i + len(want)] == list(want) for i in range(len(shapes)))


def test_n1(share):
    out = os.path.join(share, "out")
    dmesg = open(os.path.join(out, "dmesg")).read()
    check("the driver's probe line", "[max_record_sz 64, align 64, features 0x37]" in dmesg,
          "\n".join(l for l in dmesg.splitlines() if "spe" in l))
    attributes = dict(l.split(" ", 1) for l in open(os.path.join(out, "attributes")).read().splitlines())
    equal("caps of neoverse-n1", {k: v for k, v in attributes.items() if k.startswith("caps/")},
          {"caps/arch_inst": "0", "caps/count_size": "12", "caps/ernd": "1", "caps/min_interval": "1024"})
    check("no inverse filter before SPEv1p2", "format/inv_event_filter" not in attributes)
    r = {name: Recording(share, name) for name, _, _ in PLAN_N1}
    for name in r:
        check_recording(name, r[name], N1 + (",no-ts" if name == "notime" else ""))
    near("sample count is operations / interval", r["user"].records, LOOP_OPS / (4096 + 1) * 1.33, 0.25)
    check(":u samples EL0 alone", set(r["user"].els()) == {"0"}, r["user"].els())
    check(":k samples EL1 alone", set(r["kernel"].els()) == {"1"}, r["kernel"].els())
    check("without a suffix both", {"0", "1"} <= set(r["small"].els()), r["small"].els())
    check("a small buffer fills often", r["small"].irqs >= 20, f"{r['small'].irqs} interrupts")
    check("load filter", r["load"].all("LD", "LD") and not any(p.startswith(("ST", "B", "OTHER")) for p in r["load"].packets))
    check("store filter", r["store"].all("ST", "ST") and not any(p.startswith(("LD", "B", "OTHER")) for p in r["store"].packets))
    check("branch filter", any(p.startswith("B") for p in r["branch"].packets) and
          not any(p.startswith(("LD", "ST", "OTHER")) for p in r["branch"].packets))
    check("minimum latency", all(int(p.split()[1]) >= 60 for p in r["latency"].packets if p.endswith("TOT")))
    check("event filter", r["event"].all("EV", "L1D-REFILL"))
    check("without timestamps records end with END", not any(p.startswith("TS") for p in r["notime"].packets))
    code, text, err = spex("report", "-i", r["user"].path, "--symfs", WORK, "--format", "json")
    check("spex report reads the guest's file", code == 0, err)
    equal("interrupts: the driver's count is the unit's", sum(r[n].irqs for n in r),
          sum(l == "expect irq 1" for l in protocol(share)))
    lines = protocol(share)
    check("probe: PMBIDR before any other register, then PMSIDR",
          [shape(l) for l in lines[:2]] == ["read PMBIDR_EL1", "read PMSIDR_EL1"], lines[:3], spec="SMP-03")
    check("reset: drain, then pointer and status", sequence(
        lines, "write PMSCR_EL1", "psb", "write PMBLIMITR_EL1", "write PMBPTR_EL1", "write PMBSR_EL1"))
    check("start: buffer, filters, interval, counter, control", sequence(
        lines, "write PMBPTR_EL1", "write PMBLIMITR_EL1", "write PMSFCR_EL1", "write PMSEVFR_EL1",
        "write PMSLATFR_EL1", "write PMSIRR_EL1", "write PMSICR_EL1", "write PMSCR_EL1"))
    check("interrupt: drain, status, pointer, new buffer, clear", sequence(
        lines, "psb", "read PMBSR_EL1", "read PMBPTR_EL1", "write PMBPTR_EL1", "write PMBLIMITR_EL1",
        "write PMBSR_EL1"))
    full = [l for l in lines if l.startswith("read PMBSR_EL1") and int(l.split()[-1], 0) & 1 << 17]
    check("buffer full reads EC 0, BSC 1, S", full and all(int(l.split()[-1], 0) & ~(1 << 16) == 0x20001 for l in full),
          collections.Counter(full))
    drop = [i for i, l in enumerate(lines) if l == "expect irq 0"]
    check("PMBIRQ drops when the driver clears PMBSR", drop and all(shape(lines[i - 1]) == "write PMBSR_EL1" for i in drop))


def test_smp(share):
    out = os.path.join(share, "out")
    dmesg = open(os.path.join(out, "dmesg")).read()
    check("both CPUs are probed", "for CPUs 0-1" in dmesg)
    check("booted at EL2 with VHE", "VHE mode initialized" in dmesg)
    r = Recording(share, "wide")
    if check_recording("system-wide at EL2", r, "max"):
        check("kernel records say EL2, user records EL0", set(r.els()) == {"0", "2"}, r.els())
        check("context is CONTEXTIDR_EL2", r.all("CONTEXT", "el2"))
        code, text, err = run("perf", "script", "-i", r.path, "--itrace=i1i", "-F", "cpu,comm")
        cpus = set(re.findall(r"\[(\d+)\]", text.decode()))
        check("both CPUs have samples", {"000", "001"} <= cpus, cpus)
        check("the program is among them", b"workload" in text)
    check_recording("snapshot", Recording(share, "snapshot"), "max", whole=False)


def test_new(share):
    out = os.path.join(share, "out")
    dmesg = open(os.path.join(out, "dmesg")).read()
    check("the newer driver names the version", "probed SPEv1.2" in dmesg,
          "\n".join(l for l in dmesg.splitlines() if "spe_pmu" in l))
    attributes = dict(l.split(" ", 1) for l in open(os.path.join(out, "attributes")).read().splitlines())
    check("SPEv1p2 shows the inverse filter", attributes.get("format/inv_event_filter") == "config3:0-63", attributes)
    r = Recording(share, "inverse")
    if check_recording("inverse filter", r, V12):
        check("no record with a filtered event", not any("L1D-REFILL" in p for p in r.packets if p.startswith("EV")))
    check_recording("newer driver", Recording(share, "user"), V12)
    if "format/discard" in attributes:
        r = Recording(share, "discard")
        check("discard mode: no record, no interrupt", r.ok and r.records == 0 and r.irqs == 0)
    else:
        skip("discard mode", "this kernel's driver does not know it")


def test_fault(share):
    out = os.path.join(share, "out")
    after = open(os.path.join(out, "dmesg.after")).read()
    check("the driver reports the injected fault", re.search(r"fault|unexpected|unhandled", after.split("arm_spe_pmu spe-pmu: probed")[-1], re.I),
          after[-1500:])
    lines = protocol(share)
    seen = [int(l.split()[-1], 0) for l in lines if l.startswith("read PMBSR_EL1")]
    check("PMBSR says translation fault at stage 1", any(v >> 26 & 0x3f == 0x24 and v & 0x3f == 7 and v >> 17 & 1 for v in seen),
          list(map(hex, seen)), spec="BUF-168")
    r = Recording(share, "after")
    check_recording("profiling goes on after the fault", r, N1)


def main():
    os.makedirs(WORK, exist_ok=True)
    code, out, err = run("aarch64-linux-gnu-gcc", "-O2", "-g", "-static", "-o", os.path.join(WORK, "workload"),
                         os.path.join(HERE, "workload.c"))
    if code or not shutil.which("qemu-system-aarch64"):
        skip("spex vm", "no cross compiler or no qemu-system-aarch64")
        done()
    old, why = guest("debian")
    new, why_new = guest("backports", "bookworm-backports")
    if not old:
        skip("spex vm", "the guest could not be prepared: " + why.strip().splitlines()[-1][:200])
        done()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [(test_n1, pool.submit(boot, "n1", old, PLAN_N1, "--cpu", N1)),
                (test_smp, pool.submit(boot, "smp", old, PLAN_SMP, "--cpu", "max", "--smp", "2", "--el2")),
                (test_fault, pool.submit(boot, "fault", old, PLAN_FAULT, "--cpu", N1, "--inject", "fault@300"))]
        if new:
            jobs.append((test_new, pool.submit(boot, "new", new, PLAN_NEW, "--features", V12)))
        else:
            skip("newer kernel", "could not be prepared: " + why_new.strip().splitlines()[-1][:200])
    for test, job in jobs:
        try:
            test(job.result())
        except Exception as e:
            check(test.__name__, False, repr(e))
    done()


main()
