"""spex archive: the profile and all that its names need, unpacked where nothing else is; programs
of a guest's /host folder and kallsyms beside a profile are found without options."""
import tarfile
from guest import *
sys.path.insert(0, os.path.join(HERE, "..", "perfdata"))
import pd

need_engine("archives")
CROSS = "aarch64-linux-gnu-"
# a program in a root of its own: stripped, its debug file where packages put it; a
# second without a build id
root = os.path.join(WORK, "root")
os.makedirs(os.path.join(root, "usr/bin"))
program = build("chase", "-static")
code, out, err = run(f"{CROSS}readelf", "-n", program)
ident = re.search(r"Build ID: ([0-9a-f]+)", out.decode()).group(1)
debug = os.path.join(root, "usr/lib/debug/.build-id", ident[:2])
os.makedirs(debug)
run(f"{CROSS}objcopy", "--only-keep-debug", program, os.path.join(debug, ident[2:] + ".debug"))
bare = os.path.join(root, "usr/bin/chase")
run(f"{CROSS}strip", "-o", bare, program)
noid = os.path.join(root, "usr/bin/noid")
run(f"{CROSS}objcopy", "-R", ".note.gnu.build-id", program, noid)
TABLES = (["report", "--sort", "symbol,srcline,dso"], ["mem", "--sort", "data-symbol,symbol"])


def tables(path):
    return [spex(*t[:1], "-i", os.path.basename(path), *t[1:], "--format", "csv",
                 env={"HOME": WORK, "DEBUGINFOD_URLS": ""},
                 cwd=os.path.dirname(path)) for t in TABLES]


for name, binary in (("chase", bare), ("noid", noid)):
    code, out, err, path = record("--model", "none", "-c", "2048", "--", binary, "20000",
                                  name=f"{name}.data")
    check(f"{name}: recorded", " samples" in err, err)
    before = tables(path)
    check(f"{name}: has names", b"chase" in before[0][1] and b".c:" in before[0][1],
          before[0][1][:500])
    code, out, err = spex("archive", "-i", path, env={"HOME": WORK})
    equal(f"{name}: packed", code, 0)
    check(f"{name}: says how to unpack it", f"tar xf {path}.tar" in err, err)
    first = open(path + ".tar", "rb").read()
    with tarfile.open(path + ".tar") as tar:
        names = tar.getnames()
        check(f"{name}: holds the profile and the program",
              "perf.data" in names and len(names) >= 2 and
              all(n == "perf.data" or n.startswith(".debug/") for n in names), names)
        where = os.path.join(WORK, "elsewhere-" + name)
        tar.extractall(where)
    spex("archive", path, "-o", path + ".again", env={"HOME": WORK})
    equal(f"{name}: the same bytes again", open(path + ".again", "rb").read() == first, True)
    os.rename(root, root + "-gone")
    lost = tables(path)
    check(f"{name}: without its files there are no names", b".c:" not in lost[0][1],
          lost[0][1][:300])
    after = tables(os.path.join(where, "perf.data"))
    equal(f"{name}: elsewhere the same tables", [a[:2] for a in after], [b[:2] for b in before])
    os.rename(root + "-gone", root)

# several files as one profile
both = ["-i", "chase.data", "-i", "noid.data", "--sort", "symbol,srcline,dso", "--format", "csv"]
before = spex("report", *both, env={"HOME": WORK}, cwd=WORK)
code, out, err = spex("archive", "chase.data", "noid.data", "-o", "two.tar", env={"HOME": WORK},
                      cwd=WORK)
check("two: packed, and how to read them", code == 0 and "-i D/chase.data -i D/noid.data" in err,
      err)
where = os.path.join(WORK, "elsewhere-two")
with tarfile.open(os.path.join(WORK, "two.tar")) as tar:
    tar.extractall(where)
os.rename(root, root + "-gone")
check("two: elsewhere the same table, with names", b".c:" in before[1] and
      before[1] == spex("report", *both, env={"HOME": WORK, "DEBUGINFOD_URLS": ""}, cwd=where)[1],
      before[1][:300])
os.rename(root + "-gone", root)

code, out, err = spex("archive", "-i", os.path.join(WORK, "none.data"))
equal("no such profile", code, 1)
code, out, err = spex("archive", "-i", path, "-o", "/dev/full", env={"HOME": WORK})
check("a full disk is an error", code == 1 and "No space" in err, (code, err))
code, out, err = spex("archive", "-i", "-")
equal("standard input is refused", code, 2)

# ---- a profile without build ids, of a program that has one ----
plain = os.path.join(WORK, "plain")
os.makedirs(plain)
run("cp", program, os.path.join(plain, "chase"))
main = int(re.search(r"^(\S+) T main$", run(f"{CROSS}nm", program)[1].decode(), re.M).group(1), 16)
f = pd.File(cpus=1)
f.comm(9, 9, "chase", time=1)
f.mmap2(9, 9, 0x400000, 0x100000, os.path.join(plain, "chase"), time=1)
f.trace(b"".join(pd.record(main + 4, ctx=9, ts=100 + i) for i in range(5)), time=2)
path = os.path.join(WORK, "plain.data")
with open(path, "wb") as out:
    out.write(f.bytes())
spex("archive", "-i", path, env={"HOME": WORK})
where = os.path.join(WORK, "elsewhere-plain")
with tarfile.open(path + ".tar") as tar:
    tar.extractall(where)
os.rename(plain, plain + "-gone")
code, out, err = spex("report", "-i", os.path.join(where, "perf.data"), "--format", "csv",
                      env={"HOME": WORK, "DEBUGINFOD_URLS": ""})
check("no build ids in the profile: elsewhere it has names", b",main" in out,
      out.decode()[-300:] + err)

# ---- what a guest recorded in its /host folder ----
share = os.path.join(WORK, "share")
os.makedirs(os.path.join(share, "bin"))
run("cp", program, os.path.join(share, "bin/chase"))
KERNEL = 0xffff800080010000
f = pd.File(cpus=1)
f.comm(9, 9, "chase", time=1)
f.mmap2(9, 9, 0x400000, 0x100000, "/host/bin/chase", time=1, build_id=bytes.fromhex(ident))
f.mmap2(-1, 0, KERNEL, 0x1000000, "[kernel.kallsyms]_text", pgoff=KERNEL, time=1, misc=1)
f.trace(b"".join(pd.record(main + 4, ctx=9, ts=100 + i) +
                 pd.record(KERNEL + 0x104, el=1, ctx=9, ts=100 + i) for i in range(5)), time=2)
path = os.path.join(share, "perf.data")
with open(path, "wb") as out:
    out.write(f.bytes())
with open(os.path.join(share, "kallsyms"), "w") as out:
    out.write(f"{KERNEL:x} T _text\n{KERNEL + 0x100:x} T el0_svc\n{KERNEL + 0x200:x} T other\n")
code, out, err = spex("report", "-i", path, "--format", "csv", env={"HOME": WORK})
check("/host: the program and the kernel have names", b",main" in out and b",el0_svc" in out,
      out.decode()[-600:] + err)
run("cp", noid, os.path.join(share, "bin/chase"))
code, out, err = spex("report", "-i", path, "--format", "csv", env={"HOME": WORK})
check("/host: another build is not taken for it", b",main" not in out, out.decode()[-300:])
done()
