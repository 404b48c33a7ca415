"""Every number of report, mem and branch against a computation from the records in Python."""
import collections, math, shutil, struct
from common import *

Z = 1.959963984540054


def wilson(k, n):
    p = k / n
    c = (p + Z * Z / (2 * n)) / (1 + Z * Z / n)
    h = Z / (1 + Z * Z / n) * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    return (0 if k == 0 else c - h), (1 if k == n else c + h)


def quantile(values, q):
    values = sorted(values)
    return values[max(1, math.ceil(q * len(values) - 1e-9)) - 1]


def near(a, b):
    return a == b or (a is not None and b is not None and
                      abs(a - b) <= 1e-6 * max(1, abs(a), abs(b)))


def ratio(k, n):
    return k / n if n else None


def expected(rs, total, period):
    """A report row's numbers from its records."""
    ev = collections.Counter(e for r in rs for e in r.get("events", []))
    mem = [r for r in rs if r.get("op_class") == 1]
    low, high = wilson(len(rs), len(total))
    row = {"samples": len(rs), "share": len(rs) / len(total), "error": (high - low) / 2,
           "loads": sum(r["op"].split()[0] in ("load", "atomic") and
                        not r["op_payload"] & 1 for r in mem),
           "stores": sum(bool(r["op_payload"] & 1) or r["op"].startswith("atomic") for r in mem),
           "branches": sum(r.get("op_class") == 2 for r in rs),
           "l1_miss": ratio(ev["l1d-miss"], ev["l1d-access"]),
           "llc_miss": ratio(ev["llc-miss"], ev["llc-access"]),
           "tlb_walk": ratio(ev["tlb-walk"], ev["tlb-access"]),
           "mispredict": ratio(ev["mispredicted"], sum(r.get("op_class") == 2 for r in rs)),
           "remote": ratio(ev["remote-access"], len(mem))}
    if period:
        row |= {"ops": len(rs) * period, "ops_low": low * len(total) * period,
                "ops_high": high * len(total) * period}
    for field, name in (("latency", "latency"), ("issue", "issue"), ("translation", "translation")):
        v = [r[field] for r in rs if field in r]
        row[f"{name}_mean"] = sum(v) / len(v) if v else None
        for q in (50, 95, 99):
            row[f"{name}_p{q}"] = quantile(v, q / 100) if v else None
    known = [r for r in rs if "latency" in r]
    v = [max(r["latency"] - r.get("issue", 0), 0) for r in known if r.get("issue") != 4095]
    row["execute_mean"] = sum(v) / len(v) if v else None
    for q in (50, 95, 99):
        row[f"execute_p{q}"] = (quantile(v, q / 100) if v and len(known) - len(v) <= (1 - q / 100) *
                                len(known) else None)
    for source in {r["source"] for r in mem}:
        row["from_" + source.replace("-", "_")] = sum(r["source"] == source for r in mem)
    return row


KEYS = {
    "symbol": lambda r: r.get("symbol") or r["pc"],
    "tid": lambda r: str(r["tid"]),
    "op": lambda r: r["op"],
    "cpu": lambda r: str(r["cpu"]),
    "source": lambda r: r.get("source", "(no memory access)"),
    "pc": lambda r: r["pc"] if r["el"] else f"prog+{r['pc']}",
    "line": lambda r: hex(int(r["va"], 16) & ~63),
    "page": lambda r: hex(int(r["va"], 16) & ~4095),
}


def compare(name, rows, rs, key, period):
    groups = collections.defaultdict(list)
    for r in rs:
        groups[tuple(KEYS[k](r) for k in key)].append(r)
    bad = []
    seen = collections.Counter(tuple(row[k] for k in key) for row in rows)
    if set(seen) != set(groups) or max(seen.values()) > 1:
        bad.append(f"keys differ: {set(seen) ^ set(groups)}")
    for row in rows:
        want = expected(groups.get(tuple(row[k] for k in key), rs[:1]), rs, period)
        bad += [f"{[row[k] for k in key]} {f}: got {row.get(f)}, want {w}" for f, w in want.items()
                if not near(row.get(f), w)]
    check(name, not bad, "\n".join(bad[:10]))
    equal(f"{name}: samples add up", sum(row["samples"] for row in rows), len(rs))


for scenario in ("mixed", "mixed-nosource", "mixed-nocontext", "false"):
    file = profile(scenario, 6000)
    rs = records(file)
    for key in (["symbol"], ["tid"], ["op"], ["pc"], ["cpu", "symbol", "op"], ["source"]):
        compare(f"report --sort {','.join(key)} of {scenario}",
                data("report", file, "--sort", ",".join(key))["rows"], rs, key, 1024)
    mem = [r for r in rs if "va" in r]
    d = data("mem", file)
    compare(f"mem sources of {scenario}", d["sources"], mem, ["source"], 1024)
    for section, key in (("lines", "line"), ("pages", "page")):
        bad = []
        groups = collections.defaultdict(list)
        for r in mem:
            groups[KEYS[key](r)].append(r)
        for row in d[section]:
            g = groups[row[key]]
            if row["samples"] != len(g) or not near(row["latency_mean"],
                                                    sum(r["latency"] for r in g) / len(g)):
                bad.append(row)
        check(f"mem {section} of {scenario}", not bad and len(groups) == len(d[section]), bad[:3])

