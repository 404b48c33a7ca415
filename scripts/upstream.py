"""What spex's tests found in other programs, shown again: makes the smallest input of each finding
and gives it to the program as it is installed here.

Usage: upstream.py BUILD [NAME...]. Prints for each finding of docs/upstream.md and each program
that reads it its version and `as reported` or `not seen`; exits 1 if one is `not seen` in the
version that the document names. perf 7 is BUILD/perf7 (scripts/perf7-setup).
"""
import os
import re
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../tests/perfdata"), os.path.join(HERE, "../tests")]
import pd
from support.perfdata import wrap

PC = 0x400000
WORK = tempfile.TemporaryDirectory(prefix="spex-upstream-")
ENV = {**os.environ, "HOME": WORK.name, "LC_ALL": "C", "PERF_CONFIG": "/dev/null"}


def records(count=6, source=8, va=True):
    return [pd.record(PC + 4 * i, ctx=100, va=0x7fff0000 + 8 * i if va else None, source=source,
                      ts=1000 + i) for i in range(count)]


def profile(stream=None, finish=None, **kw):
    f = pd.File(**kw)
    f.comm(100, 100, "prog").mmap(100, 100, PC, 0x1000, "//anon")
    if finish:
        finish(f)
    else:
        f.trace(b"".join(records()) if stream is None else stream)
    return f.bytes()


def perf(program, data, *words):
    path = os.path.join(WORK.name, "perf.data")
    with open(path, "wb") as f:
        f.write(data)
    p = subprocess.run([program, *words, "-i", path], stdin=subprocess.DEVNULL,
                       capture_output=True, env=ENV, cwd=WORK.name)
    return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")


def script(program, data, fields="ip", itrace="i1i"):
    """Lines of `perf script`, and how it ended."""
    code, out, err = perf(program, data, "script", f"--itrace={itrace}", "-F", fields)
    return code, [line.split() for line in out.splitlines()], err


def addresses(program, data):
    return [int(l[0], 16) for l in script(program, data)[1]]


TRUE = [PC + 4 * i for i in range(6)]


def no_time_conv(program):
    def timed(f):
        f.comm(100, 100, "late", time=77).trace(b"".join(records()))
    return script(program, profile(time_conv=None, finish=timed))[0] == -signal.SIGFPE


def json_feature(program):
    return perf(program, profile(), "data", "convert", "--to-json",
                os.path.join(WORK.name, f"{os.getpid()}.json"), "--force")[0] == -signal.SIGSEGV


def version_2(program):
    code, lines, err = script(program, profile(metadata=2))
    return not lines and "metadata" not in err


def cut_record(program):
    whole = b"".join(records())

    def two(f):
        f.trace(whole[:72], fill=False).trace(whole[72:], 72, fill=False)
    return addresses(program, profile(finish=two)) != TRUE


def no_source(program):
    data = profile(b"".join(records(source=None)))
    return any("L1 hit" in " ".join(l) for l in
               script(program, data, "ip,data_src", "M")[1])


def pipe_file(program):
    return addresses(program, profile(pipe=True)) != TRUE


def per_thread(program):
    code, lines, err = script(program, profile(per_thread=True))
    return len(lines) < len(TRUE)


def stale_text(program):
    """Class 0 with a subclass that nobody knows, after an operation that has a text."""
    stream = bytes([0x49, 0x20, 0x01, 0x48, 0xf0, 0x01])
    data = wrap(stream + bytes(-len(stream) % 8))
    lines = [l.split() for l in perf(program, data, "report", "-D")[1].splitlines()
             if re.match(r"\.  [0-9a-f]{8}: ", l)]
    text = next((" ".join(l[4:]) for l in lines if l[2:4] == ["48", "f0"]), "")
    return bool(text) and text != "OTHER INSN-OTHER"


FINDINGS = {  # name: (judge, programs in which it was seen)
    "time-conv": (no_time_conv, ("6.1", "7.2")),
    "json": (json_feature, ("6.1",)),
    "metadata-2": (version_2, ("6.1",)),
    "cut-record": (cut_record, ("6.1", "7.2")),
    "no-source": (no_source, ("6.1", "7.2")),
    "pipe-file": (pipe_file, ("6.1",)),
    "per-thread": (per_thread, ("6.1", "7.2")),
    "stale-text": (stale_text, ("7.2",)),
}


def version(program):
    out = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    return re.search(r"[\d.]+", out)[0]


def main():
    build, chosen = os.path.abspath(sys.argv[1]), sys.argv[2:]
    unknown = set(chosen) - set(FINDINGS)
    if unknown:
        sys.exit(f"upstream: no such finding: {', '.join(sorted(unknown))}; "
                 f"there are {', '.join(FINDINGS)}")
    programs = [p for p in ("perf", os.path.join(build, "perf7/perf")) if
                subprocess.run(["sh", "-c", f"command -v '{p}'"], stdout=subprocess.DEVNULL
                               ).returncode == 0]
    wrong = 0
    for name in chosen or FINDINGS:
        judge, known = FINDINGS[name]
        for program in programs:
            number = version(program)
            seen = judge(program)
            expected = any(number.startswith(k + ".") for k in known)
            wrong += expected and not seen
            print(f"{name}: perf {number}: {'as reported' if seen else 'not seen'}")
    return 1 if wrong else 0


sys.exit(main())
