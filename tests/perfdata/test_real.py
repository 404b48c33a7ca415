"""Recordings that perf makes on this machine, read back: every record, and the state that each
sample sees, compared with perf's own dump. Perf is Debian's, and perf 7 where `make check` has
unpacked it.

SPEX_FILES=DIR: every file of that folder, of any kind and any perf, too: as many samples as perf
finds, or a clear refusal."""
import os
import re
import subprocess
import sys
import tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

TOOL = os.path.join(BUILD, "tests/perfdata/perfdata-tool")
WORK = os.path.join(BUILD, "tests/perfdata/perfdata-work")
tmp = tempfile.TemporaryDirectory()
PATH = os.path.join(tmp.name, "r.data")

HEAD = re.compile(r"^(?:(-?\d+) )?(\d+ )?(0x[0-9a-f]+|\(nil\)|0)(?:@\S+)? \[0x([0-9a-f]+)\]: "
                  r"PERF_RECORD_(\w+)(.*)$")


PERF7 = os.path.join(BUILD.removesuffix("-asan"), "perf7/perf")
PERFS = ["perf"] + [PERF7] * os.path.exists(PERF7)
perf = PERFS[0]


def perf_dump(path, stdin=None):
    """(offset, type, fields) of every record that perf prints."""
    r = subprocess.run([perf, "report", "-D", "-i", path], input=stdin, capture_output=True,
                       stdin=subprocess.DEVNULL if stdin is None else None)
    records, current = [], None
    for line in r.stdout.decode(errors="replace").splitlines():
        m = HEAD.match(line)
        if m:
            first, second, offset, size, kind, rest = m.groups()
            current = dict(offset=int(offset, 16) if offset.startswith("0x") else 0,
                           size=int(size, 16), kind=kind,
                           numbers=[int(x) for x in (first, second) if x], rest=rest, chain=[],
                           comm=None, dso=None)
            records.append(current)
        elif current:
            m = re.match(r"\.\.\.\.\.\s+\d+: ([0-9a-f]+)", line)
            if m:
                current["chain"].append(int(m.group(1), 16))
            m = re.match(r" \.\.\. thread: (.*):(-?\d+)$", line)
            if m:
                current["comm"] = m.group(1)
            m = re.match(r" \.\.\.\.\.\. dso: (.*)$", line)
            if m:
                current["dso"] = m.group(1)
    return records


def ours(path, stdin=None):
    code, out, err = run(TOOL, "events", path, stdin=stdin)
    records = []
    for line in out.decode(errors="replace").splitlines():
        if line.startswith("problem"):
            records.append(dict(kind="PROBLEM", text=line))
            continue
        head, _, rest = line.partition(" misc=")
        offset, kind = head.split(" ")
        fields = dict(re.findall(r"(\w+)=(.*?)(?= \w+=|$)", "misc=" + rest))
        records.append(dict(offset=int(offset, 16), kind=kind, fields=fields, text=line))
    return records


def number(text):
    return int(text, 16) if text.startswith("0x") else int(text)


