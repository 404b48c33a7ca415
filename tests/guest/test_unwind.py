"""Call stacks of record -g against gdb's unwinding at the same instruction: Debian's
sqlite3 and python3, and Go.

The program runs instruction by instruction under snapshot.c, which counts them as the unit does (no
jitter, no model) and leaves a core file of each chosen one: sqlite3 a second time and without spex,
the others while they are recorded. Return addresses are compared, frame by frame."""
import glob
import random

from guest import *

need_engine("unwinding")
if not shutil.which("gdb-multiarch"):
    skip("call stacks against gdb", "no gdb-multiarch (package gdb-multiarch)")
    done()
ARM64 = os.path.join(BUILD, "arm64")
# gdb does not get out of the dynamic linker where it binds a function that is being called
ENV = {"PYTHONHASHSEED": "0", "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1", "GOMAXPROCS": "1",
       "GOGC": "off", "GODEBUG": "asyncpreemptoff=1", "LD_BIND_NOW": "1"}
CHOSEN = 200 if os.environ.get("SPEX_LONG") else 60  # make check-programs
SNAPSHOT = os.path.join(BUILD, "tests/guest/libsnapshot.so")
PYTHON = """
import _json, _heapq
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
heap = []
for i in range(2000):
    _heapq.heappush(heap, (i * 7919 % 1000, _json.encode_basestring_ascii('row ' * 30 + str(i))))
print(fib(14), sorted(heap, key=lambda k: k[1])[:3])
"""
SQL = ("create table t(a integer primary key, b text);"
       "with recursive c(x) as (select 1 union all select x + 1 from c where x < 2000) "
       "insert into t select x, 'row ' || x * 7919 % 1000 from c;"
       "create index i on t(b); select b, count(*) from t group by b order by b limit 5;")
# In gdb: one line for each core, return addresses outward, inlined frames left out.
GDB = """
import gdb, sys
gdb.execute("set pagination off")
gdb.execute("set backtrace past-main on")
gdb.execute("set backtrace past-entry on")
gdb.execute("set backtrace limit 2000")
gdb.execute("set auto-load libthread-db off")
for core in CORES:
    gdb.execute("nosharedlibrary")  # more may have been opened since
    gdb.execute("core-file " + core, to_string=True)
    gdb.execute("maint flush dcache", to_string=True)  # else memory of the core before
    gdb.execute("maint flush register-cache", to_string=True)
    frame, out = gdb.newest_frame(), []
    while frame is not None and frame.pc():
        if frame.type() != gdb.INLINE_FRAME:
            out.append("%x" % frame.pc())
        try:
            frame = frame.older()
        except gdb.error:
            break
    print("STACK", core, *out)
"""


def stacks_of(path):
    """Of each sample, in order: its vCPU and addresses, innermost first, as
    they are in the file."""
    code, out, err = run("perf", "report", "-D", "-i", path)
    stacks = []
    for line in out.decode(errors="replace").splitlines():
        m = re.match(r"(\d+) \d+ 0x\S+ \S+ PERF_RECORD_SAMPLE", line)
        if m:
            stacks.append((int(m[1]), []))
        elif line.startswith(".....") and ": ffffffff" not in line:
            stacks[-1][1].append(int(line.split()[-1], 16))
    return stacks


def plain(sysroot, program, args, options):
    """The program without spex, one instruction a block. QEMU hands the environment over
    backwards, spex does not."""
    env = reversed(dict(os.environ, **ENV).items())
    return run("env", "-i", *(f"{k}={v}" for k, v in env), "qemu-aarch64", "-cpu", "neoverse-n1",
               "-seed", "1", "-L", sysroot, "-singlestep", "-plugin",
               f"{SNAPSHOT},{options},to={WORK}", program, *args, timeout=500)


def index_of(stacks, pcs, step):
    """Which instruction each sample is: its number, if one phase fits the whole sequence of
    addresses. The operation that is sampled does not count towards the next: a step is one
    more than the period."""
    at = {}
    for line in open(pcs):
        _, index, pc = line.split()
        at[int(index)] = int(pc, 16)
    fits = [d for d in range(-6, 7)
            if all(at.get(step * (k + 1) + d) == s[1][0] for k, s in enumerate(stacks))]
    return [step * (k + 1) + fits[0] for k in range(len(stacks))] if len(fits) == 1 else fits


def unwound(sysroot, program, cores):
    script = os.path.join(WORK, "unwind.py")
    with open(script, "w") as f:
        f.write(f"CORES = {cores!r}\n{GDB}")
    # opened by their names on the host
    modules = ":".join(glob.glob(f"{sysroot}/usr/lib/python3*/lib-dynload"))
    code, out, err = run("gdb-multiarch", "-nx", "-q", "-batch", "-ex", f"set sysroot {sysroot}",
                         "-ex", f"set solib-search-path {modules}", "-ex", f"file {program}", "-x",
                         script, timeout=500)
    found = {}
    for line in out.decode(errors="replace").splitlines():
        if line.startswith("STACK "):
            _, core, *frames = line.split()
            found[core] = [int(f, 16) for f in frames]
    return found, err


