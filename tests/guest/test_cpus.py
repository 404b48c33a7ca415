"""
CPUs of --cpu: every preset and a file of one's own. What the model says a load's data came from is
what spex and both perfs read in its records, by the encoding of that CPU; records have its layout;
a wrong file is told by its line.
"""
import collections
import json
import shutil
from guest import *

need_engine("CPUs")
CPUS = os.path.join(SOURCE, "share", "cpus")
PERF7 = os.path.join(BUILD, "perf7", "perf")
run(os.path.join(SOURCE, "scripts/perf7-setup"), os.path.join(BUILD, "perf7"), timeout=600)
places = build("places", "-static", "-pthread")


def own(name, *changes, base="neoverse-n2"):
    """A file like that of a preset with other lines: {key: value}, None to leave it out."""
    path = os.path.join(WORK, name + ".cpu")
    changes = dict(changes)
    with open(path, "w") as f:
        for line in open(os.path.join(CPUS, base + ".cpu")):
            key = line.split()[0] if line.strip() else ""
            if key in changes:
                value = changes.pop(key)
                if value is None:
                    continue
                line = f"{key} {value} mine\n"
            f.write(line)
        for key, value in changes.items():
            f.write(f"{key} {value} mine\n")
    return path


# What Data Source values mean (by the cores' manuals): to spex, and as perf 7 words it.
NEOVERSE = {0x0: ("l1", "L1 hit|None"), 0x8: ("l2", "L2 hit|None"),
            0x9: ("peer-core", "L2 hit|N/A or Peer"),
            0xb: ("system-cache", "L3 hit|Hit"), 0xc: ("peer-cluster", "L3 hit|N/A or Peer"),
            0xd: ("remote", "N/A|N/A or Peer"), 0xe: ("dram", "RAM hit|None")}
AMPERE = {0x8: NEOVERSE[0x0], 0x9: NEOVERSE[0x8], 0x0: NEOVERSE[0x9], 0x3: NEOVERSE[0xb],
          0x5: NEOVERSE[0xd], 0x7: NEOVERSE[0xe]}
HIP12 = {18: ("l1", "L1 hit|None"), 16: ("l2", "L2 hit|None"),
         0: ("peer-core", "L2 hit|N/A or Peer"), 1: ("peer-core", "L2 hit|HitM or Peer"),
         2: ("l3", "L3 hit|Hit"), 4: ("peer-cluster", "L3 hit|N/A or Peer"),
         5: ("peer-cluster", "L3 hit|HitM or Peer"), 6: ("remote", "Remote Any cache|N/A or Peer"),
         7: ("remote", "Remote Any cache|HitM or Peer"), 8: ("dram", "RAM hit|None"),
         9: ("remote-dram", "Remote RAM hit|N/A")}
# No packet: by events. spex has no name for "missed level 1 and did not reach the last".
EVENTS = {"l1": "L1 hit|N/A", "unknown": "L1 miss|N/A", "l3": "L3 hit|N/A", "dram": "L3 miss|N/A",
          "remote": "Remote L3 miss|N/A"}
# What each run must show, by level: {model: places}. Peers of the same and of another
# cluster, another socket.
RUNS = {"cluster=4": ("l1", "l2", "near", "llc", "dram"),
        "cluster=1": ("l1", "l2", "far", "llc", "dram"),
        "cluster=1,sockets=2": ("l1", "l2", "llc", "dram", "remote")}
NAMES = {"near": ("peer-core",), "far": ("peer-cluster", "peer-core"),
         "llc": ("system-cache", "l3"), "remote": ("remote", "remote-dram")}
# perf 6.1, the CPUs that it knows
OLD = {"l1": "L1 or L1 hit", "l2": "L2 or L2 hit", "peer-core": "L2 or L2 hit",
       "system-cache": "L3 or L3 hit", "peer-cluster": "L3 or L3 hit",
       "remote": "Remote N/A or N/A", "dram": "Local RAM or RAM hit"}

hip12 = own("hip12", ("features", "v1p2,no-eft,no-fpf,midr=0x480fd060,align=2"))
CASES = [("neoverse-n1", NEOVERSE, "n1"), ("neoverse-v1", NEOVERSE, "n1"),
         ("neoverse-n2", NEOVERSE, "n1"),
         ("neoverse-v2", NEOVERSE, "n1"), ("neoverse-v3", NEOVERSE, "n1"),
         ("ampereone", AMPERE, "compact"),
         ("kunpeng-920", None, "hisi"), (hip12, HIP12, "hisi")]


