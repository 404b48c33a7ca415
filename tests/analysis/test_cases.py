"""c2c's verdicts, filters, empty results, damaged and odd input, bounded memory."""
import random, re, resource
from common import *

# ---- sharing: what it is called, with and without data sources ----
for suffix in ("", "-nosource", "-untimed", "-nocontext"):
    for scenario, kinds in (("false", ["false"]), ("true", ["true"]), ("padded", []),
                            ("readonly", []),
                            ("private", []), ("phased", [])):
        if scenario == "phased" and suffix == "-untimed":
            continue  # without times the phases cannot be seen
        d = data("c2c", profile(scenario + suffix, 6000))
        bad = [l for l in d["lines"] if l["score"] >= 0.1]
        check(f"{scenario}{suffix}: {kinds or 'nothing'}", [l["kind"] for l in bad] == kinds,
              d["lines"])
        if kinds:
            line = bad[0]
            check(f"{scenario}{suffix}: the line, its variable, its threads",
                  line["address"] == "0x410000" and line["data"] == "shared" and
                  line["threads"] == 2 and line["writers"] == 2 and line["score"] >= 0.5, line)
            uses = d["uses"][d["lines"].index(line)]
            want = {("+0x00", 100), ("+0x08" if scenario == "false" else "+0x00", 101)}
            equal(f"{scenario}{suffix}: words and threads", {(u["offset"], u["tid"]) for u in uses},
                  want)
            rs = [r for r in records(profile(scenario + suffix, 6000), "-F",
                                     "va,tid,op,latency,op_payload")
                  if int(r.get("va", "0"), 16) & ~63 == 0x410000]
            equal(f"{scenario}{suffix}: the line's loads and stores",
                  (line["loads"], line["stores"]),
                  (sum(r["op"] == "load" for r in rs), sum(r["op"] != "load" for r in rs)))
            for u in uses:
                own = [r for r in rs if r["tid"] == u["tid"] and
                       f"+0x{int(r['va'], 16) & 63:02x}" == u["offset"]]
                loads = sorted(r["latency"] for r in own if r["op"] == "load")
                check(f"{scenario}{suffix}: counts of {u['offset']} {u['tid']}",
                      u["loads"] == len(loads) and u["stores"] == len(own) - len(loads) and
                      u["latency_p50"] == loads[-(-len(loads) // 2) - 1], (u, len(own), len(loads)))
# ---- a lock is called so, a counter is not; words of one thread belong together ----
for scenario, lock in (("lock", "+0x10"), ("counter", None)):
    d = data("c2c", profile(scenario, 6000))
    check(f"{scenario}: the line",
          [(l["kind"], l["lock"]) for l in d["lines"] if l["score"] >= 0.1] == [("true", lock)],
          d["lines"])
    equal(f"{scenario}: what is found", [(f["kind"], f["place"]) for f in d["findings"]],
          [("lock", "shared+0x10") if lock else ("true-sharing", "shared")])
code, out, err = on("c2c", profile("lock", 6000))
check("a contended lock is called so",
      "CONTENDED LOCK" in out and out.splitlines()[1].startswith("1 lock is contended") and
      "take the lock shared+0x10 less often" in out, out)
code, out, err = on("c2c", profile("objects", 6000))
check("objects: what each thread has; without types no size is guessed",
      "do: give shared (thread 100) and shared+0x10 (thread 101) cache lines of their own" in
      " ".join(out.split()), out)

# ---- findings: the same everywhere, each with its numbers ----
file = profile("mixed", 6000)
found = {c: data(c, file)["findings"] for c in ("report", "mem", "branch", "annotate")}
check("findings of report",
      {f["kind"] for f in found["report"]} >= {"far-data", "mispredicted", "table-walks"},
      found["report"])
for command in found:
    equal(f"findings of {command} are report's", found[command], found["report"])
rs = records(file, "-F", "pc,op,events,symbol,srcline,source,va")
memory = [r for r in rs if r["op"].split()[0] in ("load", "store", "atomic")]
by = {f["kind"]: f for f in reversed(found["report"])}
check("the largest share first; none below a hundredth, at the lower end of its interval",
      [f["share"] for f in found["report"]] == sorted((f["share"] for f in found["report"]),
                                                      reverse=True) and
      all(f["samples"] >= 10 and 0.01 <= f["share_low"] <= f["share"] <= f["share_high"] <= 1
          for f in found["report"]), found["report"])
equal("table walks: the numbers",
      {k: by["table-walks"]["evidence"][k] for k in ("walks", "accesses")},
      {"walks": sum("tlb-walk" in r["events"] for r in memory), "accesses": len(memory)})
by["mispredicted"] = next(f for f in found["report"] if f["place"] == "pick (prog.c:51)")
worst = [r for r in rs if r["pc"] == "0x401408"]
equal("the mispredicted branch: its numbers",
      {k: by["mispredicted"]["evidence"][k] for k in ("mispredicts", "samples")},
      {"mispredicts": sum("mispredicted" in r["events"] for r in worst), "samples": len(worst)})
equal("what kind of branch it is, and another one",
      [(f["place"], f["case"]) for f in found["report"] if f["kind"] == "mispredicted"],
      [("pick (prog.c:51)", "condition"), ("pick (prog.c:54)", "call")])
check("far data: its place", by["far-data"]["place"] == "walk (prog.c:21)", by["far-data"])
for command in ("report", "mem", "branch"):
    code, out, err = on(command, file)
    flat = " ".join(out.split())
    bad = [f for f in found["report"] if f["text"] not in flat or f"do: {f['do']}" not in flat or
           f"see: {f['see']}" not in flat]
    check(f"{command} prints what was found", not bad, f"{bad}\n{out}")
code, out, err = on("report", profile("padded", 6000))
check("nothing found: nothing said", "do:" not in out, out)

d = data("c2c", profile("false-shm-pa", 6000))
check("two processes share memory: found by physical address",
      [(l["kind"], l["threads"], l["pid"]) for l in d["lines"]] == [("false", 2, None)], d["lines"])
equal("two processes: who uses what", {(u["offset"], u["tid"], u["comm"]) for u in d["uses"][0]},
      {("+0x00", 100, "prog"), ("+0x08", 200, "other")})
check("without physical addresses they cannot be told to share",
      not data("c2c", profile("false-shm", 6000))["lines"])
check("by data source where the CPU has them", data("c2c", profile("false", 6000))["by_source"])
check("by addresses, threads and times where it has not",
      not data("c2c", profile("false-nosource", 6000))["by_source"])
code, out, err = on("c2c", profile("false", 6000))
check("what to do is said, with what each thread has",
      "do: give shared (thread 100) and" in " ".join(out.split()) and
      "shared (thread 100) and shared+0x8 (thread 101)" in " ".join(out.split()), out)

# ---- filters: each against the records ----
file = profile("mixed", 6000)
rs = records(file, "-F", "+data_symbol")
t0, t1 = min(r["time"] for r in rs), max(r["time"] for r in rs)
half = (t0 + t1) // 2
for args, keep in (
    (["--tid", "100"], lambda r: r["tid"] == 100),
    (["--pid", "0-99"], lambda r: False),
    (["--cpu", "1"], lambda r: r["cpu"] == 1),
    (["--comm", "pr*"], lambda r: True),
    (["--dso", "prog"], lambda r: r.get("dso") == "prog"),
    (["--dso", "[[]kernel*"], lambda r: r.get("dso", "").startswith("[kernel")),
    (["--symbol", "walk,sum"], lambda r: r.get("symbol") in ("walk", "sum")),
    (["--symbol", "w?lk"], lambda r: r.get("symbol") == "walk"),
    (["--op", "load"], lambda r: r["op"].split()[0] == "load"),
    (["--op", "cond,call"], lambda r: {"cond", "call"} & set(r["op"].split())),
    (["--event", "l1d-miss"], lambda r: "l1d-miss" in r["events"]),
    (["--event", "tlb-walk,mispredict"], lambda r: {"tlb-walk", "mispredicted"} & set(r["events"])),
    (["--event", "!retired"], lambda r: "retired" not in r["events"]),
    (["--event", "3"], lambda r: "l1d-miss" in r["events"]),
    (["--source", "dram,peer-core"], lambda r: r.get("source") in ("dram", "peer-core")),
    (["--min-latency", "100"], lambda r: r["latency"] >= 100),
    (["--time", f",{half / 1e9:.9f}"], lambda r: r["time"] <= half),
    (["--op", "load", "--tid", "101", "--min-latency", "200"],
     lambda r: r["op"].startswith("load") and r["tid"] == 101 and r["latency"] >= 200),
):
    want = [r["offset"] for r in rs if keep(r)]
    got = [r["offset"] for r in records(file, *args)]
    check(f"{' '.join(args)} keeps {len(want)}", got == want, (len(got), len(want)))
    equal(f"{' '.join(args)}: report counts the same",
          data("report", file, *args)["totals"]["samples"], len(want))
parts = [data("report", file, "--time", t)["totals"]["samples"]
         for t in ("0%-30%", "30%-60%", "60%-100%", "0%,100%")]
check("--time in percent: parts make up the whole", parts[3] == 6000 and
      abs(sum(parts[:3]) - 6000) <= 2 and all(0.2 * 6000 < p < 0.5 * 6000 for p in parts[:3]),
      parts)
# perf's other forms: the N-th part, several parts, several spans
ninth = [data("report", file, "--time", f"10%/{n}")["totals"]["samples"] for n in range(1, 11)]
equal("--time 10%/N: ten parts make up the whole", sum(ninth), 6000)
equal("--time: several parts", data("report", file, "--time", "10%/2,10%/4")["totals"]["samples"],
      ninth[1] + ninth[3])
equal("--time: parts of both kinds",
      data("report", file, "--time", "10%-20%,10%/4")["totals"]["samples"], ninth[1] + ninth[3])
spans = [(t0 + (t1 - t0) * a / 10, t0 + (t1 - t0) * (a + 1) / 10) for a in (1, 5)]
equal("--time: several spans",
      data("report", file, "--time",
           " ".join(f"{a / 1e9:.9f},{b / 1e9:.9f}" for a, b in spans)) ["totals"]["samples"],
      sum(any(round(a) <= r["time"] <= round(b) for a, b in spans) for r in rs))
slices = data("report", file, "--slices", "4")
equal("--slices: four parts", [k for k in slices["rows"][0] if k.startswith("slice")],
      [f"slice_{n}" for n in range(1, 5)])
whole = {r["symbol"]: r["time"] for r in data("report", file)["rows"]}
bad = [r for r in slices["rows"] if abs(r["time"] - whole[r["symbol"]]) > 1e-9]
check("--slices: the time of all parts is that of the report", not bad, bad[:3])
for n in range(1, 5):
    part = {r["symbol"]: r["time_ns"] for r in data("report", file, "--time", f"25%/{n}")["rows"]}
    check(f"--slices: part {n} adds up",
          abs(sum(r[f"slice_{n}"] for r in slices["rows"]) - 1) < 1e-6, slices["rows"])
check("--slices: too many", on("report", file, "--slices", "1000")[0] == 2)
check("--slices: no time", on("report", profile("mixed-untimed", 4000), "--slices", "4")[0] == 1)

# ---- mistakes are named, with what is allowed ----
for args, text in ((["--op", "lod"], "one of load, store"), (["--event", "nonsense"], "l1d-access"),
                   (["--event", "64"], "a bit number"), (["--event", "3x"], "a bit number"),
                   (["--source", "moon"], "dram"), (["--tid", "x"], "a number or range"),
                   (["--sort", "colour"], "symbol, dso"), (["-F", "shine"], "not a column"),
                   (["--time", "soon"], "START,STOP"), (["--time", "10%/0"], "A%/N"),
                   (["--time", "10%/11"], "A%/N"),
                   (["--time", "30%-20%"], "A%-B%"), (["--time", "50%"], "A%-B%"),
                   (["--time", "1,2,3"], "START,STOP"), (["--min-latency", "x"], "cycles")):
    code, out, err = on("report", file, *args)
    check(f"{' '.join(args)} is a usage error", code == 2 and text in err and not out, err)
code, out, err = on("annotate", file, "wlak")
check("a function that is not there: the nearest", code == 1 and "did you mean 'walk'" in err, err)

# ---- nothing to show: why ----
for args, text in ((["--comm", "nobody"], "nothing matches --comm nobody: all 6,000 records"),
                   (["--op", "load", "--event", "mispredict"],
                    "nothing matches --event mispredict")):
    for command in ("report", "mem", "c2c", "branch", "annotate"):
        code, out, err = on(command, file, *args)
        check(f"{command} {' '.join(args)} says why it is empty", code == 0 and text in out,
              out + err)
code, out, err = on("report", file, "--time", "100,200")
check("--time beside the profile: when it is", "nothing matches --time 100,200: all" in out and
      re.search(r"; the profile is of 0\.000\d+ to 0\.00\d+ s", out), out)
code, out, err = on("mem", profile("mixed", 6000), "--op", "branch")
check("mem of branches says what is missing", "has a data address" in out, out)
code, out, err = on("branch", profile("mixed", 6000), "--op", "load")
check("branch of loads says what is missing", "is of a branch" in out, out)
code, out, err = on("report", "nowhere.data")
check("a file that is not there", code == 1 and "nowhere.data" in err and not out, err)
open(f"{DIR}/empty.spe", "w").close()
code, out, err = on("report", "empty.spe", "--raw")
check("an empty stream", code == 0 and "no sample records" in out, out + err)

# ---- output ----
before = open(f"{DIR}/{file}", "rb").read()
for command in ("html", "archive"):
    code, out, err = on(command, file, "-o", f"./{file}")
    check(f"{command} does not write over what it reads",
          code == 2 and f"would replace {file}, which is read" in err and
          open(f"{DIR}/{file}", "rb").read() == before, err)
code, out, err = on("export", file, "--to", "collapsed", "-o", "nowhere/x")
check("a directory that is not there: the name as given",
      code == 1 and "nowhere/x: No such file or directory" in err, err)

# ---- columns ----
code, out, err = on("report", file, "-F", "samples,symbol", "--percent-limit", "10", columns=80)
equal("-F chooses and orders columns", [l for l in out.splitlines() if l[0] != "#"][0].split(),
      ["samples", "symbol"])
check("--percent-limit folds the rest into one row", "more rows)" in out and "hit" not in out, out)
total = [l for l in out.splitlines() if l.endswith("total")][0]
check("totals add up to all samples", total.split()[0] == "6,000", total)
code, out, err = on("report", file, "-F", "+issue_p99,stores", columns=200)
check("-F + adds columns", "wait p99" in out and "stores" in out and "L1 miss" in out, out)

# ---- what is missing is told once per file ----
code, out, err = on("report", file, symbols=False)
check("missing files are told once with what to do",
      err.count("/usr/bin/prog: no such file") == 1 and "--symfs" in err and
      err.count("--kallsyms") == 1, err)

code, out, err = on("report", file, "--symbol", "walk", symbols=False)
check("a filter by name that finds nothing for want of symbols: told too",
      "nothing matches --symbol walk" in out and "/usr/bin/prog: no such file" in err, out + err)

# ---- standard input, raw streams ----
whole = open(f"{DIR}/{file}", "rb").read()
code, out, err = spex("report", "-i", "-", *SYMBOLS, stdin=whole, cwd=DIR, env={"COLUMNS": ""})
equal("standard input, which no command can be told to read again", out.decode().splitlines()[1:],
      on("report",
         file)[1].replace(f" -i\n        {file}", "").replace(f" -i {file}", "").splitlines()[1:])
bare = b"".join(whole[r["offset"]:r["offset"] + r["size"]] for r in rs)
open(f"{DIR}/bare.spe", "wb").write(bare)
raw = records("bare.spe", "--raw", "--midr", "0x413fd0c1")
same = [{k: v for k, v in r.items() if k in ("pc", "latency", "events", "va", "source", "op")}
        for r in rs]
check("a raw stream has the same records",
      [{k: v for k, v in r.items() if k in ("pc", "latency", "events", "va", "source", "op")}
       for r in raw] == same)
code, out, err = spex("report", "--raw", "-i", "-", "--format", "json", stdin=bare, cwd=DIR)
equal("a raw stream from a pipe", json.loads(out)["totals"]["records"], len(rs))
with open(os.path.join(DIR, "then-damage.spe"), "wb") as f:
    f.write(bare + b"\xff" * 4000)
code, out, err = on("script", "then-damage.spe", "--raw", "--format", "json")
check("damage behind the records", code == 1 and len(out.splitlines()) == len(rs), (code, err))
for more in ([], ["--itrace=i1i", "--threads", "2"]):
    code, out, err = on("script", "then-damage.spe", "--raw", "-n", "5", *more)
    check(f"-n {' '.join(more)}: what comes after the line is not read",
          code == 0 and len(out.splitlines()) == 5 and "damage" not in err, (code, out, err))

# ---- damage: no crash, the rest is kept, exit 1 with an offset ----
rng = random.Random(5)
for n in range(60):
    data_ = bytearray(whole if n % 2 else bare)
    for _ in range(rng.choice((1, 5, 50))):
        data_[rng.randrange(len(data_))] = rng.randrange(256)
    if n % 3 == 0:
        del data_[rng.randrange(len(data_)):]
    path = f"{DIR}/broken"
    open(path, "wb").write(data_)
    codes = []
    for command in ("report", "mem", "c2c", "branch", "script"):
        code, out, err = on(command, "broken", *([] if n % 2 else ["--raw"]), "--format", "json")
        codes.append(code)
        if code == 0 and command != "script" and out:
            json.loads(out)
    if not check(f"damaged input {n} ends with 0, 1 or a message",
                 all(c in (0, 1, 2) for c in codes), codes):
        break
cut = bare[:64 * 10 + 30]
open(f"{DIR}/cut.spe", "wb").write(cut)
code, out, err = on("report", "cut.spe", "--raw", "--format", "json")
check("a cut stream: exit 1, the byte, and all whole records",
      code == 1 and "byte 640" in err and json.loads(out)["totals"]["records"] == 10, err)

# ---- memory: far more keys than fit in memory otherwise ----
def limit():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
big = f"{DIR}/many.spe"
one = bytearray(64)
with open(big, "wb") as f:
    # 1.5 million loads, each with a pc and a cache line of its own, and one hot instruction
    import struct
    block = bytearray()
    for i in range(1499998):
        pc = 0x400000 + (4 * i if i % 3 else 0)
        block += struct.pack("<BQBHBHBQBBB", 0xB0, pc | 1 << 63, 0x52, 0x16, 0x98, 10 + i % 50,
                             0xB2, 0x10000000 + 64 * i, 0x49, 0, 1)
        if len(block) > 1 << 20:
            f.write(block)
            block.clear()
    f.write(block)
if b"__asan_init" in open(SPEX, "rb").read():
    skip("memory", "the address sanitizer takes more")
    done()
p = subprocess.run([SPEX, "report", "--raw", "--sort", "pc", "--format", "json", "--percent-limit",
                    "1", "-i", big],
                   capture_output=True, preexec_fn=limit)
d = json.loads(p.stdout)
check("a million keys are exact", d["count_error"] == 0 and d["rows"][0]["samples"] == 500000,
      p.stderr)
p = subprocess.Popen([SPEX, "mem", "--raw", "--sort", "line", "--format", "json", "--percent-limit",
                      "1", "-i", big],
                     stdout=subprocess.PIPE, preexec_fn=limit)
d = json.loads(p.stdout.read())
_, status, usage = os.wait4(p.pid, 0)
p.returncode = status
check("more than a million: said, and nothing is lost from the total",
      d["count_error"] > 0 and d["totals"]["samples"] == 1499998, d["totals"])
check("within 320 MB", usage.ru_maxrss < 320 << 10, usage.ru_maxrss)
done()
