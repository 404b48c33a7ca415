"""What `spex vm` says and does around a guest: refusals, --setup, signals. No guest boots."""
import glob
import hashlib
import shutil
import signal
import tempfile
import time
from guests import *


def test_words(elf):
    """What is wrong is said before anything starts."""
    for words, why in [(["--inject", "fault@0"], "allowed: fault@N"),
                       (["--inject", "id:PMSCR_EL1:1"], "allowed: fault@N"),
                       (["--inject", "collide@3+"], "allowed: fault@N"),
                       (["--inject", "irq@1x"], "allowed: fault@N"),
                       (["--inject", "id:PMSVer:16"], "PMSVer:1 to 15"),
                       (["--smp", "65"], "1 to 64"),
                       (["--choice", "csel_conditional=yes"], "QEMU does not show"),
                       (["--choice", "x=1"], "unknown choice"),
                       (["--features", "v9"], "unknown"), (["--model", "x"], "neither"),
                       (["--seed", "x"], "a number")]:
        code, out, err = spex("vm", "--kernel", elf, *words)
        check(f"{' '.join(words)} is refused", code == 2 and why in err, err)
    code, out, err = spex("vm")
    check("without a guest", code == 2 and "--guest DIR" in err, err)
    for words in (["--append", "x"], ["--append-only"], ["--initrd", elf]):
        code, out, err = spex("vm", "--firmware", elf, *words)
        check(f"--firmware alone, with {words[0]}", code == 2 and "are for a --kernel" in err, err)
    for words, why in [(["--kernel", "/no/Image"], "kernel: /no/Image: No such file"),
                       (["--kernel", elf, "--initrd", "/no/initrd"],
                        "initrd: /no/initrd: No such file"),
                       (["--firmware", "/no/fd"], "firmware: /no/fd: No such file"),
                       (["--kernel", elf, "--device", "no-such"], "no-such"),
                       (["--guest", "/no"], "make one with: spex vm --setup /no"),
                       (["--kernel", elf, "--qemu", "/no/qemu"],
                        "cannot run /no/qemu (Debian packages: qemu-system-arm"),
                       (["--kernel", elf, "--qemu", "/bin/true"], "does not say that it is a QEMU"),
                       (["--kernel", elf, "--memory", "x"], "cannot make the machine"),
                       (["--kernel", elf, "--log", "/no/log"], "/no/log: No such file")]:
        code, out, err = spex("vm", *words)
        check(f"{' '.join(words).replace(elf, 'IMAGE')}: one sentence", code == 1 and why in err,
              err)
    code, out, err = spex("vm", "--kernel", elf,
                          env={"PATH": os.path.dirname(shutil.which("true")) + "-none"})
    check("without QEMU: the package's name", code == 1 and
          "cannot run qemu-system-aarch64" in err and "device-tree-compiler" in err, err)
    code, out, err = spex("help", "vm")
    check("help names what there is",
          all(w in out for w in (b"--setup", b"--inject", b"irq@N", b"Ctrl-A X")), out)


def test_versions(elf, place):
    """Another QEMU is refused by its version; updates of Debian's are not."""
    fake = os.path.join(place, "qemu")
    for version, why in [("6.2.0 (Debian 1:6.2+dfsg-1)", "6.2"), ("8.2.2", "8.2"),
                         ("10.0.8 (Debian 1:10.0.8+ds-0)", "10.0"),
                         ("11.0.1", "11.0"), ("7.2.999 (Debian 1:7.2+dfsg-7+deb12u99+b9)", None)]:
        with open(fake, "w") as f:
            f.write(f'#!/bin/sh\n[ "$1" != --version ] || {{ echo "QEMU emulator version '
                    f'{version}"; exit; }}\n'
                    'exec qemu-system-aarch64 "$@"\n')
        os.chmod(fake, 0o755)
        code, out, err = spex("vm", "--kernel", elf, "--features", "v1p4", "--el2", "--qemu", fake)
        if why:
            check(f"QEMU {why} is refused",
                  code == 1 and f"is version {why}; spex vm needs Debian 12's" in err, err)
        else:
            check("an update of Debian's 7.2 is not", code == 0 and b"done=0000000000000001" in out,
                  err)


def host_packages():
    """What --setup must leave alone: apt's configuration, and foreign architectures of dpkg."""
    files = ["/var/lib/dpkg/arch"] + sorted(f for f in glob.glob("/etc/apt/**", recursive=True)
                                            if os.path.isfile(f))
    digest = hashlib.sha256()
    for f in files:
        digest.update(f.encode() + (open(f, "rb").read() if os.access(f, os.R_OK) else b""))
    with open("/var/lib/dpkg/status") as status:
        foreign = sorted(l for l in status if l == "Architecture: arm64\n")
    return digest.hexdigest(), foreign


