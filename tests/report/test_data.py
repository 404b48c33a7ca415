"""The data of the page against what report, mem, c2c, branch and script say of the same profile."""
from page import *


def near(a, b):
    return a == b or (a is not None and b is not None and
                      abs(a - b) <= 1e-6 * max(1, abs(a), abs(b)))


def ratio(a, b):
    return a / b if b else None


def interval(v, total, off, repeats):
    """95% of a function's share of time: by sampling and, where it takes turns, by the weights."""
    f, chance = v["time"] / total["time"], v["samples"] / total["samples"]
    stays = 1 if chance == 1 else max(0, (repeats / v["samples"] - chance) / (1 - chance))
    variance = (1 - 2 * f) * v["time_square"] + f * f * total["time_square"]
    weights = off * max(1 - stays, 0.5) * f * (1 - f)
    half = 1.959963984540054 * (max(0, variance) / (total["time"] / 1000)**2 + weights**2)**0.5
    return max(0, f - half), min(1, f + half)


def differs(v, want, total, off, queues):
    """What a row of a table of JSON says, against a vector."""
    got = {"samples": v["samples"], "loads": v["reads"], "stores": v["writes"],
           "branches": v["branches"], "share": ratio(v["samples"], total["samples"]),
           "weight": ratio(v["cycles"], total["cycles"]),
           "latency_mean": ratio(v["cycles"], v["latencies"]),
           "l1_miss": ratio(v["l1_miss"], v["l1_access"]),
           "llc_miss": ratio(v["llc_miss"], v["llc_access"]),
           "tlb_walk": ratio(v["tlb_walk"], v["tlb_access"]),
           "mispredict": ratio(v["mispredicted"], v["branches"]),
           "translation_mean": ratio(v["translation"], v["translations"]),
           "issue_mean": ratio(v["issue"], v["issues"])}
    if "time" in v:
        got |= {"time": ratio(v["time"], total["time"]),
                "time_ns": round(v["time"] / 1000)} if total["time"] else {}
    if v.get("time_square"):  # of functions only
        # the first samples of a range may follow one before it, which the command does not see
        few = interval(v, total, off, v["repeats"])
        many = interval(v, total, off, max(0, v["repeats"] - queues))
        if not (few[0] + 1e-6 >= want["time_low"] >= many[0] - 1e-6 and
                few[1] - 1e-6 <= want["time_high"] <= many[1] + 1e-6):
            return [f"time: page {few} to {many}, command {want['time_low'], want['time_high']}"]
    got |= {k: n for k, n in v.items() if k.startswith("from_") and n}
    return [f"{k}: page {x}, command {want.get(k)}" for k, x in got.items() if k in want and
            not near(x, want[k])]


