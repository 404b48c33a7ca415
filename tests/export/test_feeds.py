"""What spex export writes for viewers and optimizers, against script's records and
against the tools that read it.

Numbers are checked here against `spex script --format json`; the tools (go tool pprof, BOLT,
llvm-profgen, create_gcov, speedscope's schema) run where scripts/feeds-setup has fetched them,
callgrind_annotate and cg_annotate where valgrind is installed.
"""
import base64, collections, gzip, re, struct
from feeds import *
sys.path.insert(0, os.path.join(EXPORT, "../report"))
import browser

LAST = {}


def feed(to, file, *args):
    """What a format makes of a profile, as bytes."""
    code, err = export(to, file, *args)
    LAST["err"] = err
    if code:
        check(f"{to} of {file}", False, err)
        return b""
    return open(f"{DIR}/out.{to}", "rb").read()


MIXED = profile("mixed", 20000)
RECORDS = records(MIXED, "-F", "+file,line,address,kind,path,estimated_time")


def total(key):
    out = collections.Counter()
    for r in RECORDS:
        out[key(r)] += 1
    return out


def inlined(r):
    """prog.S says that step() was inlined into walk() there."""
    return ("step",) if r.get("symbol") == "walk" and r["symbol_offset"] in ("0x4", "0x8") else ()


# ---- collapsed ----
def collapsed(data):
    out = collections.Counter()
    for line in data.decode().splitlines():
        stack, count = line.rsplit(" ", 1)
        out[tuple(stack.split(";"))] += int(count)
    return out


got = collapsed(feed("collapsed", MIXED))
want = total(lambda r: (r["comm"], r["dso"]) + ((r["symbol"],) if "symbol" in r else ()) +
             inlined(r) + ((f"{r['file']}:{r['line']}",) if r.get("line") else ()))
equal("collapsed: thread, file, function and line, and how many samples", got, want)
for weight, value in (("latency", lambda r: r.get("latency", 0)),
                      ("misses", lambda r: "l1d-miss" in r["events"])):
    equal(f"collapsed: the sum of --weight {weight}",
          sum(collapsed(feed("collapsed", MIXED, "--weight", weight)).values()),
          sum(map(value, RECORDS)))


def near(name, got, want, error):
    """Two tables of numbers, within an error for each."""
    bad = {k: (got.get(k), want.get(k))
           for k in set(got) | set(want) if abs(got.get(k, 0) - want.get(k, 0)) > error}
    check(name, want and not bad, dict(list(bad.items())[:5]))


def time_by(key):
    """Nanoseconds that samples stand for, as script has them."""
    out = collections.Counter()
    for r in RECORDS:
        out[key(r)] += r.get("estimated_time", 0) / 1000
    return out


BY_FUNCTION = time_by(lambda r: r.get("symbol", r["dso"]))
got = collections.Counter()
for stack, ns in collapsed(feed("collapsed", MIXED, "--weight", "time")).items():
    got[stack[2] if len(stack) > 2 else stack[1]] += ns
near("collapsed: the time of each function", got, BY_FUNCTION, 100)  # rounded to 1 ns in each place
code, err = export("collapsed", profile("branches-untimed", 500), "--weight", "time", out="untimed")
check("collapsed: without timestamps there is no time, and that is said",
      code == 1 and "timestamps" in err and not os.path.exists(f"{DIR}/untimed"), err)


def flames(name):
    if not package("flamegraph"):
        return later(f"a flame graph tool draws {name}", "check-feeds")
    boxes = json.loads(node("flame.mjs", "out.collapsed"))
    check(f"a flame graph tool draws {name}", boxes)
    return boxes


feed("collapsed", MIXED)
boxes = flames("a profile")
if boxes:
    got = collections.Counter()
    for name, n in boxes:
        got[name] += n
    equal("and its boxes are as wide as the functions",
          {s: got[s] for s in ("walk", "sum", "pick", "hit")},
          {s: sum(r.get("symbol") == s for r in RECORDS) for s in ("walk", "sum", "pick", "hit")})
if not LONG or not package("@firefox-devtools/profiler-cli"):
    later("Firefox Profiler imports collapsed stacks", "check-feeds")
else:
    said = firefox("out.collapsed", "thread", "functions", "--include-idle")
    for symbol in ("sum", "pick", "hit"):
        m = re.search(rf"^\s*f-\d+\. {symbol} - .*total: (\d+)", said, re.M)
        check(f"Firefox Profiler's importer of collapsed stacks counts {symbol}",
              m and int(m.group(1)) == sum(r.get("symbol") == symbol for r in RECORDS), said)
