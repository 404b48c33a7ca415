"""
Time in which threads do not run: what report says of a lock convoy, of brief locks, of files. What
runs, what is in the kernel and what waits add up to the time that the threads were there.
"""
import glob
import json

from guest import *

need_engine("elapsed time")
program = build("blocked", "-g", "-O1", "-pthread", "-static")


def elapsed(name, *args, options=()):
    code, out, err, path = record("--deterministic", *options, program, *args, name=name)
    equal(f"{name}: recorded", (code, len(err.splitlines())), (0, 1))
    answer = json.loads(spex("report", "-i", path, "--format", "json")[1])
    return path, answer["elapsed"], answer


def threads(path):
    """The time that threads were there, by FORK and EXIT."""
    ends, begins = ({m.group(2): int(m.group(1)) for m in
                     (re.search(r"(\d+) 0x\w+ \[\w+\]: PERF_RECORD_\w+\(\d+:(\d+)\)", line)
                      for line in events(path, kind))} for kind in ("EXIT", "FORK"))
    return len(ends), sum(end - begins.get(tid, 0) for tid, end in ends.items())


def rows(e, what, function=None):
    return [r for r in e["rows"] if r["what"] == what and function in (None, r["function"])]


# ---- threads that wait for one lock ----
path, lock, answer = elapsed("lock", "lock")
parts = lock["running_ns"], lock["kernel_ns"], lock["waiting_ns"]
equal("the parts are the whole", sum(parts), lock["time_ns"])
equal("which is the time that the threads were there", (lock["threads"], lock["time_ns"]),
      threads(path))
equal("rows are what did not run", sum(r["time_ns"] for r in lock["rows"]), sum(parts[1:]))
first = lock["rows"][0]
equal("the lock is the first row, with who takes it",
      {k: first[k] for k in ("what", "call", "state", "object", "function", "threads")},
      {"what": "[blocked: futex]", "call": "futex", "state": "waiting", "object": "queue_lock",
       "function": "serve", "threads": 4})
where = next(i + 1 for i, line in enumerate(open(os.path.join(HERE, "programs", "blocked.c")))
             if "pthread_mutex_lock(" in line)
check("and where", first["line"] in (f"blocked.c:{where}", f"blocked.c:{where + 1}"), first)
check("who holds it has the others wait: half of their time", first["elapsed"] > 0.3, first)


def report(*args):
    return spex("report", *args)[1].decode().replace("\n#   ", " ")


text = report("-i", path)
check("the header says it", re.search(r"^# elapsed: \S+ \S+ of 5 threads: [\d.]+% running, "
                                      r"[\d.]+% in the kernel, [\d.]+% waiting; [\d.]+% is "
                                      r"\[blocked: futex\] for queue_lock$", text, re.M), text)
check("and a table below the first", re.search(
    r"\n\nelapsed .*\n +[\d.]+% .*\[blocked: futex\] +queue_lock +serve +blocked\.c:\d+\n",
    text), text)
check("filters leave it out", "elapsed" not in report("-i", path, "--tid", "1002"))
equal("several threads say the same", text, report("-i", path, "--threads", "3"))

wait, *more = [f for f in answer["findings"] if f["case"] == "sleep"]
equal("a finding names the lock, where it is taken and what it costs",
      (wait["kind"], wait["data"], wait["place"], wait["samples"], more),
      ("lock", "queue_lock", f"serve ({first['line']})", first["calls"], []))
check("and its share", abs(wait["share"] - first["elapsed"]) < 1e-5, wait)
check("in words", re.search(r"[\d.]+% of the elapsed time of all threads is waiting for a lock: "
                            r"queue_lock, most of it in serve \(blocked", " ".join(text.split())),
      text)
library = glob.glob(f"{BUILD}/feeds/node_modules/@duckdb/node-bindings-linux-*[!l]/libduckdb.so")
library = os.environ.get("SPEX_DUCKDB") or (library[0] if library else "")
code, out, err = spex("query", "SELECT state, CAST(sum(time_ns) AS BIGINT) AS ns FROM elapsed "
                      "GROUP BY state ORDER BY state", path, "--format", "csv",
                      env={"SPEX_DUCKDB": library})
if not library:
    skip("SQL", "no DuckDB: scripts/feeds-setup fetches it")
else:
    equal("SQL has the same", out.decode().split(), ["state,ns", f"kernel,{parts[1]}",
                                                     f"running,{parts[0]}", f"waiting,{parts[2]}"])

page = os.path.join(WORK, "page.html")
code, out, err = spex("html", path, "-o", page)
held = re.search(r'id="profiles">(.*?)</script>', open(page).read(), re.S).group(1)
equal("the page has it", json.loads(held)["profiles"][0]["elapsed"],
      {**lock, "rows": lock["rows"][:20]})

# ---- the same bytes; with call stacks, allocations, the full model; not without one ----
again = record("--deterministic", program, "lock", name="again")[3]
equal("the same again", open(path, "rb").read(), open(again, "rb").read())
for options in (("-g",), ("--allocs",), ("--model", "full")):
    _, other, _ = elapsed("other", "lock", options=options)
    row = other["rows"][0]
    equal(f"{options[0]}: the same lock", (row["object"], row["function"]), ("queue_lock", "serve"))
none = record("--model", "none", program, "lock", name="none")[3]
equal("no model: null", json.loads(spex("report", "-i", none, "--format", "json")[1])["elapsed"],
      None)

# ---- what nearly is one: as many calls, held for a moment ----
path, brief, answer = elapsed("brief", "brief")
equal("brief: it adds up", (brief["threads"], brief["time_ns"]), threads(path))
check("brief: hardly any time for the lock",
      sum(r["elapsed"] for r in brief["rows"] if r["object"] == "queue_lock") < 0.01,
      brief["rows"][:4])
check("brief: so no finding", all(f["case"] != "sleep" for f in answer["findings"]), answer)
check("brief: main waits for the others' ends",
      rows(brief, "[blocked: futex]", "main"), brief["rows"][:3])

# ---- files ----
path, files, _ = elapsed("files", "files")
equal("files: it adds up", (files["threads"], files["time_ns"]), threads(path))
reads, = rows(files, "[kernel: read]", "load")
equal("files: reads by who reads", (reads["calls"], reads["object"]), (100, None))
check("files: most of the time", reads["elapsed"] > 0.5, reads)
check("files: and nothing waits", files["waiting_ns"] == 0, files)

# ---- perf ----
code, out, err = run("perf", "script", "-i", os.path.join(WORK, "lock"), "-F", "tid,event,period")
check("perf reads the samples",
      code == 0 and re.search(r"1002 +\d+ +spe-elapsed:u:", out.decode()), out[-500:])
done()
