"""TAP for tests written in Python: check(name, ok, detail), mark requirement ids, skip, done."""
import os
import random
import socket
import subprocess
import sys

# A terminal's width would wrap what tests look for.
os.environ.pop("COLUMNS", None)
# meson's random fill of fresh memory would reach recorded programs, where it moves what is sampled,
# and QEMU, which takes up to ten times as long. Tests in C keep it.
os.environ.pop("MALLOC_PERTURB_", None)

_count = 0
_failed = 0

SOURCE = os.environ.get("SPEX_SOURCE",
                        os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))
BUILD = os.path.abspath(os.environ.get("SPEX_BUILD", os.path.join(SOURCE, "build")))
SPEX = os.environ.get("SPEX_PROGRAM", os.path.join(BUILD, "spex"))


def check(name, ok, detail="", spec=()):
    """One test. spec: requirement ids that it proves."""
    global _count, _failed
    _count += 1
    name = name.replace("#", "no.").replace("\n", " ")
    print(f"{'ok' if ok else 'not ok'} {_count} - {name}")
    for i in [spec] if isinstance(spec, str) else spec:
        print(f"# SPEC {name} {i}")
    if not ok:
        _failed += 1
        for line in str(detail).splitlines()[:60]:
            print(f"# {line}")
    sys.stdout.flush()
    return ok


def equal(name, got, want, spec=()):
    return check(name, got == want, f"got:  {got!r}\nwant: {want!r}", spec)


def skip(name, why, machine=False):
    """Something to test with is missing. machine: the machine lacks it (rights, hardware,
    another compiler). Anything else can be set up; `make check` does that, says so by SPEX_READY,
    and takes a skip as a failure."""
    global _count
    if os.environ.get("SPEX_READY") and not machine:
        check(name, False, f"{why}; make check should have set it up")
        return
    _count += 1
    print(f"ok {_count} - {name} # SKIP {why}")
    sys.stdout.flush()


def free_ports(count):
    """Ports of 127.0.0.1 that are free, below those that the kernel gives to whoever asks."""
    found = []
    while len(found) < count:
        port = random.randrange(12000, 32000)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def later(name, target):
    """A judge that `make TARGET` fetches and asks: no test elsewhere, and a failure if missing."""
    if os.environ.get("SPEX_LONG"):
        check(name, False, f"what this needs is not there, though make {target} fetches it")


def run(*args, stdin=None, env=None, cwd=None, timeout=600):
    """Runs a command; returns (exit code, stdout bytes, stderr text)."""
    e = dict(os.environ)
    e.update(env or {})
    p = subprocess.run([str(a) for a in args], input=stdin, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, env=e, cwd=cwd, timeout=timeout,
                       stdin=subprocess.DEVNULL if stdin is None else None)
    return p.returncode, p.stdout, p.stderr.decode(errors="replace")


def spex(*args, **kw):
    return run(SPEX, *args, **kw)


def done():
    print(f"1..{_count}")
    sys.exit(1 if _failed else 0)
