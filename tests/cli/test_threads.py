"""Commands with several threads: the same text, messages and exit status as with one."""
import os, random, struct, subprocess, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

MAKE, PROG = (os.path.join(BUILD, "tests/analysis", n) for n in ("make_profile", "prog"))
rng = random.Random(8)
LONG = os.environ.get("SPEX_LONG")  # else a part of all that


def generate(*options):
    return spex("generate", *options)[1]


def twins(groups):
    """Whole records from byte 0 on, and other whole records from byte 1 on: guesses go wrong."""
    data = bytearray()
    for i in range(groups):
        group = bytearray(rng.randbytes(9))
        for j, kind in enumerate(("P6S6T"[i % 5], "PS66T"[(i + 4) % 5])):
            if kind == "S":
                for at, header in ((0, 0x98), (3, 0x49), (5, 0x42), (7, 0x43)):
                    if j + at < 9:
                        group[j + at] = header
            else:
                group[j] = {"P": 0xb0, "6": 0xb6, "T": 0x71}[kind]
        data += group
    return bytes(data)


N1 = ("--features", "neoverse-n1", "--layout", "n1", "--align", 6)
good = generate("-n", 6000, *N1)
streams = {
    "n1": good,
    "hisi": generate("-n", 8000, "--layout", "hisi"),
    "compact": generate("-n", 8000),
    "two streams in one": twins(40000),
    "random bytes": rng.randbytes(300000),
    "never closed": b"\xb6" * 400000,
    "padding": good[:100000] + bytes(5000000) + good[:70000] + bytes(200000),
    "empty": b"",
    "short": good[:150],
    "cut": good[:-3],
}
for damage in ("truncate", "flip", "lose", "splice"):
    streams[damage] = generate("-n", 6000, *N1, "--damage", damage, "-s", 3)
    streams[damage + " hisi"] = generate("-n", 6000, "--layout", "hisi", "--damage", damage, "-s",
                                         4)
COMMANDS = [["dump", "--style", "spex"], ["dump", "--style", "perf"], ["dump", "--style", "perf-7"],
            ["dump", "--format", "json"], ["verify", "--features", "neoverse-n1"],
            ["verify", "--format", "json"]]


def same(name, file, *options):
    for command in COMMANDS:
        if name in ("padding", "never closed", "random bytes") and command[-1] == "json":
            continue  # a line per byte: much of the same
        want = spex(*command, *options, "--threads", 1, file)
        wrong = [n for n in ((2, 3, 7) if LONG else (7,))
                 if spex(*command, *options, "--threads", n, file) != want]
        check(f"{name}: {' '.join(command)}: any number of threads",
              not wrong and want[0] in (0, 1), wrong)


SCRIPTS = [[], ["--format", "json"], ["--format", "csv"], ["--itrace=fmtbaMi3i"], ["-n", 700],
           ["--format", "csv", "-F", "+srcline,data_symbol"], ["--min-latency", 65535]]


def same_script(name, file, *options):
    for words in SCRIPTS if LONG else SCRIPTS[::2]:
        want = spex("script", "-i", file, *options, *words, "--threads", 1)
        wrong = [n for n in ((0, 2, 5) if LONG else (5,))
                 if spex("script", "-i", file, *options, *words, "--threads", n) != want]
        check(f"{name}: script {' '.join(map(str, words))}: any number of threads",
              not wrong and want[0] in (0, 1), wrong)


TABLES = [["report"], ["report", "--format", "json"], ["report", "--sort", "pid,symbol,srcline"],
          ["report", "--sort", "pc,data-symbol,tid"],
          ["report", "--slices", 5], ["report", "--time", "20%-60%", "--op", "load,branch"],
          ["report", "--symbol", "w*", "-F", "+execute_p99"],
          ["mem"], ["mem", "--format", "json"], ["mem", "--sort", "data-dso,page"], ["c2c"],
          ["c2c", "--format", "json"], ["c2c", "--time", "10%/3"],
          ["branch"], ["branch", "--format", "csv"], ["annotate"], ["annotate", "--format", "json"]]


def same_tables(name, files, *options):
    for words in (TABLES if LONG else TABLES[::3]) + [["diff", files[-1]]]:
        if "--raw" in options and "--time" in words:
            continue  # nothing says when it began
        command = [*words, *options, *(w for f in files for w in ("-i", f))]
        want = spex(*command, "--threads", 1)
        wrong = [] if spex(*command, "--threads", 3) == want else [3]
        check(f"{name}: {' '.join(map(str, words))}: any number of threads",
              not wrong and want[0] in (0, 1), (wrong, want[2]))


def traces(data):
    """Where AUXTRACE records stand, in a file that make_profile made: (offset, bytes of trace)."""
    at, size = struct.unpack_from("<QQ", data, 40)
    end, found = at + size, []
    while at < end:
        kind, _, length = struct.unpack_from("<IHH", data, at)
        trace = struct.unpack_from("<Q", data, at + 8)[0] if kind == 71 else 0
        if trace:
            found.append((at, trace))
        at += length + trace
    return found