def perf_words(perf, path):
    """Loads by what perf says of them: {"L1 hit|None": number}."""
    code, out, err = run(perf, "script", "-i", path, "--itrace=M", "-F", "event,data_src")
    return collections.Counter(m[1].strip() + "|" + m[2].strip()
                               for m in re.finditer(r"OP LOAD\|LVL ([^|]*)\|SNP ([^|]*)\|",
                                                    out.decode(errors="replace")))


def loads(path):
    """(source, Data Source value or None) of every record of a load."""
    code, out, err = spex("script", "-i", path, "--format", "json", "-F",
                          "op_class,op_payload,source,data_source")
    rows = [json.loads(line) for line in out.splitlines()]
    return collections.Counter((r["source"], r.get("data_source")) for r in rows
                               if r["op_class"] == 1 and not r["op_payload"] & 1)


def taken(path):
    """By source: atomics that have the line and take it from another socket's core. perf calls
    these remote, spex by where the data was."""
    code, out, err = spex("script", "-i", path, "--format", "json", "-F",
                          "op_class,op_payload,source,events")
    rows = [json.loads(line) for line in out.splitlines()]
    return collections.Counter(r["source"] for r in rows if r["op_class"] == 1 and
                               not r["op_payload"] & 1 and r["source"] != "remote" and
                               "remote-access" in r["events"])


def order(path):
    """Packets of the first record with a data address, and the sizes of all records."""
    code, out, err = spex("dump", "-i", path, "--format", "json")
    record, sizes, first = [], set(), None
    for p in map(json.loads, filter(lambda l: l.startswith(b"{"), out.splitlines())):
        if p["packet"] == "padding" and not record:
            continue  # after the record before
        record.append(p)
        if p["packet"] in ("timestamp", "end"):
            sizes.add(p["offset"] + p["size"] + 1 - record[0]["offset"])
            names = [q["packet"] + str(q.get("index", "")) for q in record]
            if first is None and "address2" in names:
                first = names
            record = []
    return first, sizes


LAYOUTS = {  # as hardware writes them; the last is that of the pseudocode
           "n1": ["address0", "operation-type1", "events", "counter1", "counter0", "address2",
                  "counter2"],
           "hisi": ["address0", "counter1", "counter0", "events", "operation-type1", "address2",
                    "counter2"],
           "compact": ["counter0", "counter1", "counter2", "address0", "address2", "data-source",
                       "operation-type1", "events"]}

def in_order(packets, layout):
    """The packets, and the layout's order, as far as each knows the other's (a
    store has no source)."""
    return [p
            for p in packets if p in LAYOUTS[layout]], [p for p in LAYOUTS[layout] if p in packets]


for cpu, table, layout in CASES:
    name = os.path.basename(cpu)
    for model, must in RUNS.items():
        if model == "cluster=1" and cpu.startswith("neoverse-v"):
            continue  # the same table
        what = f"{name}, {model}"
        # without prefetchers each place has a hundred samples and more
        numbers = f"full,prefetch=none,llc.size=4M,llc.ways=16,{model}"
        code, _, err, path = record("-q", "--deterministic", "--cpu", cpu, "-c", "256", "--model",
                                    numbers, "--", places)
        if code:
            check(f"{what}: record", False, err)
            continue
        seen = loads(path)
        new, old = perf_words(PERF7, path), perf_words("perf", path)
        if table:
            wrong = {k: n for k, n in seen.items() if k[1] not in table or table[k[1]][0] != k[0]}
            check(f"{what}: every value is one of the CPU's and named right", not wrong, wrong)
            want = collections.Counter()
            for (source, value), n in seen.items():
                want[table.get(value, ("", "?"))[1]] += n
            shown = {s for s, _ in seen}
            missing = [p for p in must if not shown & set(NAMES.get(p, (p,)))]
            check(f"{what}: shows {', '.join(must)}", not missing, seen)
        else:
            want = collections.Counter()
            for (source, value), n in seen.items():
                want[EVENTS.get(source, "?")] += n
            for source, upgrades in taken(path).items():
                want[EVENTS[source]] -= upgrades
                want["Remote " + EVENTS[source]] += upgrades
            check(f"{what}: no Data Source packets", all(value is None for _, value in seen), seen)
        if os.path.exists(PERF7):
            equal(f"{what}: perf 7 reads the same", new, want)
        if name in ("neoverse-n1", "neoverse-v1", "neoverse-n2"):
            want = collections.Counter()
            for (source, value), n in seen.items():
                want[OLD[source]] += n
            got = collections.Counter()
            for words, n in old.items():
                got[words.split("|")[0]] += n
            if not equal(f"{what}: perf 6.1 reads the same", got, want):
                shutil.copy(path, os.path.join(BUILD, f"cpus-{name}.data"))  # to look at
        elif table is None:
            equal(f"{what}: perf 6.1 reads the same", old, want)
    first, sizes = order(path)
    equal(f"{name}: order of packets", *in_order(first, layout))
    check(f"{name}: size of records",
          sizes == {64} if layout == "n1" else all(n % 4 == 0 for n in sizes) and len(sizes) > 1
          if layout == "hisi" else max(sizes) <= 64, sizes)
    code, out, err = spex("verify", path)
    check(f"{name}: the stream is right for its feature set", code == 0, (out, err))