equal("collapsed: filters hold",
      sum(collapsed(feed("collapsed", MIXED, "--op", "branch")).values()),
      sum(r["kind"] == "branch" for r in RECORDS))


# ---- speedscope ----
def speedscope(data):
    d = json.loads(data)
    frames, out = d["shared"]["frames"], collections.Counter()
    for p in d["profiles"]:
        equal(f"speedscope: the sum of {p['name'][:40]}", sum(p["weights"]), p["endValue"])
        for stack, weight in zip(p["samples"], p["weights"]):
            out[(p["name"],) + tuple(frames[i]["name"] for i in stack)] += weight
    return out


got = speedscope(feed("speedscope", MIXED))
want = total(lambda r: (f"{r['comm']} {r['tid']}", r["dso"]) +
             ((r["symbol"],) if "symbol" in r else ()) + inlined(r))
equal("speedscope: thread, file, function, and how many samples", got, want)


def valid_speedscope(name):
    if not package("ajv") or not package("speedscope"):
        return later(f"speedscope's schema accepts {name}", "check-feeds")
    errors = node("ajv.mjs",
                  f"{FEEDS}/node_modules/speedscope/dist/release/file-format-schema.json",
                  "out.speedscope")
    equal(f"speedscope's schema accepts {name}", json.loads(errors), [])


valid_speedscope("a profile")
feed("speedscope", MIXED, "--weight", "time")
equal("speedscope: time is in nanoseconds",
      {p["unit"] for p in json.loads(open(f"{DIR}/out.speedscope").read())["profiles"]},
      {"nanoseconds"})
valid_speedscope("a profile by time")


def speedscope_app(name):
    """Its own page, given a file as its command line does: {function: total}
    of the first profile."""
    if not LONG or not package("speedscope") or not browser.CHROMIUM:
        return later(f"speedscope's page shows {name}", "check-feeds")
    with open(f"{DIR}/open.js", "w") as f:
        f.write(f"speedscope.loadFileFromBase64('{name}', "
                f"'{base64.b64encode(open(f'{DIR}/out.speedscope', 'rb').read()).decode()}')")
    b = browser.Browser()
    try:
        b.open(f"{FEEDS}/node_modules/speedscope/dist/release/index.html"
               f"#localProfilePath={DIR}/open.js")
        while "Sandwich" not in b.run("document.body.innerText"):
            b.frame()
        b.key("3", "3")  # the table of functions
        text = ""
        while "Symbol Name" not in text:
            b.frame()
            text = b.run("document.body.innerText")
    finally:
        b.close()
    check(f"speedscope's page shows {name}", "Symbol Name" in text, text[:1500])
    return {m[1]: int(m[0].replace(",", ""))
            for m in re.findall(r"([\d,]+) \([\d.<>%]+\)\s+[\d,]+ \([\d.<>%]+\)\s+(.+)", text)}


feed("speedscope", MIXED)
rows = speedscope_app("a profile")
if rows is not None:
    equal("and counts as we do", {s: rows.get(s) for s in ("walk", "sum", "pick", "hit")},
          {s: sum(r.get("symbol") == s and r["tid"] == 100 for r in RECORDS)
           for s in ("walk", "sum", "pick", "hit")})


# ---- firefox ----
def gecko(data):
    """Samples by thread and stack, root first, and the times of all of them."""
    out, times = collections.Counter(), []
    for t in json.loads(data)["threads"]:
        texts, stacks, frames, functions = (t["stringArray"], t["stackTable"], t["frameTable"],
                                            t["funcTable"])
        for table in (stacks, frames, functions, t["samples"], t["markers"]):
            assert all(len(v) == table["length"] for v in table.values() if isinstance(v, list))
        for stack, weight, time in zip(t["samples"]["stack"], t["samples"]["weight"],
                                       t["samples"]["time"]):
            where = []
            while stack is not None:
                where.insert(0, texts[functions["name"][frames["func"][stacks["frame"][stack]]]])
                stack = stacks["prefix"][stack]
            out[(t["name"], t["tid"]) + tuple(where)] += weight
        check(f"firefox: the time line of {t['name'][:40]} goes on",
              t["samples"]["time"] == sorted(t["samples"]["time"]))
        times += t["samples"]["time"]
    return out, times


got, times = gecko(feed("firefox", MIXED))
equal("firefox: thread, file, function, and how many samples", got,
      total(lambda r: (r["comm"], r["tid"], r["dso"]) + ((r["symbol"],) if "symbol" in r else ()) +
            inlined(r)))