def compare(a, b):
    """What is wrong with our record a beside perf's b, or None."""
    f, rest = a["fields"], b["rest"]
    # perf prints CPU and time, or time alone, or for records without either a zero
    want = b["numbers"]
    if int(f.get("cpu", -1)) >= 0 and len(want) == 2 and int(f["cpu"]) != want[0]:
        return f"cpu {want}"
    if "time" in f and want and int(f["time"]) != want[-1] and want != [-1]:
        return f"time {want}"
    if a["kind"] == "SAMPLE":
        m = re.match(r"\(IP, (0x[0-9a-f]+)\): (-?\d+)/(-?\d+): (0x[0-9a-f]+|0) period: (\d+) "
                     r"addr: (0x[0-9a-f]+|0)", rest)
        if not m:
            return "perf's line not understood: " + rest
        want = (int(m[1], 16), int(m[2]), int(m[3]), number(m[4]), int(m[5]), number(m[6]))
        got = (int(f["misc"], 16), int(f["pid"]), int(f["tid"]), int(f["ip"], 16), int(f["period"]),
               int(f["addr"], 16))
        if want != got:
            return f"{got} {want}"
        if b["chain"] and [int(x, 16) for x in f["chain"].split(",") if x] != b["chain"]:
            return f"chain {f['chain']} {b['chain']}"
        comm = f["comm"] if f["comm"] != "?" else ":" + f["tid"]
        if b["comm"] is not None and comm != b["comm"]:
            return f"comm {comm} {b['comm']}"
        dso = f["dso"].replace("]_text", "]")
        dso = "<not found>" if dso == "?" else dso
        if dso == "//anon" and b["dso"] == f"/tmp/perf-{f['pid']}.map":
            dso = b["dso"]  # where perf looks for the names of generated code
        if dso == "[vdso]" and (b["dso"] or "").startswith("/tmp/perf-vdso.so-"):
            dso = b["dso"]  # where perf keeps its copy
        if b["dso"] is not None and dso != b["dso"]:
            return f"dso {dso} {b['dso']}"
    elif a["kind"] in ("MMAP", "MMAP2"):
        m = re.match(r" (-?\d+)/(-?\d+): \[(0x[0-9a-f]+|0)\((0x[0-9a-f]+|0)\) @ "
                     r"(0x[0-9a-f]+|0)(.*?)\]: \S+ (.*)$", rest)
        if not m:
            return "perf's line not understood: " + rest
        g = re.match(r"(-?\d+)/(-?\d+) (\S+)-(\S+) @(\S+)", f["map"])
        start = number(m[3])
        want = (int(m[1]), int(m[2]), start, start + number(m[4]), number(m[5]), m[7])
        got = (int(g[1]), int(g[2]), number(g[3]), number(g[4]), number(g[5]), f["name"])
        if want != got:
            return f"{got} {want}"
        inode = re.match(r" ([0-9a-f]+):([0-9a-f]+) (\d+) (\d+)", m[6])
        if inode:
            if (f"{int(inode[1], 16):x}:{int(inode[2], 16):x}" != f["dev"] or
                inode[3] != f["ino"] or inode[4] != f["gen"]):
                return f"inode {m[6]}"
        elif "<" in m[6] and m[6].strip().strip("<>") != f["build_id"]:
            return f"build-id {m[6]} {f['build_id']}"
    elif a["kind"] == "COMM":
        m = re.match(r"( exec)?: (.*):(-?\d+)/(-?\d+)$", rest)
        if (m[2], f"{m[3]}/{m[4]}", bool(m[1])) != (f["name"], f["comm"],
                                                    bool(int(f["misc"], 16) & 0x2000)):
            return rest
    elif a["kind"] in ("FORK", "EXIT"):
        m = re.match(r"\((-?\d+):(-?\d+)\):\((-?\d+):(-?\d+)\)", rest)
        if (f"{m[1]}/{m[2]}", f"{m[3]}/{m[4]}") != (f["task"], f["parent"]):
            return rest
    elif a["kind"] == "SWITCH_CPU_WIDE":
        m = re.match(r"\s+(IN|OUT(?: preempt)?)\s+(?:next|prev) pid/tid:\s*(-?\d+)/(-?\d+)", rest)
        if (not m or f"{m[2]}/{m[3]}" != f["thread"] or
            m[1].startswith("OUT") != bool(int(f["misc"], 16) & 0x2000)):
            return rest
    return None


def judge(title, path=PATH, stdin=None, offsets=True, want=None):
    want = want or perf_dump("-" if stdin else path, stdin)
    got = ours("-" if stdin else path, stdin)
    problems = [g["text"] for g in got if g["kind"] == "PROBLEM"]
    # perf prints some of its own records not at all or out of order; the kernel's are all there.
    kernel = ("SAMPLE", "MMAP", "MMAP2", "COMM", "FORK", "EXIT", "SWITCH", "SWITCH_CPU_WIDE",
              "LOST", "NAMESPACES", "CGROUP", "THROTTLE", "UNTHROTTLE")
    got = [g for g in got if g["kind"] in kernel]
    want = [w for w in want if w["kind"] in kernel]
    if offsets:
        got.sort(key=lambda r: r["offset"])
        want.sort(key=lambda r: r["offset"])
    else:  # compressed: perf counts offsets in buffers of its own; both in order of time
        got.sort(key=lambda r: (int(r["fields"].get("time", 0)), r["kind"]))
        want.sort(key=lambda r: (r["numbers"][-1] if r["numbers"] else 0, r["kind"]))
    wrong = []
    if [g["kind"] for g in got] != [w["kind"] for w in want]:
        wrong.append(f"{len(got)} and {len(want)} records")
    else:
        for g, w in zip(got, want):
            # perf does not count a pipe's header
            if offsets and g["offset"] != w["offset"] + (16 if stdin else 0):
                wrong.append(f"offset {g['offset']:#x} {w['offset']:#x}")
            difference = compare(g, w)
            if difference:
                wrong.append(f"{g['offset']:#x} {g['kind']}: {difference}\n   {g['text']}")
    samples = sum(g["kind"] == "SAMPLE" for g in got)
    check(f"{title}: {samples} samples, {len(got)} records as perf prints them",
          not wrong and not problems and got, "\n".join(problems + wrong[:10]))


