"""Several files as one profile: what each command says of them, against what it says of each."""
from common import *

A, B = profile("mixed", 4000, 1, "a.data"), profile("mixed", 3000, 2, "b.data")


def both(command, *args, **kw):
    return data(command, A, "-i", B, *args, **kw)


one = [data("report", f) for f in (A, B)]
two = both("report")
for key in ("records", "samples", "bytes", "timed", "with_source", "with_address", "time_ns"):
    equal(f"totals: {key}", two["totals"][key], sum(d["totals"][key] for d in one))
equal("totals: first and last time", (two["totals"]["first_time"], two["totals"]["last_time"]),
      (min(d["totals"]["first_time"] for d in one), max(d["totals"]["last_time"] for d in one)))
for name in ("symbol", "srcline", "tid", "cpu", "data-symbol", "page", "comm", "time-bin"):
    rows = [{r[name.replace("-", "_")]: r["samples"]
             for r in data("report", f, "--sort", name)["rows"]} for f in (A, B)]
    want = {k: rows[0].get(k, 0) + rows[1].get(k, 0) for k in {*rows[0], *rows[1]}}
    got = {r[name.replace("-", "_")]: r["samples"] for r in both("report", "--sort", name)["rows"]}
    if name != "time-bin":  # whose intervals follow from the length of all
        equal(f"report --sort {name}: rows add up", got, want)
    equal(f"report --sort {name}: all samples are there", sum(got.values()), 7000)
check("it is said how many files there are",
      "a.data and 1 more: 7,000 samples" in on("report", A, "-i", B)[1])
code, out, err = on("report", (A, B))
check("operands are files too", "a.data and 1 more: 7,000 samples" in out, out + err)
equal("the order of the names does not matter", data("report", (B, A))["rows"], two["rows"])

mem = [data("mem", f) for f in (A, B)]
equal("mem: sources add up", {r["source"]: r["samples"] for r in both("mem")["sources"]},
      {s: sum(r["samples"] for d in mem for r in d["sources"] if r["source"] == s)
       for s in {r["source"] for d in mem for r in d["sources"]}})
c2c = [next(l for l in data("c2c", f)["lines"] if l["data"] == "shared") for f in (A, B)]
got = next(l for l in both("c2c")["lines"] if l["data"] == "shared")
equal("c2c: the line of both", (got["samples"], got["loads"], got["stores"]),
      tuple(c2c[0][k] + c2c[1][k] for k in ("samples", "loads", "stores")))
branch = [data("branch", f) for f in (A, B)]
equal("branch: mispredicts add up", sum(r["mispredicts"] for r in both("branch")["kinds"]),
      sum(r["mispredicts"] for d in branch for r in d["kinds"]))
walk = [data("annotate", f, "walk") for f in (A, B)]
equal("annotate: samples add up", both("annotate", "walk")["samples"],
      sum(d["samples"] for d in walk))
lines = [r["offset"] for f in (A, B) for r in records(f)]
code, out, err = on("script", (A, B), "--format", "json")
equal("script: the records of both", sorted(json.loads(l)["offset"] for l in out.splitlines()),
      sorted(lines))
code, out, err = on("export", (A, B), "--to", "collapsed")
equal("export: the samples of both", sum(int(l.rsplit(" ", 1)[1]) for l in out.splitlines()), 7000)
code, out, err = on("html", A, "-i", B, "-o", "two.html")
check("html: one page of both", code == 0 and '"samples":7000' in open(f"{DIR}/two.html").read(),
      err)
d = data("diff", ("-i", A, "-i", B, A))
check("diff: several files before, one after", d["a"]["totals"]["samples"] == 7000 and
      d["b"]["totals"]["samples"] == 4000 and d["time_ratio_high"] < 1, d["a"]["totals"])
code, out, err = on("archive", A, "-i", B, "-o", "two.tar")
run("tar", "xf", "two.tar", "--one-top-level=unpacked", cwd=DIR)
check("archive: the files of both, under their names",
      code == 0 and {A, B, ".debug"} <= set(os.listdir(f"{DIR}/unpacked")) and
      "spex report -i D/a.data -i D/b.data" in err, err)