first, last = min(r["time"] for r in RECORDS), max(r["time"] for r in RECORDS)
width = json.loads(open(f"{DIR}/out.firefox").read())["meta"]["interval"]
check("firefox: the time line is as long as the profile",
      0 <= (last - first) / 1e6 - max(times) < width and min(times) == 0, (max(times), first, last))
markers = [m for t in json.loads(feed("firefox", profile("mixed-loss", 3000)))["threads"]
           for m in zip(t["markers"]["startTime"],
                        [t["stringArray"][n] for n in t["markers"]["name"]])]
equal("firefox: a marker where each buffer was full", collections.Counter(n for _, n in markers),
      {"buffer full": data("report", "mixed-loss.data")["totals"]["truncated"]})
if not LONG or not package("@firefox-devtools/profiler-cli"):
    later("Firefox Profiler reads it", "check-feeds")
else:
    feed("firefox", MIXED)
    said = firefox("out.firefox", "thread", "functions", "--include-idle")
    # it shows the busiest thread
    most = max((100, 101), key=lambda tid: sum(r["tid"] == tid for r in RECORDS))
    for symbol in ("sum", "pick", "hit"):
        m = re.search(rf"^\s*f-\d+\. {symbol} - self: (\d+)", said, re.M)
        check(f"Firefox Profiler's importer counts {symbol}", m and int(m.group(1)) ==
              sum(r.get("symbol") == symbol and r["tid"] == most for r in RECORDS), said)


