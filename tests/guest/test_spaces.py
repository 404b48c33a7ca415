"""Files of containers: a path means what it means in the mount namespace that the profile
says the process had."""
import csv, io, struct, subprocess
from guest import *
sys.path.insert(0, os.path.join(HERE, "..", "perfdata"))
import pd

if not shutil.which(CC):
    skip("containers", f"no {CC} (package gcc-aarch64-linux-gnu)")
    done()


def compile_program(name, function):
    """Two programs that are alike but for the name of a function; without a build id nothing
    else tells them apart."""
    path = os.path.join(WORK, name)
    source = f"void {function}(void) {{ for (;;) ; }} void _start(void) {{ {function}(); }}"
    code, _, err = run(CC, "-O1", "-fno-inline", "-nostdlib", "-static", "-Wl,--build-id=none",
                       "-x", "c", "-o", path, "-", stdin=source.encode())
    if code:
        check(f"build {name}", False, err)
        done()
    return path, symbols(path)[function]


inside, pc = compile_program("inside", "inside")
outside, same = compile_program("outside", "outside")
equal("both have it at the same place", same, pc)
box = os.path.join(WORK, "box")
os.mkdir(box)
prog, link = os.path.join(box, "prog"), os.path.join(box, "link")
shutil.copy(outside, prog)
os.symlink(outside, link)
script = (f"mount -t tmpfs none {box} && cp {inside} {prog} && ln -s {prog} {link} && echo "
          "ready && exec sleep 600")
container = subprocess.Popen(["unshare", "-m", "sh", "-c", script], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL)
if container.stdout.readline() != b"ready\n":
    container.wait()
    skip("containers", "no mount namespaces here", machine=True)
    done()
space = os.stat(f"/proc/{container.pid}/ns/mnt")
own = os.stat("/proc/self/ns/mnt")
NOBODY = 2**22 - 3  # no process has this number, unless the machine allows that many


def names(*processes, cut=None):
    """The function that each process is sampled in: (pid, path, (device, inode) of
    its namespace or None)."""
    f = pd.File(cpus=1)
    spe = b""
    for i, (pid, path, where) in enumerate(processes):
        f.comm(pid, pid, "prog", time=1)
        if where:
            links = b"".join(struct.pack("<QQ", where[0], where[1] if kind == 5 else 1000 + kind)
                             for kind in range(7))
            f.event(16, (struct.pack("<IIQ", pid, pid, 7) + links)[:cut], time=2)
        f.mmap2(pid, pid, pc & ~0xfff, 0x1000, path, pgoff=0, time=3)
        spe += b"".join(pd.record(pc, ctx=pid, ts=100 + 10 * i + n) for n in range(i + 1))
    f.trace(spe, time=4)
    path = os.path.join(WORK, "perf.data")
    with open(path, "wb") as out:
        out.write(f.bytes())
    code, out, err = spex("report", "-i", path, "--sort", "pid,symbol", "--format", "csv",
                          env={"HOME": WORK})
    rows = {int(r["pid"]): r["symbol"] for r in csv.DictReader(io.StringIO(out.decode()))}
    return [rows.get(pid) for pid, _, _ in processes]


there, here = (space.st_dev, space.st_ino), (own.st_dev, own.st_ino)
try:
    equal("our own namespace", names((os.getpid(), prog, here)), ["outside"])
    equal("the container's", names((container.pid, prog, there)), ["inside"])
    equal("one path in both", names((container.pid, prog, there), (os.getpid(), prog, here)),
          ["inside", "outside"])
    equal("a link stays in the container", names((container.pid, link, there)), ["inside"])
    equal("the process has ended, another of the container has not", names((NOBODY, prog, there)),
          ["inside"])
    equal("the number is another process's now", names((os.getpid(), prog, there)), ["inside"])
    equal("nothing of the container is left", names((NOBODY, prog, (there[0], 77))), ["outside"])
    equal("not told", names((container.pid, prog, None)), ["outside"])
    equal("cut short", names((container.pid, prog, there), cut=60), ["outside"])
finally:
    container.kill()
    container.wait()
done()