def recut(data, by):
    """The same trace, but so many bytes of each AUXTRACE record stand at the end of the one before:
    records are cut where another thread may begin."""
    out, last, carry = bytearray(), 0, {}
    found = traces(data)
    queue = {at: struct.unpack_from("<I", data, at + 40)[0] for at, _ in found}
    ends = {q: at for at, q in queue.items()}
    texts = {q: b"".join(data[at + 48:at + 48 + n] for at, n in found if queue[at] == q)
             for q in ends}
    place = dict.fromkeys(ends, 0)
    for at, n in found:
        q = queue[at]
        first, final = place[q] == 0, ends[q] == at
        head = bytearray(data[at:at + 48])
        size = n + (by if first and not final else 0) - (by if final and not first else 0)
        struct.pack_into("<Q", head, 8, size)
        struct.pack_into("<Q", head, 16, place[q])
        out += data[last:at] + head + texts[q][place[q]:place[q] + size]
        place[q] += size
        last = at + 48 + n
    out += data[last:]
    assert len(out) == len(data)
    return out


def spoil(data):
    """Damage where a thread may look for what another one ends with, and elsewhere."""
    data = bytearray(data)
    for at, n in traces(data):
        for place in (n - 1 - rng.randrange(200), rng.randrange(n)):
            if place >= 0 and rng.randrange(3) == 0:
                data[at + 48 + place] ^= 1 << rng.randrange(8)
    return data


LONG_QUEUES = ["mixed-n1-near", "mixed-n1-near-cpus1", "mixed-n1-near-loss",
               "mixed-n1-near-nocontext"]
OF_LONG = [["report", "--sort", "symbol,tid", "--format", "json"], ["mem", "--format", "json"],
           ["c2c", "--format", "json"]]


def same_long(name, file, *options):
    """Several threads read one queue."""
    for words in OF_LONG + ([["branch"], ["annotate"], ["diff", file]] if LONG else []):
        command = [*words, *options, "-i", file]
        want = spex(*command, "--threads", 1)
        wrong = [n for n in ((2, 3, 8, 16, 64) if LONG else (3, 16))
                 if spex(*command, "--threads", n) != want]
        check(f"{name}: {' '.join(words[:1])}: any number of threads",
              not wrong and want[0] in (0, 1), (wrong, want[2]))


with tempfile.TemporaryDirectory() as d:
    file = os.path.join(d, "s")
    for scenario in LONG_QUEUES if os.path.exists(PROG) else []:
        subprocess.run([MAKE, scenario, file, PROG, "100000"], check=True)
        data = open(file, "rb").read()
        for name, changed in (("", data), (", cut elsewhere", recut(data, 24)),
                              (", damaged", spoil(data))):
            with open(file, "wb") as f:
                f.write(changed)
            same_long(scenario + name, file)
    for name, data in streams.items():
        if not LONG and name in ("compact", "short", "truncate", "lose hisi", "padding", "cut"):
            continue
        with open(file, "wb") as f:
            f.write(data)
        same(name, file, "--raw")
    for name in ("n1", "hisi", "random bytes", "splice", "empty", "cut"):
        with open(file, "wb") as f:
            f.write(streams[name])
        same_script(name, file, "--raw")
        if name == "splice" or LONG:
            same_tables(name, [file], "--raw")
    if os.path.exists(PROG):
        root = os.path.join(d, "root")
        os.makedirs(os.path.join(root, "usr/bin"))
        os.symlink(PROG, os.path.join(root, "usr/bin/prog"))
        subprocess.run([MAKE, "mixed-n1", file, PROG, "30000"], check=True)
        same("perf.data", file)
        same_script("perf.data", file, "--symfs", root)
        same_tables("perf.data", [file], "--symfs", root)
        server = os.path.join(d, "server")
        subprocess.run([MAKE, "mixed-n1-near-cpus64", server, PROG, "60000"], check=True)
        same_script("64 queues", server, "--symfs", root)
        many = [os.path.join(d, name) for name in ("a.data", "b.data", "c.data")]
        for seed, (path, scenario) in enumerate(zip(many,
                                                    ("mixed-n1", "mixed-switch", "mixed-n1-near"))):
            subprocess.run([MAKE, scenario, path, PROG, "7000", str(seed + 1)], check=True)
        if LONG:
            same_tables("several files", many, "--symfs", root)
        with open(many[1], "rb+") as f:
            f.truncate(os.path.getsize(many[1]) * 2 // 3)
        same_tables("several files, one of them cut", many, "--symfs", root)
        data = bytearray(open(file, "rb").read())
        for _ in range(300):  # in AUX data mostly
            data[rng.randrange(4096, len(data) - 4096)] ^= 1 << rng.randrange(8)
        with open(file, "wb") as f:
            f.write(data)
        same("damaged perf.data", file)
        same_script("damaged perf.data", file, "--symfs", root)
        same_tables("damaged perf.data", [file], "--symfs", root)
    # Errors of the output end the work, soon.
    with open(file, "wb") as f:
        f.write(good * 40)
    for command, n in ((c, n) for c in ("dump", "script") for n in (1, 2, 5)):
        words = [SPEX, command, "--raw", "--threads", str(n), file]
        p = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        p.stdout.read(1000)
        p.stdout.close()
        err = p.stderr.read().decode()
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = code = os.waitstatus_to_exitcode(status)
        check(f"{command}, {n} threads: a closed pipe ends it",
              code in (1, -13) and used.ru_utime + used.ru_stime < 5,
              (code, used.ru_utime, used.ru_stime, err))
        with open("/dev/full", "wb") as full:
            code = subprocess.run(words, stdout=full, stderr=subprocess.PIPE).returncode
        check(f"{command}, {n} threads: a full disk is an error", code == 1, code)
code, out, err = spex("dump", "--threads", "x", "--raw", "-", stdin=b"")
check("--threads wants a number", code == 2, err)
done()