# ---- pprof ----
def fields(data):
    """(number, value) of the fields of a protobuf message: integers, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2, key
            size = varint()
            yield key >> 3, data[at:at + size]
            at += size


def packed(data):
    out = []
    for byte in data:
        if not out or out[-1][1]:
            out.append([0, False, 0])
        v = out[-1]
        v[0] |= (byte & 0x7f) << v[2]
        v[2] += 7
        v[1] = byte < 0x80
    return [v[0] for v in out]


def pprof(data):
    """Samples: frames leaf first, values by name, labels."""
    message = list(fields(gzip.decompress(data)))
    strings = [v.decode() for n, v in message if n == 6]
    types = [strings[dict(fields(v))[1]] for n, v in message if n == 1]
    functions = {d[1]: strings[d[2]] for n, v in message if n == 5 for d in [dict(fields(v))]}
    locations = {}
    for n, v in message:
        if n == 4:
            f = list(fields(v))
            locations[dict(f)[1]] = [functions[dict(fields(line))[1]] for k, line in f if k == 4]
    mappings = [{k: v for k, v in fields(m)} for n, m in message if n == 3]
    out = []
    for n, v in message:
        if n == 2:
            f = list(fields(v))
            labels = {}
            for k, label in f:
                if k == 3:
                    d = dict(fields(label))
                    labels[strings[d[1]]] = strings[d[2]] if 2 in d else d.get(3, 0)
            where = [name for k, ids in f if k == 1 for i in packed(ids) for name in locations[i]]
            out.append((where, dict(zip(types, packed(dict((k, x) for k, x in f)[2]))), labels))
    return strings, mappings, out


strings, mappings, samples = pprof(feed("pprof", MIXED))
got = collections.Counter()
for where, values, labels in samples:
    got[tuple(where), labels["thread"], labels["tid"], labels["op"],
        labels.get("data_source")] += values["samples"]
want = total(lambda r: (inlined(r) + (r.get("symbol", r["dso"]),), r["comm"], r["tid"], r["kind"],
                        r.get("source")))
equal("pprof: function, thread, operation, source, and how many samples", got, want)
sums = {k: sum(v[k] for _, v, _ in samples) for k in samples[0][1]}
time = collections.Counter()
for where, values, _ in samples:
    time[where[-1]] += values["time"]
del sums["time"]
near("pprof: the time of each function", time, BY_FUNCTION, 100)
equal("pprof: latency, misses, mispredicts, operations", sums,
      {"samples": len(RECORDS), "latency": sum(r.get("latency", 0) for r in RECORDS),
       "l1d_misses": sum("l1d-miss" in r["events"] for r in RECORDS),
       "mispredicts": sum("mispredicted" in r["events"] for r in RECORDS),
       "operations": 1024 * len(RECORDS)})
equal("pprof: one mapping per file", sorted(strings[m[5]] for m in mappings),
      sorted(set(r["path"] for r in RECORDS)))


def go_pprof(name, symbol=None):
    go = tool("go") and os.path.dirname(os.path.dirname(os.path.realpath(tool("go"))))
    if not go or not os.path.exists(f"{go}/bin/go"):
        return later(f"go tool pprof reads {name}", "check-feeds")
    env = {"GOROOT": go, "HOME": DIR, "PPROF_TMPDIR": DIR, "GOFLAGS": "", "GOCACHE": f"{DIR}/go"}
    code, out, err = run(f"{go}/bin/go", "tool", "pprof", "-top", "-nodecount=1000000",
                         "-nodefraction=0", "-sample_index=samples", "out.pprof", env=env, cwd=DIR)
    check(f"go tool pprof -top reads {name}", code == 0 and b"flat" in out,
          err + out.decode(errors="replace")[:500])
    for row in out.decode(errors="replace").splitlines() if symbol else []:
        if row.split()[-1:] == [symbol]:
            equal(f"go tool pprof: samples of {symbol} and what is in it", int(row.split()[3]),
                  sum(r.get("symbol") == symbol for r in RECORDS))
    code, out, err = run(f"{go}/bin/go", "tool", "pprof", "-tags", "out.pprof", env=env, cwd=DIR)
    check(f"go tool pprof -tags reads {name}", code == 0, err)
    if symbol:
        check("and has the labels",
              all(w in out for w in (b"data_source", b"thread", b"dram", b"branch")), out)
        code, out, err = run(f"{go}/bin/go", "tool", "pprof", "-peek", symbol,
                             "-sample_index=latency", "out.pprof", env=env, cwd=DIR)
        check("go tool pprof -peek finds the function", code == 0 and symbol.encode() in out, err)


go_pprof("a profile", "walk")


# ---- bolt, profgen, autofdo ----
def edges(rows, taken):
    out = collections.Counter()
    for r in rows:
        if (r["kind"] == "branch" and r["dso"] == "prog" and
            ("not-taken" not in r["events"]) == taken):
            at = int(r["address"], 16)
            shift = at - int(r["pc"], 16)  # both ends of a branch are in one file here
            out[at, int(r["target"], 16) + shift if taken else at + 4] += 1
    return out


def bolt(data):
    lines = collections.defaultdict(dict)
    for line in data.decode().splitlines():
        kind, a, b, *rest = line.split()
        lines[kind][int(a, 16), int(b, 16)] = [int(x) for x in rest]
    return lines


PREVIOUS, PLAIN = RECORDS, records(profile("mixed-n1", 20000), "-F", "+address,kind")
data = bolt(feed("bolt", MIXED))
equal("bolt: taken branches with their counts", {k: v[0] for k, v in data["B"].items()},
      dict(edges(PREVIOUS, True)))
runs = collections.Counter((int(r["prev_target"], 16), int(r["pc"], 16))
                           for r in PREVIOUS if "prev_target" in r and r["kind"] == "branch" and
                           "not-taken" not in r["events"])
equal("bolt: runs from the previous branch target", {k: v[0] for k, v in data["F"].items()},
      dict(runs))
data = bolt(feed("bolt", "mixed-n1.data"))
want = edges(PLAIN, True) + edges(PLAIN, False)
equal("bolt without previous targets: all branches, PC+4 for those not taken",
      {k: v[0] for k, v in data["B"].items()}, dict(want))
mispredicted = collections.Counter()
for r in PLAIN:
    if r["kind"] == "branch" and "mispredicted" in r["events"]:
        mispredicted[int(r["address"], 16)] += 1
equal("bolt: mispredictions by branch",
      {a: n for a, n in ((a, sum(v[1] for k, v in data["B"].items() if k[0] == a))
                         for a, _ in data["B"]) if n}, dict(mispredicted))
equal("bolt: runs from an edge to the next branch are as often as their edges",
      sum(v[0] for v in data["F"].values()), sum(n for (_, to), n in want.items()))
check("bolt: and that is said", "the code proves" in LAST["err"], LAST["err"])


def sections(data):
    lines, out = data.decode().split("\n"), []
    while lines and lines[0]:
        n = int(lines[0])
        out.append(lines[1:n + 1])
        lines = lines[n + 1:]
    return out


ranges, branches = sections(feed("profgen", MIXED))
equal("profgen: runs", sorted(int(l.split(":")[1]) for l in ranges), sorted(runs.values()))
equal("profgen: taken branches", sorted(int(l.split(":")[1]) for l in branches),
      sorted(edges(PREVIOUS, True).values()))
check("profgen: addresses are of the image",
      all(int(l.split("-")[0], 16) < 0x100000 for l in ranges + branches), ranges[:3])
ranges, addresses, branches = sections(feed("autofdo", MIXED))
equal("autofdo: runs, no addresses, branches", (len(ranges), len(addresses), len(branches)),
      (len(runs), 0, len(edges(PREVIOUS, True))))

# ---- names that mean harm, nothing at all, no names ----
import hostile
from hostile import pd
for name in os.listdir(hostile.D.encode()):
    if name.endswith(b".data"):
        shutil.copy(hostile.D.encode() + b"/" + name, f"{DIR}/hostile.data")
ROOT = ["--symfs", f"{hostile.D}/root"]


def everything(what, file, *args):
    for to in ("collapsed", "speedscope", "firefox", "pprof", "bolt", "brstack", "profgen",
               "llvm", "autofdo", "parquet"):
        code, err = export(to, file, *args, symbols=not args)
        if not check(f"{to} of {what}", code in (0, 1) and os.path.exists(f"{DIR}/out.{to}"), err):
            continue
        data = open(f"{DIR}/out.{to}", "rb").read()
        if to == "collapsed":
            check(f"collapsed of {what}: each line is a stack and a number",
                  all(re.fullmatch(rb"[^\n]+;[^\n]+ \d+", l) for l in data.splitlines()),
                  data[:500])
            data.decode()
            if data:
                flames(what)
        elif to == "speedscope":
            speedscope(data)
            valid_speedscope(what)
        elif to == "firefox":
            gecko(data)
        elif to == "pprof":
            strings, _, samples = pprof(data)
            go_pprof(what)
    return data


everything("hostile names", "hostile.data", *ROOT)
_, _, samples = pprof(open(f"{DIR}/out.pprof", "rb").read())
check("pprof has every hostile name, exactly",
      {hostile.exact(n) for n in hostile.NAMES} <= {w for where, _, _ in samples for w in where})
# ---- code of a just-in-time compiler ----
with open(f"{DIR}/jit-77.dump", "wb") as f:
    f.write(struct.pack("<6IQQ", 0x4a695444, 1, 40, 183, 0, 77, 0, 0))
    for i, name in enumerate((b"early", b"quo\"te;\xff", b"n" * 65000)):
        body = (struct.pack("<IIQQQQ", 77, 77, 0x4000 + 64 * i, 0x4000 + 64 * i, 64, i) + name +
                b"\0" + bytes(64))
        f.write(struct.pack("<IIQ", 0, 16 + len(body), 20) + body)
f = pd.File(cpus=1)
for a in f.attrs:
    a["flags"] |= 1 << 25  # use_clockid
    a["clockid"] = 1  # monotonic, as a jitdump file has it
f.comm(77, 77, "java", time=1)
f.mmap2(77, 77, 0x4000, 0x1000, "//anon", time=2)
f.mmap2(77, 77, 0x100000, 0x1000, f"{DIR}/jit-77.dump", time=3)
spe = b"".join(pd.record(0x4000 + 64 * (i % 3) + 4 * (i % 5), ctx=77, ts=3000 + i,
                         **({"op": (2, 1), "events": 2, "target": 0x4000} if i % 2 else {}))
               for i in range(600))
f.trace(spe, time=5)
with open(f"{DIR}/jit.data", "wb") as out:
    out.write(f.bytes())
everything("a just-in-time compiler", "jit.data", "--symfs", "")
_, _, samples = pprof(open(f"{DIR}/out.pprof", "rb").read())
got = collections.Counter()
for where, values, _ in samples:
    got[where[-1]] += values["samples"]
# names in mappings are cut there
equal("its functions have their names", got, {"early": 200, 'quo"te;\\xff': 200, "n" * 4000: 200})

spex("generate", "-n", "0", "-o", f"{DIR}/nothing.spe")
everything("nothing", "nothing.spe", "--raw")
os.makedirs(f"{DIR}/bare/usr/bin", exist_ok=True)
run("aarch64-linux-gnu-strip", "-o", f"{DIR}/bare/usr/bin/prog", f"{DIR}/root/usr/bin/prog")
everything("a stripped program", MIXED, "--symfs", "bare")
check("a stripped program's samples are those of its file",
      sum(n for s, n in collapsed(open(f"{DIR}/out.collapsed", "rb").read()).items()
          if s[1] == "prog") == sum(r["dso"] == "prog" for r in RECORDS))
code, err = export("pprof", MIXED, "--weight", "latency")
check("a weight that a format does not take is refused", code == 2 and "--weight" in err, err)
code, out, err = spex("help", "formats")
for to in ("collapsed", "speedscope", "firefox", "pprof", "callgrind", "cachegrind", "bolt",
           "brstack", "profgen", "llvm", "autofdo", "parquet"):
    check(f"help and docs/export.md know {to}",
          f"\n  {to}".encode() in out and f"`{to}`" in open(f"{SOURCE}/docs/export.md").read())
done()