# ---- presets ----
code, out, err = spex("help", "cpus")
presets = sorted(f[:-4] for f in os.listdir(CPUS))
equal("help cpus names every file of share/cpus",
      sorted(re.findall(r"^  (\S+) ", out.decode(), re.M)), presets)
texts = []
for cpu in ("neoverse-n1", os.path.join(CPUS, "neoverse-n1.cpu")):
    code, _, err, path = record("-q", "--cpu", cpu, "-c", "1024", "--deterministic", "--", places)
    code, text, err = spex("dump", "-i", path)
    texts.append(text)
check("by its name and by its file the same records",
      len(texts[0].splitlines()) > 5000 and texts[0] == texts[1])

# ---- files that are wrong ----
for what, change, word in (
        ("a key that is none", ("l1d.wasy", 4), "no parameter 'l1d.wasy'"),
        ("a value that is none", ("l1d.ways", "many"), "number of ways from 1 to 16"),
        ("features that are none", ("features", "v1p2,turbo"), "unknown feature 'turbo'"),
        ("a layout that is none", ("layout", "round"), "auto compact n1 hisi"),
        ("a MIDR that is none", ("features", "max,midr=big"), "midr")):
    path = own("bad", change)
    line = next(i for i, l in enumerate(open(path), 1) if "mine" in l)
    code, _, err = spex("record", "--cpu", path, "--", places)
    check(f"{what}: refused with file, line and reason",
          code == 2 and f"{path}: line {line}: " in err and word in err, err)
for key, word in (("features", "features is missing"), ("width", "width is missing")):
    code, _, err = spex("record", "--cpu", own("bad", (key, None)), "--", places)
    check(f"without {key}: refused", code == 2 and word in err, err)
code, _, err = spex("stat", "--cpu", "/nowhere.cpu", "--", places)
check("stat: no such file", code == 2 and "/nowhere.cpu: No such file" in err, err)
code, _, err = spex("vm", "--cpu", own("bad", ("l1d.wasy", 4)), "--guest", "/nowhere")
check("vm: refused with file and reason",
      code == 2 and "bad.cpu: line" in err and "l1d.wasy" in err, err)
for model in ("width=4,sampled", "full", "none"):
    code, _, err = spex("vm", "--model", model, "--guest", "/nowhere")
    check(f"vm: {model} is taken", code == 1 and "/nowhere is no prepared guest" in err, err)
code, _, err = spex("vm", "--model", "fast", "--guest", "/nowhere")
check("vm: refused with what to use", code == 2 and "sampled (the default), full and" in err, err)
code, _, err = spex("vm", "--cpu", hip12, "--guest", "/nowhere")
check("vm: a CPU of one's own is taken", code == 1 and "/nowhere is no prepared guest" in err, err)
code, _, err, path = record("-q", "--cpu",
                            own("mine", ("layout", "compact"), ("features", "neoverse-n1")), "-c",
                            "4096", "--", places)
equal("a file's own layout", *in_order(order(path)[0], "compact"))
done()
