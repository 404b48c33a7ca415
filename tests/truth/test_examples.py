"""The profile of each example shows what the head of its source says."""
import collections
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from profile import *

need("list_walk", "matmul", "share", "share_padded", "sort", "tlb", "stream", "atomics")


def between(name, value, low, high, spec=()):
    check(f"{name}: {low:.3g} to {high:.3g}", value is not None and low <= value <= high,
          f"{value}", spec)


def share_from(row, *sources):
    """Share of the samples, all of them loads, whose data came from there."""
    return sum(row["from_" + s] for s in sources) / row["samples"]


# ---- list_walk: dependent misses to memory ----
p = Profile("list_walk", period=2048)
f = p.functions()
check("list_walk: most of the time is in walk", max(f, key=lambda s: f[s]["time"] or 0) == "walk",
      {k: v["time"] for k, v in f.items()})
f = p.functions("--op", "load")
walk, total = f["walk"], f["sum"]
between("list_walk: walk misses level 1", walk["l1_miss"], 0.97, 1, "DAT-63")
between("list_walk: walk misses the last level", walk["llc_miss"], 0.90, 1)
# 1280 of 16384 pages are in it
between("list_walk: walk misses the TLB", walk["tlb_walk"], 0.88, 0.97)
between("list_walk: walk's data comes from DRAM", share_from(walk, "dram"), 0.90, 1)
loads = [r for r in p.records() if r.get("symbol") == "walk" and r["op"].startswith("load")]
between("list_walk: a load of walk waits for the one before",
        sorted(r["issue"] for r in loads)[len(loads) // 2], 238, 4095)
check("list_walk: and then for memory",
      all(r["latency"] >= 238 for r in loads if r.get("source") == "dram"), loads[:3])
between("list_walk: sum hits level 1", total["l1_miss"], 0, 0.01)
between("list_walk: sum is quick", total["latency_p50"], 1, 20)

# ---- matmul: columns and rows ----
p = Profile("matmul", "--model", "prefetch=none")
f = p.functions("--op", "load")
bad, good = f["multiply_bad"], f["multiply_good"]
between("matmul: every second load of the bad order misses level 1", bad["l1_miss"], 0.42, 0.58)
between("matmul: and is in level 2", share_from(bad, "l2"), 0.40, 0.58)
between("matmul: the good order seldom misses", good["l1_miss"], 0, 0.13)
f = p.functions()
bad, good = f["multiply_bad"], f["multiply_good"]
check("matmul: the bad order takes longer",
      bad["time"] / bad["share"] > 1.2 * good["time"] / good["share"],
      (bad["time"], bad["share"], good["time"], good["share"]))

f = Profile("matmul").functions("--op", "load")
between("matmul: the prefetchers follow the columns", f["multiply_bad"]["l1_miss"], 0, 0.1)

# ---- share: false sharing and its padded twin ----
line = address("share", "shared")
for name, cpus in (("share", None), ("share on one host CPU", "0"), ("share_padded", None)):
    p = Profile(name.split()[0], period=1024, cpus=cpus)
    c2c = json.loads(p.command("c2c", "--format", "json"))
    count = p.functions("--op", "load")["count"]
    peer = share_from(count, "peer_core", "peer_cluster")
    ours = [(l, u) for l, u in zip(c2c["lines"], c2c["uses"]) if int(l["address"], 16) == line]
    if name == "share_padded":
        check(f"{name}: no line is falsely shared",
              not [l for l in c2c["lines"] if l["kind"] == "false" and l["samples"] > 20],
              c2c["lines"])
        between(f"{name}: nothing comes from the other core", peer, 0, 0.002)
        continue
    between(f"{name}: loads of count come from the other core", peer, 0.02, 1)
    if check(f"{name}: c2c names this line first", ours and ours[0][0] is c2c["lines"][0] and
             ours[0][0]["kind"] == "false" and ours[0][0]["score"] > 0.05, c2c["lines"]):
        used = {(u["offset"], u["tid"]) for u in ours[0][1]}
        check(f"{name}: two threads, two words", len({t for _, t in used}) == 2 and
              {o for o, _ in used} == {"+0x00", "+0x08"}, used)

# Events of SPEv1p4 say the same, where the CPU has them.
late = ("l2d-access", "l2d-miss", "modified", "snooped", "recently-fetched")
seen = {cpu: Profile("share", "--cpu", cpu, period=1024).records("symbol,op,events")
        for cpu in ("neoverse-n1", "max")}
loads = [r["events"] for r in seen["max"] if r.get("symbol") == "count" and
         r["op"].startswith("load")]
moved = [e for e in loads if "l1d-miss" in e]
between("share, all events: loads that miss level 1", len(moved) / len(loads), 0.02, 1)
check("share, all events: their lines were modified in the other core",
      len([e for e in moved if {"l2d-access", "l2d-miss", "llc-miss", "modified", "snooped"} <=
           set(e)]) > 0.99 * len(moved), moved[:3])
check("share, all events: the others hit", not [e for e in loads if "l1d-miss" not in e and {
    "l2d-access", "modified", "snooped"} & set(e)])
check("share: an N1 does not have these events",
      not [r for r in seen["neoverse-n1"] if set(late) & set(r["events"])])

# ---- sort: mispredicted branches ----
p = Profile("sort", "--truth", period=1024)
exact = p.truth()
branches = collections.defaultdict(lambda: [0, 0])
for r in p.records():
    if r.get("op", "").startswith("branch") and "cond" in r["op"]:
        b = branches[r.get("symbol"), r["pc"]]
        b[0] += 1
        b[1] += "mispredict" in r["events"] or "mispredicted" in r["events"]
ratio = lambda symbol: [(m / n, n) for (s, _), (n, m) in branches.items() if s == symbol and
                        n > 100]
coins = [(pc, m / n, n) for (s, pc), (n, m) in branches.items() if s == "sum_unsorted" and
         n > 100 and exact[int(pc, 16)]["mispredict"] > 0.1 * exact[int(pc, 16)]["count"]]
if check("sort: one branch of sum_unsorted is hard", len(coins) == 1, coins):
    pc, sampled, n = coins[0]
    coin = exact[int(pc, 16)]["mispredict"] / exact[int(pc, 16)]["count"]
    between("sort: it is a coin toss, of which the predictor learns a little by heart", coin, 0.3,
            0.55)
    check("sort: its samples say so", abs(sampled - coin) < 5 * (coin * (1 - coin) / n) ** 0.5,
          (sampled, coin, n), "DAT-34")
check("sort: no branch of sum_sorted is mispredicted", ratio("sum_sorted") and
      all(r < 0.01 for r, _ in ratio("sum_sorted")), ratio("sum_sorted"))

# ---- tlb: pages and lines ----
f = Profile("tlb", period=1024).functions("--op", "load")
pages, packed = f["touch_pages"], f["touch_packed"]
between("tlb: touch_pages walks", pages["tlb_walk"], 0.97, 1, "DAT-64")
between("tlb: touch_pages has its data in level 2", share_from(pages, "l2"), 0.95, 1)
between("tlb: touch_pages spends its time in translation", pages["translation_p50"], 30, 70,
        "DAT-61")
between("tlb: touch_packed does not walk", packed["tlb_walk"], 0, 0.01)
between("tlb: touch_packed has its data in level 2 too", share_from(packed, "l2"), 0.95, 1)

# ---- stream: stores ----
p = Profile("stream")
f = p.functions("--op", "store")
large, small = f["fill_large"], f["fill_small"]
n = large["stores"]
sigma = (0.125 * 0.875 / n) ** 0.5
between("stream: one store in eight misses level 1", large["l1_miss"], 0.125 - 4 * sigma,
        0.125 + 4 * sigma)
between("stream: these miss the last level too", large["llc_miss"], 0.98, 1)
between("stream: the store buffer hides it", large["latency_p50"], 1, 20)
between("stream: fill_small hits", small["l1_miss"], 0, 0.005)

# ---- atomics: true sharing ----
p = Profile("atomics", period=1024)
f = p.functions("--op", "atomic")
shared, own = f["add_shared"], f["add_own"]
between("atomics: the shared counter comes from the other core",
        share_from(shared, "peer_core", "peer_cluster"), 0.01, 1)
between("atomics: the own one does not", share_from(own, "peer_core", "peer_cluster"), 0, 0.001)
c2c = json.loads(p.command("c2c", "--format", "json"))
ours = [l for l in c2c["lines"] if int(l["address"], 16) == address("atomics", "shared")]
check("atomics: c2c calls it true sharing", ours and ours[0]["kind"] == "true", c2c["lines"])
done()
