"""Programs recorded with spex record: what the commands say against what is known to be true."""
import re
from common import *
from screens import large

EXAMPLES = f"{BUILD}/examples"
if not os.path.exists(f"{EXAMPLES}/share") or not shutil.which("qemu-aarch64"):
    skip("examples", "no cross compiler or no qemu-aarch64")
    done()


if b"__asan_init" in open(SPEX, "rb").read():
    skip("examples", "QEMU cannot load a plugin that was built with a sanitizer")
    done()


def record(name, *args, out=None):
    out = out or f"{name}.data"
    code, text, err = spex("record", "-q", "--model", "full", "-o", f"{DIR}/{out}", *args, "--",
                           f"{EXAMPLES}/{name}", cwd=DIR)
    if code:
        check(f"record {name}", False, err)
    return out


def ask(command, file, *args):
    return data(command, file, *args, symbols=False)


# ---- false sharing, with and without data sources; not in the padded twin ----
for cpu in ("neoverse-n1", "neoverse-n1,no-lds", "neoverse-v2"):
    d = ask("c2c", record("share", "-c", "1024", "--cpu", cpu))
    bad = [l for l in d["lines"] if l["score"] >= 0.1]
    check(f"share on {cpu}: one line, falsely shared, two writers",
          [(l["kind"], l["data"], l["writers"]) for l in bad] == [("false", "shared", 2)],
          d["lines"])
    equal(f"share on {cpu}: source packets", d["by_source"], "no-lds" not in cpu)
    if bad:
        equal(f"share on {cpu}: offsets", {u["offset"] for u in d["uses"][0]}, {"+0x00", "+0x08"})
        # main reads both once at the end: that may be sampled
        check(f"share on {cpu}: code",
              all(u["symbol"] == "count" and u["srcline"].startswith("share.c:")
                  for u in d["uses"][0] if u["loads"] + u["stores"] > 2), d["uses"][0])
    d = ask("c2c", record("share_padded", "-c", "1024", "--cpu", cpu))
    check(f"share_padded on {cpu}: nothing", not [l for l in d["lines"] if l["score"] >= 0.1],
          d["lines"])

# ---- a lock is found, whatever it is made of; a counter is none ----
for flags in ("-march=armv8-a", "-march=armv8.1-a"):
    run("aarch64-linux-gnu-gcc", "-O2", "-g", "-static", "-pthread", flags, f"{HERE}/locks.c", "-o",
        f"{DIR}/locks")
    for which, name in enumerate(("spin", "mutex", "counter")):
        code, text, err = spex("record", "-q", "--model", "full", "-c", "256", "-o",
                               f"{DIR}/locks.data", "--", f"{DIR}/locks", str(which), cwd=DIR)
        d = ask("c2c", "locks.data")
        locks = [l["data"] for l in d["lines"] if l["lock"] and l["score"] >= 0.1]
        equal(f"locks {flags}: {name}", locks, [name] if which < 2 else [])

# ---- a cache-hostile loop ----
file = record("list_walk", "-c", "4096")
rows = {r["symbol"]: r for r in ask("report", file)["rows"]}
check("list_walk: walk waits for memory, sum does not",
      rows["walk"]["llc_miss"] > 0.9 and rows["walk"]["from"].startswith("dram") and
      rows["walk"]["latency_p95"] > 10 * rows["sum"]["latency_p95"] and
      rows["sum"]["l1_miss"] < 0.02, rows)
d = ask("annotate", file, "walk")
loads = [i for i in d["instructions"] if i["samples"] and i["from"]]
check("list_walk: it is the one load of the loop", len(loads) == 1 and
      loads[0]["instruction"].startswith("ldr") and loads[0]["l1_miss"] > 0.9, loads)

# ---- exact counts beside them ----
code, text, err = spex("record", "-q", "--truth", "--model", "full", "-c", "4096", "-o",
                       f"{DIR}/exact.data", "--", f"{EXAMPLES}/list_walk", cwd=DIR)
