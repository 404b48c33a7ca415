"""Programs nobody here wrote: Debian's arm64 busybox, bzip2, sqlite3, python3."""
import json
import struct

from heaplog import *

need_engine("programs of Debian")
ARM64 = os.path.join(BUILD, "arm64")
code, _, err = run("sh", os.path.join(SOURCE, "scripts/fetch-debs"), ARM64, "busybox", "bzip2",
                   "sqlite3", "python3", "libjemalloc2", "libtcmalloc-minimal4", timeout=500)
if code:
    skip("Debian's arm64 programs", "cannot be fetched: " + err.strip().splitlines()[-1])
    done()
ROOT = os.path.join(ARM64, "root")
ENV = {"PYTHONHASHSEED": "0", "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"}
text = bytes((i * i >> 5) & 255 for i in range(60000))
PYTHON = """
import hashlib, json, re
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
words = {str(i): [i, i * i] for i in range(3000)}
print(fib(15), len(json.dumps(words)), hashlib.sha256(b'x' * 20000).hexdigest(),
      len(re.findall('1.', str(words))))
"""
SQL = ("create table t(a integer primary key, b text);"
       "with recursive c(x) as (select 1 union all select x + 1 from c where x < 3000) "
       "insert into t select x, 'row ' || x * 7919 % 1000 from c;"
       "create index i on t(b); select b, count(*) from t group by b order by b limit 5;")
PROGRAMS = [
    ("busybox sha256sum", ["bin/busybox", "sha256sum"], text),
    ("busybox awk",
     ["bin/busybox", "awk", "BEGIN { for (i = 0; i < 20000; i++) s += i % 7; print s }"], b""),
    ("bzip2", ["bin/bzip2", "-c"], text),
    ("sqlite3", ["usr/bin/sqlite3", ":memory:", SQL], b""),
    ("python3", ["usr/bin/python3", "-S", "-c", PYTHON], b""),
]
for name, (program, *args), data in PROGRAMS:
    program = os.path.join(ROOT, program)
    plain = run("qemu-aarch64", "-cpu", "neoverse-n1", "-L", ROOT, program, *args, stdin=data,
                env=ENV)
    code, out, err, path = record("-L", ROOT, "-c", "2048", "--", program, *args, stdin=data,
                                  env=ENV)
    equal(f"{name}: the same output and status as without us", (code, out), plain[:2])
    samples = (int(re.search(r"([\d,]+) samples, ", err).group(1).replace(",", ""))
               if " samples, " in err else 0)
    check(f"{name}: profiled", samples > 100 and " 0 lost" in err and "no address" not in err, err)
    check(f"{name}: verify finds nothing", *verified(path))
    pcode, pout, perr = run("perf", "script", "-i", path, "--itrace=i1i", "-F", "event,ip,sym,dso")
    rows = [l for l in pout.decode(errors="replace").splitlines() if " instructions:" in l]
    check(f"{name}: perf reads every sample", pcode == 0 and len(rows) == samples,
          (len(rows), samples, perr[-300:]))
    known = sum("[unknown])" not in l for l in rows)
    check(f"{name}: every sample lies in a file", known > 0.999 * len(rows),
          f"{known} of {len(rows)}")
    if name in ("sqlite3", "bzip2"):
        # callbacks of QEMU against registers at block entry
        both = [[(r["pc"], r.get("va"))
                 for r in packets(record("-L", ROOT, "-e", "arm_spe//", "-c", "512", "--model",
                                         model, "--", program, *args, stdin=data, env=ENV,
                                         name=model)[3])] for model in ("full", "none")]
        # a sample that collides with a slow one is missing with the model
        rest = iter(both[1])
        odd = [x for x in both[0] if not any(x == y for y in rest)]
        check(f"{name}: the same addresses with and without a model", not odd and
              3000 < len(both[0]) > 0.99 * len(both[1]), (len(both[0]), len(both[1]), odd[:3]))
    again = record("-L", ROOT, "-c", "2048", "--", program, *args, stdin=data, env=ENV,
                   name="again")[3]
    check(f"{name}: the same bytes again", open(path, "rb").read() == open(again, "rb").read())

# ---- allocations: sqlite3's as a library put before libc logs them ----
LIBRARIES = "/usr/lib/aarch64-linux-gnu"
logger, log = build("log_heap", "-shared", "-fPIC", "-O2",
                    output="liblog_heap.so"), os.path.join(WORK, "heap.log")
code, out, err, path = record("-L", ROOT, "--allocs", "-c", "512", "--env", f"LD_PRELOAD={logger}",
                              "--env", f"HEAP_LOG={log}", "--",
                              os.path.join(ROOT, "usr/bin/sqlite3"), ":memory:", SQL, env=ENV)
equal("sqlite3 --allocs: status", code, 0)
data = open(log, "rb").read()
logged = [struct.unpack_from("<QQQ", data, at) for at in range(0, len(data), 24)]
found = allocations(path, sym=False)
blocks = {number: (start, size, site[0]) for l in found.values() for start, size, number, site in l}
at, missing = 0, []
for number in sorted(blocks):  # in the order in which they were allocated
    start, size, site = blocks[number]
    page = int(site, 16) & 0xfff  # perf shows the rest as the file has it
    while at < len(logged) and (*logged[at][:2], logged[at][2] & 0xfff) != (start, size, page):
        at += 1
    if at == len(logged):
        missing.append((number, hex(start), size, site))
        break
equal("sqlite3 --allocs: each block is in the log, in this order", missing, [])
check("sqlite3 --allocs: there are many", len(blocks) > 100, len(blocks))
code, out, err = spex("mem", "-i", path, "--sort", "alloc,dso", "--format", "json")
rows = json.loads(out)["rows"]
odd = {r["dso"] for r in rows if r["alloc"] == "[heap]"} - {"libc.so.6", "ld-linux-aarch64.so.1"}
equal("sqlite3 --allocs: what is in no block is used by libc and its linker alone", odd, set())

# ---- other allocators ----
if shutil.which(CXX):
    program = build_allocs("allocs")
    for library in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4"):
        code, out, err, path = record("-L", ROOT, "--allocs", "-c", 256, "--env",
                                      f"LD_PRELOAD={LIBRARIES}/{library}", "--", program, 1, 2000)
        problems, compared = compare(path, out.decode(), False)
        equal(f"{library}: blocks are those that the program logs", problems[:3], [])
        check(f"{library}: there are many", compared > 500, compared)
done()