MODES = [("clock", "-e cpu-clock"),
         ("call chains, two events, addresses", "-e cpu-clock,page-faults -g -d"),
         ("context switches", "-e cpu-clock --switch-events"),
         ("all CPUs, switches", "-e cpu-clock --switch-events -a"),
         ("one thread, no time", "-e cpu-clock --per-thread --no-timestamp"),
         ("build-ids in mappings", "-e cpu-clock --buildid-mmap"),
         ("registers and stack", "-e cpu-clock --user-regs=ip,sp --call-graph dwarf,512"),
         ("interrupt registers, weights, page sizes",
          "-e cpu-clock --intr-regs=ip,sp -W -d --data-page-size --code-page-size"),
         ("a group that is read at once", "-e {cpu-clock,page-faults}:S"),
         ("namespaces, cgroups", "-e cpu-clock --namespaces --all-cgroups"),
         ("tracepoint with raw data", "-e sched:sched_switch"),
]


def record(options, out):
    return subprocess.run([perf, "record", "-q", *options.split(), "-o", out, "--", WORK],
                          capture_output=True)


def folder(where):
    """Files of others."""
    global perf
    perf = PERFS[-1]
    for name in sorted(os.listdir(where)):
        path = os.path.join(where, name)
        want = sum(r["kind"] == "SAMPLE" for r in perf_dump(path))
        code, out, err = run(TOOL, "events", path)
        got = len(re.findall(rb"^\S+ SAMPLE ", out, re.M))
        refused = code == 1 and not got  # spex says why, below
        check(f"{name}: {want} samples as perf finds, or a refusal", refused or
              (code == 0 and got == want), f"{got} samples, exit {code}, {err}")
        for command in ("report", "script", "dump"):
            code, out, err = spex(command, path)
            check(f"{name}: {command} reads it, or says why not", code == 0 or
                  (code == 1 and err.strip()), f"exit {code}, {err}")


if os.environ.get("SPEX_FILES"):
    folder(os.environ["SPEX_FILES"])
r = record("-e cpu-clock", PATH)
if r.returncode:
    skip("recordings of this machine",
         "perf record does not work here: " + r.stderr.decode()[-200:].replace("\n", " "),
         machine=True)
    done()
for perf in PERFS:
    of = "" if perf == "perf" else "perf 7: "
    for title, options in MODES:
        r = record(options, PATH)
        if r.returncode:
            skip(of + title, r.stderr.decode(errors="replace").strip().splitlines()[-1][:100]
                 if r.stderr else "refused", machine=True)
            continue
        judge(of + title)
    r = record("-e cpu-clock -g -z", PATH)
    if r.returncode:
        skip(f"{of}compressed", "this perf does not compress")
    else:
        judge(f"{of}compressed", offsets=False)
        code, out, err = run(TOOL, "info", PATH)
        check(f"{of}it was compressed", re.search(rb"compressed=[1-9]", out), out)
    for again in range(5):  # perf seldom stops within a pipe that it wrote
        r = record("-e cpu-clock,page-faults -g", "-")
        theirs = perf_dump("-", r.stdout)
        samples = [sum(x["kind"] == "SAMPLE" for x in records)
                   for records in (theirs, ours("-", r.stdout))]
        if samples[0] == samples[1]:
            break
    check(f"{of}pipe: the recording", r.returncode == 0 and r.stdout, r.stderr)
    judge(f"{of}pipe", stdin=r.stdout, want=theirs)
perf = PERFS[0]
with open(PATH, "wb") as f:
    f.write(r.stdout)
a, b = ours(PATH), ours("-", r.stdout)
equal("a pipe stored as a file", [x["text"] for x in a], [x["text"] for x in b])
# A recording that ended badly: perf itself wrote no data size
r = record("-e cpu-clock", PATH)
data = bytearray(open(PATH, "rb").read())
whole = ours(PATH)
data[48:56] = bytes(8)
open(PATH, "wb").write(data)
cut = ours(PATH)
check("no data size: all records are read", [x["text"] for x in cut if x["kind"] == "SAMPLE"] ==
      [x["text"].replace("event=cpu-clock", "event=") for x in whole if x["kind"] == "SAMPLE"] and
      any("not ended properly" in x["text"] for x in cut if x["kind"] == "PROBLEM"),
      "\n".join(x["text"] for x in cut[-3:]))
done()