# data of a line: two variables in it, and another mapping at the same address
with open(f"{DIR}/root/usr/bin/prog", "r+b") as f:
    elf = bytearray(f.read())
    name = {n: elf.index(b"\0%s\0" % n.encode()) + 1 for n in ("shared", "table")}
    at, = struct.unpack_from("<Q", elf, 40)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, at + 64 * i)
                for i in range(struct.unpack_from("<H", elf, 60)[0])]
    for s in (s for s in sections if s[1] == 2):  # symbol tables
        strings = sections[s[6]][4]
        for e in range(s[4], s[4] + s[5], 24):
            n = strings + struct.unpack_from("<I", elf, e)[0]
            if n in name.values():  # of eight bytes each, one after the other
                struct.pack_into("<QQ", elf, e + 8, 0x410000 + 8 * (n == name["table"]), 8)
    f.seek(0)
    f.write(elf)
for scenario, names in (
        ("false", {100: ("shared", 0x410000, 0x410008), 101: ("table", 0x410008, 0x410010)}),
        ("true-twin", {100: ("shared", 0x410000, 0x410008), 200: ("data", 0x410000, 0x412000)})):
    file = profile(scenario, 6000)
    want = collections.Counter()
    for r in records(file):
        name, low, end = names[r["tid"]]
        want[name] += low <= int(r.get("va", "0"), 16) < end
    rows = data("mem", file, "--sort", "data-symbol")["rows"]
    got = {r["data_symbol"]: r["samples"] for r in rows}
    check(f"variables of {scenario}",
          len(want) == 2 and all(got.get(n) == c for n, c in want.items()), [got, want])
shutil.copy(PROG, DIR + "/root/usr/bin/prog")

# without a period that can be trusted there is no estimate, and the reason is said
d = data("report", profile("mixed-loss", 3000))
check("lost data: operations are withheld",
      "ops" not in d["rows"][0] and "lost" in d["sampling"]["no_estimate"], d["sampling"])
d = data("report", profile("mixed", 6000))
check("else they are estimated", d["sampling"]["no_estimate"] is None and d["rows"][0]["ops"])

# branch
rs = [r for r in records(profile("branches", 6000)) if r.get("op_class") == 2]
d = data("branch", profile("branches", 6000))
groups = collections.defaultdict(list)
for r in rs:
    groups[f"prog+{r['pc']}"].append(r)
bad = [row for row in d["branches"]
       if not (row["samples"] == len(groups[row["pc"]]) and row["mispredicts"] ==
               sum("mispredicted" in r["events"] for r in groups[row["pc"]]) and
               near(row["taken"], sum("not-taken" not in r["events"] for r in groups[row["pc"]]) /
                    row["samples"]))]
check("branches against the records", not bad and len(d["branches"]) == len(groups), bad)
equal("most mispredicted first", [r["mispredicts"] for r in d["branches"]],
      sorted((r["mispredicts"] for r in d["branches"]), reverse=True))
targets = collections.Counter(r["target"] for r in rs if "indirect" in r["op"])
equal("targets of indirect branches", sorted(r["samples"] for r in d["targets"]),
      sorted(targets.values()))

# diff: Newcombe's interval, and noise is called noise
a, b = profile("mixed", 6000), profile("mixed", 6000, seed=77, name="mixed77.data")
d = data("diff", (a, b))
ra, rb = data("report", a)["rows"], data("report", b)["rows"]
bad = []
for row in d["rows"]:
    k0, k1 = (next((r["samples"] for r in x if r["symbol"] == row["key"]), 0) for x in (ra, rb))
    p0, p1 = k0 / 6000, k1 / 6000
    (l0, u0), (l1, u1) = wilson(k0, 6000), wilson(k1, 6000)
    low = p1 - p0 - math.sqrt((p1 - l1) ** 2 + (u0 - p0) ** 2)
    high = p1 - p0 + math.sqrt((u1 - p1) ** 2 + (p0 - l0) ** 2)
    if not (near(row["delta"], p1 - p0) and near(row["delta_low"], low) and
            near(row["delta_high"], high) and
            row["verdict"] == ("" if low <= 0 <= high else "more" if p1 > p0 else "less")):
        bad.append((row, low, high))
check("diff against a computation", not bad, bad[:3])
check("two runs of the same differ by noise", d["beyond_noise"] <= 2, d["beyond_noise"])
same = d
d = data("diff", (a, profile("false", 6000)))
check("two programs differ beyond it", d["beyond_noise"] >= 4, d["beyond_noise"])
check("latencies of two runs of the same differ by noise", same["slower"] + same["faster"] <= 1,
      same)
d = data("diff", (profile("false", 6000), profile("padded", 6000)))
check("padding makes the shared counters faster", d["faster"] >= 1 and d["slower"] == 0,
      [(r["key"], r["latency"], r["latency_verdict"]) for r in d["rows"]])

# coverage of the intervals: the truth of each function's share is known
truth = {"walk": 0.45, "sum": 0.25, "pick": 0.15, "hit": 0.08}
inside = total = 0
for seed in range(100, 140):
    rows = data("report", profile("mixed", 1500, seed=seed, name=f"cover{seed}.data"))["rows"]
    for row in rows:
        if row["symbol"] in truth:
            low, high = wilson(row["samples"], 1500)
            total += 1
            inside += (row["ops_low"] / 1500 / 1024 <= truth[row["symbol"]] <= row["ops_high"] /
                       1500 / 1024)
check("95% intervals hold the truth about 95% of the time", 0.89 <= inside / total <= 0.99,
      f"{inside} of {total}")
done()
