"""Code of just-in-time compilers under record: names from perf-PID.map and jitdump,
where the guest's own process number is the host's; code that took the place of other
code is told apart by time."""
import csv, io, struct
from guest import *
sys.path.insert(0, os.path.join(HERE, "..", "perfdata"))
import pd

need_engine("just-in-time compilers")
program = build("jit")
# instructions of three million rounds each
WANT = {"jit_first": 4, "jit_other, with blanks": 8, "jit_second": 6}


def shares(path, *options):
    code, out, err = spex("report", "-i", path, "--format", "csv", *options)
    return {r["symbol"]: int(r["samples"]) for r in csv.DictReader(io.StringIO(out.decode()))}, err


for how in ("map", "dump", "late"):
    code, out, err, path = record("--model", "none", "-e", "arm_spe//", "-c", "4096", "--", program,
                                  how, WORK, name=how + ".data")
    equal(f"{how}: runs", code, 0)
    os.unlink(out.decode().strip())  # the profile has all that it needs
    got, err = shares(path)
    want = {n: w for n, w in WANT.items() if how != "late" or n != "jit_second"}
    total = sum(want.values())
    odd = {n: (got.get(n), 3e6 * w / 4097) for n, w in want.items()
           if abs(got.get(n, 0) - 3e6 * w / 4097) > 0.02 * 3e6 * w / 4097 + 3}
    check(f"{how}: each function has its samples", not odd, (odd, got, err))
    code, out, err = spex("report", "-i", path, "--sort", "dso", "--format", "csv")
    equal(f"{how}: they are of one file", out.decode().count("[jit]"), 1)
    code, out, err = run("perf", "script", "-i", path, "--itrace=i1i", "-F", "ip,dso")
    check(f"{how}: perf reads the file", code == 0 and (b"[jit] jit_first" in out or how == "late"),
          err[:300])

# ---- code that nobody names is one row, which --sort pc opens; and what would name it ----
code, out, err, path = record("--model", "none", "-e", "arm_spe//", "-c", "4096", "--", program,
                              "none", name="none.data")
got, err = shares(path)
check("code without names is one row", code == 0 and
      abs(got.get("[anonymous code of jit]", 0) - 3e6 * 12 / 4097) < 0.02 * 3e6 * 12 / 4097 + 3 and
      not [n for n in got if n.startswith("0x")], got)
check("and a note says what is missing", "made at run time" in err and "perf-" in err, err)
code, out, err = spex("report", "-i", path, "--format", "csv", "--sort", "pc")
check("--sort pc has its instructions", out.decode().count("\n0x") + out.decode().count(",0x") >= 8,
      out)

# ---- a profile of hardware, with clock monotonic, beside its jitdump file; BPF
# programs of the kernel ----


def jitdump(path, pid, codes):
    with open(path, "wb") as f:
        f.write(struct.pack("<6IQQ", 0x4a695444, 1, 40, 183, 0, pid, 0, 0))
        for i, (time, start, size, name) in enumerate(codes):
            body = (struct.pack("<IIQQQQ", pid, pid, start, start, size, i) + name.encode() +
                    b"\0" + bytes(size))
            f.write(struct.pack("<IIQ", 0, 16 + len(body), time) + body)
        # the second goes to 0x9000
        move = struct.pack("<IIQQQQQ", pid, pid, 0, 0x5000, 0x9000, 64, 1)
        f.write(struct.pack("<IIQ", 1, 16 + len(move), 90000) + move)
        f.write(struct.pack("<IIQ", 0, 1000, 5) + b"cut")


dump = os.path.join(WORK, "jit-77.dump")
jitdump(dump, 77,
        [(20000, 0x4000, 64, "early"), (20000, 0x5000, 64, "moved"), (50000, 0x4000, 64, "later")])
KERNEL = 0xffff800080001000


def hardware(clockid):
    """Samples of 77 at places and times; ticks are 10 ns."""
    f = pd.File(cpus=1)
    if clockid is not None:
        for a in f.attrs:
            a["flags"] |= 1 << 25  # use_clockid
            a["clockid"] = clockid
    f.comm(77, 77, "java", time=1)
    f.mmap2(77, 77, 0x4000, 0x8000, "//anon", time=2)
    f.mmap2(77, 77, 0x100000, 0x1000, dump, time=3)
    f.event(17, f.p("QIHH", KERNEL, 256, 1, 0) + f.text("bpf_prog_6deef7357e7b4530_count"), time=4)
    f.event(17, f.p("QIHH", KERNEL, 256, 1, 1) + f.text("bpf_prog_6deef7357e7b4530_count"),
            time=80000)
    spe = b""
    for pc, when, times in ((0x4010, 3000, 3), (0x4010, 6000, 5), (0x5010, 3000, 7),
                            (0x9010, 9500, 2), (0x4010, 100, 1)):
        for i in range(times):
            spe += pd.record(pc, ctx=77, ts=when + i)
    for i in range(4):
        spe += pd.record(KERNEL + 16, el=1, ctx=77, ts=4000 + i)
    f.trace(spe, time=5)
    path = os.path.join(WORK, "hardware.data")
    with open(path, "wb") as out:
        out.write(f.bytes())
    return path


got, err = shares(hardware(1))
equal("jitdump: by time and place", {k: got.get(k) for k in ("early", "later", "moved")},
      {"early": 3, "later": 5 + 1, "moved": 9})  # one before it was told
equal("a BPF program has its name", got.get("bpf_prog_6deef7357e7b4530_count"), 4)
got, err = shares(hardware(None))
equal("jitdump: times of another clock say nothing, the last at a place counts",
      {k: got.get(k) for k in ("early", "later", "moved")}, {"early": None, "later": 9, "moved": 9})
path, wanted = hardware(1), shares(hardware(1))[0]
other, elsewhere = os.path.join(WORK, "other"), os.path.join(WORK, "elsewhere")
os.makedirs(elsewhere)
code, out, err = spex("archive", path, "-o", os.path.join(WORK, "jit.tar"))
equal("jitdump: archive", code, 0)
os.makedirs(other + WORK)
os.rename(dump, other + dump)
check("jitdump: elsewhere it is not found", "early" not in shares(path)[0])
equal("jitdump: below --symfs", shares(path, "--symfs", other)[0], wanted)
run("tar", "xf", os.path.join(WORK, "jit.tar"), "-C", elsewhere)
equal("jitdump: in an archive", shares(os.path.join(elsewhere, "perf.data"))[0], wanted)
os.rename(other + dump, dump)
os.unlink(dump)
got, err = shares(hardware(1))
check("without the file the rest is named",
      got.get("bpf_prog_6deef7357e7b4530_count") == 4 and "early" not in got, got)
jitdump(dump, 78, [(20000, 0x4000, 64, "early")])
got, err = shares(hardware(1))
check("a file of another process is not read", "early" not in got, got)
done()