def test_setup(place):
    before = host_packages()
    where, why = guest("debian")
    if not where:
        skip("--setup", "the guest could not be prepared: " + why)
        return
    equal("--setup leaves the host's package configuration alone", host_packages(), before)
    files = {n: os.stat(os.path.join(where, n)).st_mtime_ns for n in os.listdir(where)}
    new = os.path.join(place, "typo")
    for name in (where, new):
        code, out, err = spex("vm", "--setup", name, "--suite", "bookwrom")
        check("--setup with a suite that does not exist fails", code == 1 and "bookwrom" in err,
              err)
    check("and leaves no directory", not os.path.exists(new))
    equal("and an older guest as it was",
          {n: os.stat(os.path.join(where, n)).st_mtime_ns for n in os.listdir(where)}, files)
    code, out, err = spex("vm", "--guest", where, timeout=120)
    check("a guest without input says what it is, and ends", code == 0 and b"arm_spe_pmu" in out,
          (code, out[-500:], err))
    # All of it is there before the guest has a shell; the end comes while a program runs, then one
    # that reads, and the last line has no end.
    code, out, err = run("timeout", "120", SPEX, "vm", "--guest", where,
                         stdin=b"echo $((40+1))\nsleep 3; cat; echo $((40+2))")
    check("input waits for the shell; its end ends what reads it, and then the guest",
          code == 0 and b"\n41\r\n" in out and b"42\r\nguest:" in out and b"Power down" in out,
          (code, out, err))
    alone = ["unshare", "-rn"]
    if run(*alone, "true")[0]:
        skip("--setup without a network", "no namespaces here", machine=True)
        return
    code, out, err = run(*alone, SPEX, "vm", "--setup", where)
    check("a second --setup needs no network", code == 0, err)
    new = os.path.join(place, "guest")
    code, out, err = run(*alone, SPEX, "vm", "--setup", new)
    check("--setup without a network says so",
          code == 1 and "is the network up" in err and "Traceback" not in err, err)
    code, out, err = spex("vm", "--guest", new)
    check("and leaves no guest", code == 1 and "is no prepared guest" in err, err)


def alive(pid):
    try:
        return open(f"/proc/{pid}/stat").read().split()[2] != "Z"
    except OSError:
        return False


def test_signals(elf, place):
    """Ended by a signal: QEMU ends too, and nothing is left behind."""
    hang = os.path.join(place, "hang.S")
    with open(hang, "w") as f:
        f.write(".globl _start\n_start: b _start\n")
    run("aarch64-linux-gnu-gcc", "-nostdlib", "-static", "-Wl,-Ttext=0x40200000", "-o", hang[:-2],
        hang)
    files = os.path.join(place, "tmp")
    os.makedirs(files)
    for how, status in [(signal.SIGTERM, 128 + signal.SIGTERM),
                        (signal.SIGINT, 128 + signal.SIGINT),
                        (signal.SIGKILL, -signal.SIGKILL)]:
        log = os.path.join(place, "log")
        p = subprocess.Popen([SPEX, "vm", "--kernel", hang[:-2], "--log", log],
                             env={**os.environ, "TMPDIR": files}, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while p.poll() is None and not (os.path.exists(log) and "boot" in open(log).read()):
            time.sleep(0.1)
        mine = [int(c) for c in open(f"/proc/{p.pid}/task/{p.pid}/children").read().split()]
        p.send_signal(how)
        code = p.wait()
        while any(alive(c) for c in mine):
            time.sleep(0.1)
        check(f"{how.name}: QEMU ends with it", mine and code == status, f"{mine} {code}")
        if how != signal.SIGKILL:
            equal(f"{how.name}: no file is left", os.listdir(files), [])
        os.unlink(log)


def main():
    os.makedirs(WORK, exist_ok=True)
    if not shutil.which("aarch64-linux-gnu-gcc") or not shutil.which("qemu-system-aarch64"):
        skip("spex vm", "no cross compiler or no qemu-system-aarch64")
        done()
    elf, why = build_bare()
    if not check("the bare guest builds", elf, why):
        done()
    with tempfile.TemporaryDirectory() as place:
        test_words(elf)
        test_versions(elf, place)
        test_setup(place)
        test_signals(elf, place)
    done()


main()