code, out, err = on("archive", (A, f"unpacked/{A}"))
check("archive: two of one name are refused", code == 2 and "a.data" in err, err)
half = [data("report", A, "-i", B, "--time", t)["totals"]["samples"]
        for t in ("0%-50%", "50%-100%")]
check("--time is of all of the time", 6990 <= sum(half) <= 7010 and min(half) > 1000, half)
code, out, err = on("report", (A, "nowhere.data"))
check("one that is not there: its name", code == 1 and "nowhere.data" in err and not out, err)
whole = open(f"{DIR}/{B}", "rb").read()
open(f"{DIR}/cut.data", "wb").write(whole[:len(whole) * 2 // 3])
code, out, err = on("report", (A, "cut.data"))
check("one that is damaged: its name, and the rest",
      code == 1 and "cut.data: byte" in err and "walk" in out, err)
other = profile("false", 500, 3, "false.data")
code, out, err = on("report", (A, other))
check("different programs of one process tree", code == 0 and "4,500 samples" in out, out)

# ---- stat of profiles: samples times the period ----
def stat(*args):
    code, out, err = spex("stat", *args, cwd=DIR)
    return {l.split()[1]: int(l.split()[0].replace(",", "")) for l in out.decode().splitlines()
            if l.startswith("  ") and l.split()[0].replace(",", "").isdigit()}


rs = records(A)
want = {"operations": 4000, "l1d-misses": sum("l1d-miss" in r["events"] for r in rs),
        "mispredicts": sum("mispredicted" in r["events"] for r in rs),
        "branches": sum(r["op"].startswith("branch") for r in rs)}
got = stat("-i", A)
equal("stat -i: operations, misses, mispredicts", {k: got.get(k) for k in want},
      {k: 1024 * n for k, n in want.items()})
equal("stat of two: the sum", stat("-i", A, "-i", B)["operations"], 7000 * 1024)
equal("stat --time", stat("-i", A, "--time", "10%/2")["operations"],
      data("report", A, "--time", "10%/2")["totals"]["samples"] * 1024)
check("stat: no program with -i", spex("stat", "-i", A, "true", cwd=DIR)[0] == 2)
check("stat: --time is for a profile", spex("stat", "--time", "1,2", "true", cwd=DIR)[0] == 2)

# ---- packets: one file after the other, and of a time ----
for command in ("dump", "verify"):
    parts = [spex(command, f, cwd=DIR) for f in (A, B)]
    code, out, err = spex(command, A, "-i", B, cwd=DIR)
    bodies = sorted(l for p in parts for l in p[1].splitlines() if b"record" not in l)
    equal(f"{command}: both", sorted(l for l in out.splitlines()
                                     if l not in (b"# a.data", b"# b.data") and b"record" not in l),
          bodies)
for span in ("10%/2", "0%-30%", "90%-100%"):
    n = data("report", A, "--time", span)["totals"]["samples"]
    code, out, err = spex("dump", "--format", "json", "--time", span, A, cwd=DIR)
    equal(f"dump --time {span}: the records that report counts",
          sum(json.loads(l)["packet"] == "timestamp" for l in out.splitlines()), n)
    code, all_, err = spex("dump", "--format", "json", A, cwd=DIR)
    check(f"dump --time {span}: packets as they are without it",
          set(out.splitlines()) <= set(all_.splitlines()))
    code, out, err = spex("verify", "--time", span, A, cwd=DIR)
    check(f"verify --time {span}: as many records", f"{n} records" in err, err)
whole = [json.loads(l) for l in spex("verify", "--format", "json", A, cwd=DIR)[1].splitlines()]
parts = [json.loads(l) for t in ("0%-50%", "50%-100%")
         for l in spex("verify", "--format", "json", "--time", t, A, cwd=DIR)[1].splitlines()]
key = lambda v: (v["cpu"], v["offset"], v["rule"])
equal("verify --time: parts find what the whole does", sorted(set(map(key, parts))),
      sorted(set(map(key, whole))))
for command in ("dump", "verify"):
    check(f"{command} --time: a mistake is a usage error",
          spex(command, "--time", "soon", A, cwd=DIR)[0] == 2)
    check(f"{command} --time of a bare stream: no percent",
          spex(command, "--raw", "--time", "10%/2", A, cwd=DIR)[0] == 2)
done()