def percentiles(v, p, want):
    """Exact where the page has them, else the bucket."""
    out = []
    for i, q in enumerate((50, 95, 99)):
        value = want.get(f"latency_p{q}")
        if p is not None and (p[i] if p[i] >= 0 else None) != value:
            out.append(f"p{q}: page {p[i]}, command {value}")
        if value is not None:
            rank, seen = max(1, -(-sum(v[f"bucket{b}"] for b in range(32)) * q // 100)), 0
            for b in range(32):
                seen += v[f"bucket{b}"]
                if seen >= rank:
                    break
            if abs(b - bucket_of(value)) > 1:
                out.append(f"p{q}: bucket {b}, command {value}")
    return out


def same(name, profile, rows, wanted, key, total, bins=None, many=False):
    """Every row of the page is one of the command's, and none is missing."""
    by, bad, off = {}, [], profile.raw["weights_off"]
    queues = len(profile.raw["threads"]) * len(profile.raw["cpus"]) if bins else 0
    for w in wanted:
        by.setdefault(key(w), []).append(w)
    found = 0
    for row in rows:
        v = profile.vector(row, bins)
        if not v["samples"] or "rest" in row:
            continue
        w = by.get(row["name"], [])
        found += 1
        wrong = [differs(v, x, total, off, queues) +
                 (percentiles(v, None if bins else row["p"], x) if "p" in row else []) for x in w]
        if [] not in wrong:
            bad.append(f"{row['name']}: {wrong[:2]}")
    check(name, not bad and (many or found == len(wanted)),
          f"{found} of {len(wanted)} rows\n" + "\n".join(bad[:8]))


def all_tables(file, args=()):
    profile = Profile(data_of(page(file, *args))["profiles"][0])
    raw = profile.raw
    report = data("report", file, "--sort", "symbol", *args)
    total = {k: sum(profile.vector(r)[k] for r in raw["functions"]) for k in profile.names}
    equal(f"{file}: samples", total["samples"], raw["totals"]["samples"])
    equal(f"{file}: time has what its interval needs", bool(total["time_square"]),
          bool(total["time"]))
    equal(f"{file}: totals are report's", raw["totals"], report["totals"])
    same(f"{file}: functions", profile, raw["functions"], report["rows"], lambda r: r["symbol"],
         total)
    for table, sort in (("cpus", "cpu"),):
        same(f"{file}: {table}", profile, raw[table],
             data("report", file, "--sort", sort, *args)["rows"], lambda r: r[sort], total,
             many=True)
    mem = data("mem", file, *args)
    memory = {k: sum(profile.vector(r)[k] for r in raw["sources"]) for k in profile.names}
    same(f"{file}: sources", profile, raw["sources"], mem["sources"], lambda r: r["source"], memory)
    same(f"{file}: variables", profile, raw["data"], mem["data"], lambda r: r["data_symbol"],
         memory)
    for table, key in (("pages", "page"), ("lines", "line")):
        same(f"{file}: {table}", profile, raw[table], mem[table], lambda r: r[key], memory,
             many=True)
    branch = {(b["pc"], b["symbol"]): b for b in data("branch", file, *args)["branches"]}
    bad = []
    for row in raw["branches"]:
        v, want = profile.vector(row), branch.get((row["pc"], row["symbol"]), {})
        if ((v["mispredicted"], v["samples"]) != (want.get("mispredicts"), want.get("samples")) or
            row["p"][:2] != [want["latency_p50"], want["latency_p95"]]):
            bad.append(f"{row['pc']} {v['mispredicted']} {v['samples']}: {want}")
    check(f"{file}: branches", not bad, "\n".join(bad[:5]))
    c2c = data("c2c", file, *args)
    keys = ("address", "kind", "samples", "loads", "stores", "threads", "writers")
    equal(f"{file}: shared lines", [[l[k] for k in keys] for l in raw["sharing"]["lines"]],
          [[hex(l[k]) if isinstance(l[k], int) and k == "address" else l[k] for k in keys]
           for l in c2c["lines"][:64]])
    found = [f for f in raw["findings"] if "sharing" not in f["kind"] and f["kind"] != "lock"]
    equal(f"{file}: findings are report's", found, report["findings"])
    equal(f"{file}: and c2c's",
          sorted((f for f in raw["findings"] if f not in found), key=lambda f: f["place"]),
          sorted(c2c["findings"], key=lambda f: f["place"]))
    said = [(l["text"], l["do"]) for l in raw["sharing"]["lines"]]
    check(f"{file}: lines are spoken of as c2c does",
          all((f["text"], f["do"]) in said for f in c2c["findings"]), said)
    return profile


def ranges(file, profile):
    """What a range of time has is what --time gives."""
    n = profile.raw["bins"]["count"]
    check(f"{file}: between 64 and 272 intervals", 64 <= n <= 272, n)
    for first, last in ((0, n - 1), (0, n // 3), (n // 4, n // 2), (n // 2, n // 2),
                        (n - 2, n - 1)):
        bins = range(first, last + 1)
        option = profile.option(first, last)
        report = data("report", file, "--time", option)
        total = {k: sum(profile.vector(r, bins)[k] for r in profile.raw["functions"])
                 for k in profile.names}
        equal(f"{file}: samples of --time {option}", total["samples"], report["totals"]["samples"])
        same(f"{file}: functions of --time {option}", profile, profile.raw["functions"],
             report["rows"], lambda r: r["symbol"], total, bins)


for file in ("mixed", "false", "branches", "mixed-nosource", "mixed-untimed", "mixed-shm"):
    p = all_tables(profile(file))
    if "untimed" in file:
        equal("without timestamps there are no intervals", p.raw["bins"]["count"], 0)
    elif file in ("mixed", "false"):
        ranges(profile(file), p)
p = all_tables(profile("mixed"), ("--op", "load"))
equal("filters are named", p.raw["filters"], [["op", "load"]])

# a name is whole, however long
name = "shared_" + 3000 * "x"
os.makedirs(DIR + "/long/usr/bin")
subprocess.run(["aarch64-linux-gnu-objcopy", "--redefine-sym", f"shared={name}",
                DIR + "/root/usr/bin/prog", DIR + "/long/usr/bin/prog"], check=True)
whole = data_of(page("false.data", "--symfs", "long", symbols=False, name="long.html"))
equal("names of shared lines are whole",
      [l["name"] for l in whole["profiles"][0]["sharing"]["lines"]], [name])

# a cell is the records of its interval
p = Profile(data_of(page("mixed.data"))["profiles"][0])
shift, first = p.raw["bins"]["shift"], int(p.raw["bins"]["first"])
times = [int(float(r["time"]) * 1e9 + 0.5) if isinstance(r["time"], (str, float)) else r["time"]
         for r in records("mixed.data") if "time" in r]
want = {}
for t in times:
    want[(t >> shift) - first] = want.get((t >> shift) - first, 0) + 1
got = {}
for row in p.raw["functions"]:
    for b in range(p.raw["bins"]["count"]):
        n = p.vector(row, [b])["samples"]
        if n:
            got[b] = got.get(b, 0) + n
equal("samples by interval are those of script", got, want)


# what each interval holds of the CPUs' time is exact: no more than it is long, and in all
# what the samples are given
def at_work(name, p):
    width, work, cpus = 1 << p.raw["bins"]["shift"], p.raw["at_work"], len(p.raw["cpus"])
    check(f"{name}: an interval has no more of {cpus} CPUs' time than it is long",
          max(work) <= cpus * width and len(work) == p.raw["bins"]["count"], max(work) / width)
    given = sum(p.vector(r)["time"] for r in p.raw["functions"]) / 1000
    check(f"{name}: all of it is given to samples", abs(sum(work) - given) < 1e-5 * given + 1000,
          (sum(work), given))


at_work("mixed", Profile(data_of(page("mixed.data"))["profiles"][0]))
filtered = data_of(page("mixed.data", "--op", "load", name="filtered.html"))["profiles"][0]
check("whatever is filtered", sum(filtered["at_work"]) >
      sum(Profile(filtered).vector(r)["time"] for r in filtered["functions"]) / 1000)

# call paths: the nodes are the stacks that script shows, in all and by interval
stacks = None if b"__asan_init" in open(SPEX, "rb").read() else record_paths()


def by_path(profile, bins=None):
    """What each call path has, callers first; what is folded has the path of
    its caller and "..."."""
    nodes, paths, out = profile.raw["stacks"]["nodes"], [], {}
    for n in nodes:
        paths.append((paths[n["parent"]] if n["parent"] >= 0 else ()) + (n.get("name", "..."),))
        v = profile.vector(n, bins)
        if v["samples"]:
            out[paths[-1]] = [v["samples"], v["cycles"], v["l1_miss"], v["mispredicted"]]
    return out


def of_records(list, shown):
    out = {}
    for r in list:
        path = tuple(reversed([r["symbol"],
                               *(r["callers"].split(" < ") if r.get("callers") else [])]))
        if path not in shown:
            while path and path not in shown:
                path = path[:-1]
            path += ("...",)
        events = r.get("events", [])
        v = out.setdefault(path, [0, 0, 0, 0])
        for i, x in enumerate((1, r.get("latency", 0), "l1d-miss" in events,
                               "mispredicted" in events)):
            v[i] += x
    return out


def check_nodes():
    """Each CPU is a node with every second page: by physical address of all samples, else by those
    that memory answered."""
    for scenario in ("mixed-nodes", "mixed-nodes-pa"):
        name = profile(scenario, count=5000)
        raw, wanted = data_of(page(name))["profiles"][0], {}
        for r in records(name):
            if "va" in r and (int(r.get("pa", "0x0"), 16) >> 32 == 0 if "pa" in r
                              else r.get("source") == "dram"):
                address = int(r["va"], 16) >> 12
                wanted.setdefault(address, [address & 1, 0])[1] += 1
        equal(f"{scenario}: pages have the node of their samples",
              {r["name"]: r["nodes"] for r in raw["pages"] if "rest" not in r},
              {r["name"]: wanted.get(int(r["name"], 16) >> 12, [])
               for r in raw["pages"] if "rest" not in r})
        by = {}
        for s in raw["map"]:
            first, behind = (int(s["start"], 16) >> 12,
                             (int(s["start"], 16) + (s["rows"] << s["shift"])) >> 12)
            counts = {}
            for address, (node, n) in wanted.items():
                if first <= address < behind:
                    counts[node] = counts.get(node, 0) + n
            by[s["name"]] = (dict(zip(s["nodes"][::2], s["nodes"][1::2])), counts)
        check(f"{scenario}: stretches have those of their pages",
              all(a == b for a, b in by.values()) and any(len(a) == 2 for a, _ in by.values()), by)
    check("one node has no name",
          "nodes" not in data_of(page("mixed.data"))["profiles"][0]["map"][0])


check_nodes()


def check_paths():
    p = Profile(data_of(page(stacks, symbols=False))["profiles"][0])
    at_work("a recording", p)
    nodes, all_records = p.raw["stacks"]["nodes"], records(stacks, "-F", "+callers")
    check("thousands of call paths are folded",
          500 < len(nodes) < 4000 and any("folded" in n for n in nodes), len(nodes))
    shown = set()
    for path in by_path(p):
        shown |= {path[:i] for i in range(len(path) + 1) if path[-1] != "..." or i < len(path)}
    equal("a call path has the samples, cycles, misses and mispredicts of its records", by_path(p),
          of_records(all_records, shown))
    total = lambda rows, key: sum(p.vector(r)[key] for r in rows)
    equal("the time of all call paths is that of all functions", total(nodes, "time"),
          total(p.raw["functions"], "time"))
    coarse = p.raw["stacks"]["coarse"]
    check("so many cells make intervals coarser", coarse > 0, coarse)
    for first, last in ((0, 3), (5, 5)):
        option = p.option(first << coarse, ((last + 1) << coarse) - 1)
        equal(f"call paths of --time {option}", by_path(p, range(first, last + 1)),
              of_records(records(stacks, "-F", "+callers", "--time", option), shown))
    want = {}
    for r in all_records:
        key = (r["symbol"], r.get("callers") or "[no caller]")
        want[key] = want.get(key, 0) + 1
    got = {}
    # two calls of one function are two stacks
    for r in data("report", stacks, "--sort", "symbol,stack")["rows"]:
        got[r["symbol"], r["stack"]] = got.get((r["symbol"], r["stack"]), 0) + r["samples"]
    equal("report --sort symbol,stack: the same paths", got, want)
    check("a page of many call paths stays below 3 MB",
          os.path.getsize(page(stacks, symbols=False)) <= 3 << 20)


if stacks:  # QEMU cannot load a plugin with a sanitizer: the other build has these
    check_paths()
equal("a page without stacks has none", "stacks" in data_of(page("mixed.data"))["profiles"][0],
      False)

# a page is bounded whatever the profile has
big = page(profile("private", 400000, name="big.data"))
check("a page of many lines stays below 3 MB", os.path.getsize(big) <= 3 << 20,
      os.path.getsize(big))

# however many threads count
for file in filter(None, ("mixed.data", "false.data", stacks)):
    pages = [open(page(file, "--threads", n, name=f"threads{n}.html", symbols=file != stacks),
                  "rb").read() for n in ("1", "4")]
    check(f"{file}: four threads write the same page as one", pages[0] == pages[1])

# two profiles
both = data_of(page(("mixed.data", "false.data")))
equal("two profiles in one page", [p["input"] for p in both["profiles"]],
      ["mixed.data", "false.data"])
code, out, err = spex("html", "-i", "mixed.data", "false.data", "third.data", cwd=DIR)
equal("three profiles are too many", code, 2)
code, out, err = spex("html", "mixed.data", "-o", "/nowhere/x.html", cwd=DIR)
check("a page that cannot be written is an error",
      code == 1 and "/nowhere/x.html: No such file" in err, err)
code, out, err = run("bash", "-c", "ulimit -f 40; trap '' XFSZ; exec \"$@\"", "-", SPEX, "html",
                     "mixed.data", "-o", "half.html", cwd=DIR)
check("a page that has no room is an error and leaves no half of it",
      code == 1 and "cannot write half.html: File too large" in err and
      not os.path.exists(f"{DIR}/half.html"), err)
code, out, err = spex("html", "mixed.data", "-o", "-", cwd=DIR)
check("- is standard output", code == 0 and out.startswith(b"<!DOCTYPE html>"), err)

text = open(page("mixed.data", "--title", "</title><script>alert(1)</script>&", name="title.html"),
            encoding="utf-8").read()
check("a title is text",
      "<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;</title>" in text)
check("the page has one policy, and it allows no request",
      text.count("Content-Security-Policy") == 1 and "default-src 'none'" in text and
      "http" not in re.search(r"<script type=\"module\">(.*)</script>", text,
                              re.S).group(1).replace("http://www.w3.org/2000/svg", ""))
done()