def compare(name, period, sysroot, program, args):
    # what a program finds on the disk may change between two runs: other
    # tests unpack packages there
    for _ in range(3):
        code, out, err, path = record("-g", "-L", sysroot, "-e", "arm_spe/ts_enable=1/", "-c",
                                      period, "-m", ",64M",
                                      "--model", "none", "--", program, *args, env=ENV)
        stacks = stacks_of(path)
        pcode, pout, perr = plain(sysroot, program, args, f"every={period + 1}")
        index = index_of(stacks, os.path.join(WORK, "pcs"), period + 1)
        if len(index) == len(stacks):
            break
    equal(f"{name}: recorded, with the output that it has without us", (code, out), (0, pout))
    check(f"{name}: each of {len(stacks)} samples is one instruction of the plain run",
          len(index) == len(stacks) > CHOSEN,
          (index[:5], len(stacks)))
    if len(index) != len(stacks):
        return
    chosen = sorted(random.Random(1).sample(range(len(stacks)), CHOSEN))
    wrong, seen = [], 0
    for some in (chosen[i:i + 50] for i in range(0, len(chosen), 50)):  # a core has megabytes
        want(index[k] for k in some)
        plain(sysroot, program, args, f"at={WORK}/at")
        n, differ = judge(sysroot, program, {index[k]: stacks[k][1] for k in some})
        seen, wrong = seen + n, wrong + differ
    check(f"{name}: {CHOSEN} stacks are those that gdb unwinds", seen == CHOSEN and not wrong,
          (len(wrong), wrong[:3]))


def want(indices):
    """Instructions of the first vCPU to make core files of."""
    with open(os.path.join(WORK, "at"), "w") as f:
        f.writelines(f"0 {i}\n" for i in indices)


def same(ours, gdb, ends):
    return ours == gdb or (gdb and gdb[-1] in ends and (ours[:len(gdb)] == gdb or ours == gdb[:-1]))


def judge(sysroot, program, stacks, ends=()):
    """How many gdb unwound, and those that differ: (instruction, ours, gdb's). Deletes the core
    files. ends: addresses at which gdb may stop before us."""
    cores = {i: os.path.join(WORK, f"core-0-{i}") for i in stacks}
    found, err = unwound(sysroot, program, list(cores.values()))
    for c in cores.values():
        os.unlink(c)
    return len(found), [(i, [hex(a) for a in stacks[i]], [hex(a) for a in found.get(c, [])])
                        for i, c in cores.items() if not same(stacks[i], found.get(c), ends)]


def compare_together(name, sysroot, program, args, samples, ends=()):
    """Core files are made while it is recorded: for programs of which no two
    runs are quite alike."""
    qemu = os.path.join(WORK, "qemu")
    with open(qemu, "wb") as f:  # what it exports is looked for in the file
        f.write('#!/bin/sh\nexec qemu-aarch64 -singlestep -plugin '
                f'{SNAPSHOT},at={WORK}/at,to={WORK} "$@"\n'.encode() +
                b"qemu_plugin_register_vcpu_tb_trans_cb\0")
    os.chmod(qemu, 0o755)
    chosen = sorted(random.Random(1).sample(range(1, samples), CHOSEN))
    wrong, seen, codes = [], 0, set()
    for some in (chosen[i:i + 50] for i in range(0, len(chosen), 50)):
        want(4097 * k - 1 for k in some)
        code, out, err, path = record("-g", "-L", sysroot, "-e", "arm_spe/ts_enable=1/", "-c", 4096,
                                      "-m", ",64M", "--model", "none", "--qemu", qemu, "--",
                                      program, *args, env=ENV)
        ours = [s[1] for s in stacks_of(path) if s[0] == 0]
        n, differ = judge(sysroot, program, {4097 * k - 1: ours[k - 1] for k in some}, ends)
        seen, wrong = seen + n, wrong + differ
        codes.add((code, out))
    equal(f"{name}: recorded", codes,
          {(0, run("qemu-aarch64", "-L", sysroot, program, *args, env=ENV)[1])})
    check(f"{name}: {CHOSEN} stacks are those that gdb unwinds", seen == CHOSEN and not wrong,
          (seen, len(wrong), wrong[:3]))


def compare_go():
    program = os.path.join(WORK, "calls")
    env = {"GOARCH": "arm64", "CGO_ENABLED": "0", "GOCACHE": os.path.join(BUILD, "go-cache"),
           "GO111MODULE": "off"}
    code, _, err = run("go", "build", "-o", program, os.path.join(HERE, "programs", "calls.go"),
                       cwd=WORK, env=env)
    equal("Go: built", (code, err), (0, ""))
    # where Go tells debuggers to stop; systemstack writes mstart's address
    # where its caller's would be
    at = symbols(program)
    ends = [*range(at["runtime.rt0_go.abi0"], at["runtime.asminit.abi0"]),
            *range(at["runtime.mstart.abi0"], at["runtime.gogo.abi0"])]
    compare_together("Go", "/", program, [], 1000, ends)


code, _, err = run("sh", os.path.join(SOURCE, "scripts/fetch-debs"), ARM64, "busybox", "bzip2",
                   "sqlite3", "python3", timeout=500)
if code:
    skip("Debian's arm64 programs", "cannot be fetched: " + err.strip().splitlines()[-1])
else:
    ROOT = os.path.join(ARM64, "root")
    compare("sqlite3", 4096, ROOT, os.path.join(ROOT, "usr/bin/sqlite3"), [":memory:", SQL])
    compare_together("python3", ROOT, os.path.join(ROOT, "usr/bin/python3"), ["-S", "-c", PYTHON],
                     12000)
if shutil.which("go"):
    compare_go()
else:
    skip("Go", "no go (package golang-go)")
done()
