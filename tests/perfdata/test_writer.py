"""Files that the writer makes, judged by perf 6.1: every command that reads SPE, all it prints, and
no complaint but the listed ones; then the reader on the same files, and files that were cut off."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *
import pd

TOOL = os.path.join(BUILD, "tests/perfdata/perfdata-tool")
tmp = tempfile.TemporaryDirectory()
PATH = os.path.join(tmp.name, "w.data")
CC = shutil.which("aarch64-linux-gnu-gcc")
ENV = dict(os.environ, HOME=tmp.name, PERF_BUILDID_DIR=os.path.join(tmp.name, "debug"))
BUILD_ID = bytes(range(1, 21)).hex()


def write(lines, path=PATH):
    return subprocess.run([TOOL, "write", path], input="\n".join(lines).encode() + b"\n",
                          capture_output=True)


def tool(what, path=PATH):
    return run(TOOL, what, path)[1].decode(errors="replace").splitlines()


# ---- a program with symbols ----

program = os.path.join(tmp.name, "prog")
symbols = {}
if CC:
    source = os.path.join(tmp.name, "prog.c")
    open(source, "w").write("""
long table[4096];
__attribute__((noinline)) \
long hot(long n) { long s = 0; for (long i = 0; i < n; i++) s += table[i & 4095]; return s; }
__attribute__((noinline)) long cold(long n) { return n * 3 + 1; }
int main(void) { return (int)(hot(100) + cold(2)); }
""")
    subprocess.run([CC, "-O1", "-g", "-static", "-Wl,--build-id=0x" + BUILD_ID, "-o", program,
                    source], check=True)
    nm = subprocess.run(["aarch64-linux-gnu-nm", "-S", program], capture_output=True,
                        text=True).stdout
    for line in nm.splitlines():
        part = line.split()
        if len(part) == 4 and part[3] in ("hot", "cold", "main", "table"):
            symbols[part[3]] = (int(part[0], 16), int(part[1], 16))

BASE = 0x400000


def lines(metadata=1, per_thread=0, untimed=0, cpus=2, chunks=5, context=True, loss=False):
    """A small program's run on two CPUs: loads and stores of its table by two
    threads, branches, one gap."""
    yield f"option metadata {metadata}"
    yield f"option cpus {cpus}"
    yield f"option per_thread {per_thread}"
    yield f"option untimed {untimed}"
    yield f"option midr {pd.N1:#x}"
    yield "option hz 100000000"
    yield "option phys_addr 1"
    yield "option period 1024"
    yield "option hostname model"
    yield "option command record"
    yield "option event_filter 0xfff"
    yield "option min_interval 256"
    yield ("option terms arm_spe_0/ts_enable=1,pa_enable=1,jitter=1,min_latency=30,"
           "inv_event_filter=0x8/u")
    yield "open"
    yield ("map -1 0 ffff800008000000 ffff80000a000000 ffff800008000000 5 0 - 0 "
           "[kernel.kallsyms]_text")
    yield "comm 500 500 shell 0 0"
    yield "fork 1000 1000 500 500 1000"
    yield "comm 1000 1000 prog 1 1100"
    yield f"map 1000 1000 {BASE:x} {BASE + 0x100000:x} 0 5 0 {BUILD_ID} 1200 {program}"
    yield f"map 1000 1000 10000000 10010000 0 3 1 - 1300 //anon"
    yield "fork 1000 1001 1000 1000 1500"
    offsets = {}
    hot, cold, table = (symbols.get(n, (BASE + a, 64))[0]
                        for n, a in (("hot", 0x1000), ("cold", 0x2000), ("table", 0x3000)))
    tick = 300
    for chunk in range(chunks):
        for cpu in range(cpus):
            tid = 1000 + (chunk + cpu) % 2
            data = b""
            start = tick * 10
            if not context and not per_thread:
                yield f"switch {cpu} 0 0 1000 {tid} {start - 5}"
            for i in range(8):
                tick += 3
                ctx = tid if context else None
                kind = i % 4
                if kind == 0:
                    data += pd.record(hot + 4 * (i % 8), ctx=ctx, va=table + 64 * i, pa=0x40000000 +
                                      64 * i, total=50 + i, source=(0, 8, 0xb, 0xe)[chunk % 4],
                                      events=0x16 if chunk % 4 == 0 else 0x1e, ts=tick)
                elif kind == 1:
                    data += pd.record(hot + 8, ctx=ctx, op=(1, 1), va=table + 64, pa=0x40000040,
                                      total=33, events=0x16, ts=tick)
                elif kind == 2:
                    data += pd.record(cold, ctx=ctx, op=(2, 1), target=cold + 32, total=40,
                                      events=0x82, ts=tick)
                else:
                    data += pd.record(0xffff800008000100, el=1, ctx=ctx, va=0x10000000 + 8 * i,
                                      pa=0x41000000, total=60, source=9, ts=tick)
            if cpu == 0 and chunk == 1:
                data += bytes(3)  # a length that is not a whole number of words
            flags = 1 if loss and cpu == 1 and chunk == 2 else 0
            yield f"aux {cpu} 1000 {tid} {flags} {tick * 10} {data.hex()}"
    if loss:
        yield f"lost 0 7 {tick * 10 + 5}"
    yield f"exit 1000 1001 1000 1000 {tick * 10 + 10}"
    yield f"exit 1000 1000 500 500 {tick * 10 + 20}"


# ---- perf's commands ----

r = write(lines())
equal("write", (r.returncode, r.stderr), (0, b""))
first = open(PATH, "rb").read()
write(lines())
check("same calls, same bytes", open(PATH, "rb").read() == first)
# ^- nothing of the host: the time of day, names, paths are as told

code, out, errors = pd.perf("report", "-D", "-i", PATH, env=ENV)
check("report -D", code == 0 and not errors and out.count("ARM SPE data") == 10, errors)
check("report -D: no bad packet", "Bad packet" not in out)
# First level (f), memory (M), TLB (t), branches (b), instructions; no record is of the last
# level (m) or remote (a).
for letter in ("f", "M", "t", "b", "a", "m", "i1i", "i7i"):
    code, got, errors = pd.script(PATH, itrace=letter, phys=True)
    check(f"script --itrace={letter}", code == 0 and not errors and (got or letter in ("m", "a")),
          errors)
code, got, errors = pd.script(PATH, itrace="i1i", phys=True)
equal("script: one sample per record", len(got), 80)
equal("script: threads", {(g["comm"], g["pid"], g["tid"]) for g in got},
      {("prog", 1000, 1000), ("prog", 1000, 1001)})
equal("script: CPUs", {g["cpu"] for g in got}, {0, 1})
ours = {}
for line in tool("records"):
    f = dict(re.findall(r"(\w+)=(\S+)", line))
    if "pc" in f:
        ours[int(f["time"])] = (f["comm"], int(f["tid"]), int(f["cpu"]), int(f["pc"], 16),
                                int(f["va"], 16), int(f["pa"], 16),
                                int(f["latency"]), int(f["data_src"], 16))
equal("script: times, addresses, weights, sources are the reader's",
      {g["time"]: (g["comm"], g["tid"], g["cpu"], g["ip"], g["addr"], g["phys"], g["weight"],
                   g["src"]) for g in got}, ours)
code, out, errors = pd.perf("script", "-i", PATH, "--itrace=i1i", "-F", "ip,sym,dso", env=ENV)
if CC:
    names = sorted({x.split()[1] for x in out.splitlines() if program in x})
    equal("script: symbols", names, ["cold", "hot"])
    code, out, errors = pd.perf("report", "-i", PATH, "--itrace=i1i", "--stdio", "-F", "sample,sym",
                                "--percentage", "relative", env=ENV)
    counts = dict((m[2], int(m[1])) for m in re.finditer(r"^\s*(\d+)\s+\[\S\] (\w+)", out, re.M))
    equal("report: samples per symbol", (counts.get("hot"), counts.get("cold")), (40, 20))
    code, out, errors = pd.perf("annotate", "-i", PATH, "--itrace=i1i", "--stdio",
                                "--objdump=aarch64-linux-gnu-objdump", "hot", env=ENV)
    check("annotate", code == 0 and not errors and re.search(r"50\.00 : +[0-9a-f]+:\s+b\.le", out),
          out[:800] + str(errors))
    code, out, errors = pd.perf("buildid-list", "-i", PATH, env=ENV)
    check("buildid-list", BUILD_ID in out and program in out, out)
else:
    skip("symbols", "no aarch64 compiler")
code, out, errors = pd.perf("report", "--mem-mode", "-i", PATH, "--stdio", "--sort=mem,dso_daddr",
                            env=ENV)
check("report --mem-mode",
      code == 0 and not errors and "L2 or L2 hit" in out and "Local RAM" in out, out + str(errors))
code, out, errors = pd.perf("mem", "report", "-i", PATH, "--stdio", env=ENV)
check("mem report", code == 0 and not errors and "L1 or L1 hit" in out, out[:800] + str(errors))
code, out, errors = pd.perf("c2c", "report", "-i", PATH, "--stdio", env=ENV)
check("c2c report", code == 0 and not errors and re.search(r"Load Operations\s+:\s+40", out) and
      re.search(r"Store Operations\s+:\s+20", out), out[:1500] + str(errors))
code, out, errors = pd.perf("script", "-i", PATH, "--show-task-events", "--show-mmap-events", "-F",
                            "comm,tid,time", "--itrace=e", env=ENV)
check("script: tasks and mappings",
      code == 0 and "PERF_RECORD_FORK(1000:1001):(1000:1000)" in out and
      "PERF_RECORD_COMM exec: prog:1000/1000" in out and "PERF_RECORD_EXIT(1000:1001)" in out and
      not errors, out[:1000] + str(errors))
code, out, errors = pd.perf("report", "-i", PATH, "--header-only", "-I", env=ENV)
check("header",
      all(t in out for t in ("hostname : model", "arch : aarch64", "nrcpus online : 2",
                             "cmdline : spex record", "node0 cpu list : 0-1",
                             "cpuid : 0x00000000413fd0c1", "sample_period, sample_freq } = 1024",
                             "memory nodes (nr 1", "sibling sockets : 0-1",
                             "sibling dies    : 0-1", "sibling threads : 1",
                             "CPU 1: Core ID 1, Die ID 0, Socket ID 0",
                             "pmu mappings: software = 1, arm_spe_0 = 12")), out)

other = os.path.join(tmp.name, "sockets.data")
write(["option node_cpus 2", *lines(cpus=7)], other)
code, out, errors = pd.perf("report", "-i", other, "--header-only", "-I", env=ENV)
check("header of two sockets",
      all(t in out for t in ("sibling sockets : 0-1,4-5\n", "sibling sockets : 2-3,6\n",
                             "CPU 5: Core ID 5, Die ID 0, Socket ID 0",
                             "CPU 6: Core ID 6, Die ID 0, Socket ID 1",
                             "node1 cpu list : 2-3,6")), out + str(errors))

# ---- shapes ----

for name, options in (("per thread", dict(per_thread=1, context=False)),
                      ("without times", dict(untimed=1, context=False)),
                      ("switches instead of context", dict(context=False)),
                      ("one CPU", dict(cpus=1))):
    r = write(lines(**options))
    code, got, errors = pd.script(PATH, itrace="i1i", cpu="per_thread" not in options,
                                  time="untimed" not in options)
    # perf defect: a sample of nothing begins each queue without times
    got = [g for g in got if g["ip"]]
    want = 40 if options.get("cpus") == 1 else 80
    threads = {g["tid"] for g in got}
    check(f"{name}: perf reads {want} samples",
          r.returncode == 0 and code == 0 and not errors and len(got) == want and
          (threads == {1000, 1001} or name == "without times"),
          f"{r.stderr} {code} {errors} {len(got)} {threads}")
    check(f"{name}: the reader agrees", len([x for x in tool("records") if "pc=" in x]) == want and
          not [x for x in tool("records") if "problem" in x or "damage" in x])
r = write(lines(metadata=2))
info = tool("info")
check("metadata 2: read back",
      f"cpu 1 midr={pd.N1:#x} pmu=12 min_interval=256 event_filter=0xfff" in info, "\n".join(info))
code, out, errors = pd.perf("report", "-D", "-i", PATH, env=ENV)
check("metadata 2: perf 6.1 dumps it", code == 0 and not errors and out.count("ARM SPE data") == 10,
      errors)
r = subprocess.run([TOOL, "write", "-"], input="\n".join(lines()).encode(), capture_output=True)
code, got, errors = pd.script("-", itrace="i1i", stdin=r.stdout)
check("pipe: perf reads it", code == 0 and not errors and len(got) == 80, f"{errors} {len(got)}")
code, got, errors = pd.perf("report", "-i", "-", "--header-only", "-I", stdin=r.stdout, env=ENV)
check("pipe: perf reads the CPUs' places and PMUs",
      "CPU 1: Core ID 1, Die ID 0, Socket ID 0" in got and
      "pmu mappings: software = 1, arm_spe_0 = 12" in got, got + str(errors))
code, out, err = run(TOOL, "records", "-", stdin=r.stdout)
equal("pipe: the reader agrees", len([x for x in out.splitlines() if b"pc=" in x]), 80)

write(lines(loss=True))
code, out, errors = pd.perf("report", "-D", "-i", PATH, env=ENV)
equal("losses: perf says them", [e for e in errors if "lost" in e],
      ["Processed 43 events and lost 1 chunks!", "AUX data lost 1 times out of 10!"])

# ---- round trip of what was put in ----

events = "\n".join(tool("events"))
for what in ("FORK misc=0 size=64 pid=1000 tid=1001 time=1500 cpu=0 id=2 stream=0 event=dummy:u "
             "task=1000/1001 parent=1000/1000",
             "map=1000/1000 0x10000000-0x10010000 @0 prot=3", f"build_id={BUILD_ID} name={program}",
             "lost=7", "comm=1000/1000 name=prog"):
    check(f"read back: {what[:60]}", what in events, events[:2000])
info = "\n".join(tool("info"))
check("read back: event", "event arm_spe_0/ts_enable=1,pa_enable=1,jitter=1,min_latency=30,"
      "inv_event_filter=0x8/u type=12 "
      "config=0x10003,0,0x1e period=1024" in info and
      "terms=ts_enable=1,pa_enable=1,jitter=1,min_latency=30,inv_event_filter=0x8" in info, info)
check("read back: totals", "lost=7 throttled=0 truncated=1" in info, info)
runs = [x for x in tool("runs") if x.startswith("cpu=")]
# perf fills chunks up to words: the three odd bytes are joined without the
# filling, the gap is not joined
equal("read back: AUX data, one run on CPU 0, two on CPU 1", [len(x.split()[4]) // 2 for x in runs],
      [5 * 8 * 64 + 3, 3 * 8 * 64, 2 * 8 * 64])

# ---- cut off ----

write(lines())
whole = [x for x in tool("records") if "pc=" in x]
bad = []
for size in list(range(0, len(first), 97)) + [len(first) - 1]:
    open(PATH, "wb").write(first[:size])
    got = [x for x in tool("records") if "pc=" in x]
    known = set(whole)
    if [x for x in got if x not in known and "comm=?" not in x]:
        bad.append((size, "records that were not there"))
    if size == len(first) - 1 and len(got) != 80:
        bad.append((size, len(got)))
check("cut at any length: no invented record", not bad, bad[:5])
# What has to be there: all records of chunks that lie before the cut
places = []
write(lines())
for line in tool("events"):
    m = re.match(r"(0x[0-9a-f]+) AUXTRACE .*size=(0x[0-9a-f]+) offset", line)
    if m:
        places.append(int(m[1], 16) + 48 + int(m[2], 16))
bad = []
for n, place in enumerate(places, 1):
    open(PATH, "wb").write(first[:place])
    got = tool("records")
    if sum("pc=" in x for x in got) != 8 * n or not any(x.startswith("problem truncated")
                                                        for x in got):
        bad.append((n, len(got), got[-1]))
check("cut behind each chunk: all records up to there", not bad, bad)
for n, end in (("in the middle", 5), ("at the start", 0)):
    script_lines = list(lines())
    aux = [i for i, x in enumerate(script_lines) if x.startswith("aux")]
    write(script_lines[:aux[end] + 1] + ["die"])
    got = tool("records")
    equal(f"the writer died {n}: the reader has all that was added", sum("pc=" in x for x in got),
          8 * (end + 1))
    code, out, errors = pd.perf("script", "-i", PATH, "--itrace=i1i", "-F",
                                "comm,tid,time,ip,event", env=ENV)
    equal(f"the writer died {n}: perf too", (code, out.count("instructions"), errors),
          (0, 8 * (end + 1), []))
equal("no room: said once, at the end",
      (lambda r: (r.returncode, r.stderr))(write(lines(), "/dev/full")),
      (1, b"cannot write /dev/full: No space left on device\n"))
done()