d = ask("annotate", "exact.data", "walk", "--exact")
truth = {int(l.split("\t")[1], 16): l.split("\t")
         for l in open(f"{DIR}/exact.data.truth") if not l.startswith("#")}
got = {int(i["address"], 16): i["exact_count"] for i in d["instructions"] if i["exact_count"]}
equal("annotate --exact: executions", got, {pc: int(f[2]) for pc, f in truth.items() if pc in got})
check("annotate --exact: of every instruction that was executed", len(got) >= 6, got)
load = next(i for i in d["instructions"] if i["from"])
check("annotate: the load of a chase waits for itself", load["waits_for"] == "itself", load)
check("annotate --exact without counts: what is missing",
      on("annotate", file, "walk", "--exact", symbols=False)[0] == 1)

# ---- mispredicted branches ----
file = record("sort", "-c", "1024")
d = ask("branch", file)
check("sort: the branch of sum_unsorted is the worst, about every second time, but for "
      "what is learnt by heart",
      d["branches"][0]["symbol"] == "sum_unsorted" and 0.3 < d["branches"][0]["ratio"] < 0.6,
      d["branches"][:2])
sorted_ = [b for b in d["branches"] if b["symbol"] == "sum_sorted"]
check("sort: that of sum_sorted is not", sum(b["mispredicts"] for b in sorted_) < 10, sorted_)

# ---- estimates against the truth: 95% intervals hold it at least nine times in ten ----
code, out, err = run("aarch64-linux-gnu-nm", "-S", f"{EXAMPLES}/sort")
functions = {}
for line in out.decode().splitlines():
    f = line.split()
    if len(f) == 4 and f[2] in "tT":
        functions[f[3]] = (int(f[0], 16), int(f[0], 16) + int(f[1], 16))
names = ("sum_unsorted", "sum_sorted", "sort")
inside = total = 0
for seed in range(1, 31):
    file = record("sort", "--truth", "-c", "2048", "--seed", str(seed), out="truth.data")
    truth = dict.fromkeys(names, 0)
    everything = 0
    for line in open(f"{DIR}/{file}.truth"):
        if not line.startswith("#"):
            f = line.split("\t")
            pc, n = int(f[1], 16), int(f[2])
            everything += n
            for name in names:
                if functions[name][0] <= pc < functions[name][1]:
                    truth[name] += n
    rows = {r["symbol"]: r for r in ask("report", file)["rows"]}
    for name in names:
        total += 1
        inside += rows[name]["ops_low"] <= truth[name] <= rows[name]["ops_high"]
check("estimated operations: the truth is in the interval", inside >= 0.9 * total,
      f"{inside} of {total}")

# ---- what a person sees of them, at three widths; in words: the model and the
# programs may be tuned ----
def words(text):
    return sorted(set(re.findall(r"[A-Za-z_][A-Za-z_0-9.+-]*[A-Za-z_0-9]",
                                 re.sub(r"LLVM \d+|\S*objdump", "", large(text)))))


record("list_walk", "-c", "4096")
record("sort", "-c", "1024")
for name, command, args in (("list_walk", "report", []),
                            ("list_walk", "annotate", ["walk", "--no-source"]),
                            ("list_walk", "mem", []), ("sort", "branch", []),
                            ("sort", "report", ["--sort", "srcline"])):
    for columns in (80, 120, 200):
        code, out, err = on(command, f"{name}.data", *args, columns=columns, symbols=False)
        check(f"{command} of {name} fits {columns} columns",
              max(map(len, out.splitlines())) <= columns, out)
        path = f"{HERE}/golden/example-{name}-{command}.{columns}.txt"
        if os.environ.get("SPEX_UPDATE_GOLDEN"):
            open(path, "w").write(out)
        want = open(path).read() if os.path.exists(path) else ""
        a, b = set(words(out)), set(words(want))
        check(f"{command} of {name} at {columns} columns as recorded",
              len(a & b) >= 0.8 * max(len(a), len(b), 1), f"{out}\n-- recorded --\n{want}\n{a ^ b}")
done()
