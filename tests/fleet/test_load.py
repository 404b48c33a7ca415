"""50 hosts ship 20 million rows to two shards that are killed while they load and while they are
asked: equal to the row.

Part of `make check-fleet` alone (SPEX_LONG=1); prints the figures of docs/fleet.md.
SPEX_FLEET_ROWS: another number of rows.
"""
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../analysis"))
from common import *
import server

if not os.environ.get("SPEX_LONG"):
    done()
why = server.why_not()
if why:
    skip("20 million rows", why)
    done()

ROWS = int(os.environ.get("SPEX_FLEET_ROWS", 20_000_000))
HOSTS = 50
EACH = ROWS // HOSTS
SCENARIOS = ("mixed", "false", "branches", "private", "mixed-nosource")

fleet = server.Fleet(2)
A, B = fleet[0], fleet[1]
for s in fleet.servers:
    s.run(spex("export", "--to", "clickhouse", "--print-ddl", "--url", s.url, "--cluster",
               "fleet")[1].decode())


def cpu_of(pid):
    f = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK")


def figure(name, value):
    print(f"# figure: {name}: {value}", flush=True)


def settled(query, to=A):
    """An answer, however often it takes while servers come and go."""
    while True:
        try:
            return to.ask(query, database="spex")
        except (RuntimeError, OSError):
            time.sleep(0.2)


def total(to=A):
    return tuple(int(settled(q, to)[0][0]) for q in (
        "SELECT count() FROM samples", "SELECT sumMerge(samples) FROM minutes",
        "SELECT sum(r) FROM (SELECT max(rows) AS r FROM batches GROUP BY batch, part)"))


# ---- the hosts ----

os.makedirs(f"{DIR}/kept")
files = {}
RECORDED = None
# one host has a real recording
if shutil.which("qemu-aarch64") and not run("aarch64-linux-gnu-gcc", "-g", "-O1", "-static", "-o",
                                            f"{DIR}/tiny",
                                            f"{SOURCE}/tests/guest/programs/tiny.c")[0]:
    code, out, err = spex("record", "-c", "64", "-o", f"{DIR}/recorded.data", f"{DIR}/tiny",
                          cwd=DIR)
    RECORDED = f"{DIR}/recorded.data" if code == 0 else None
figure("a real recording is among them", bool(RECORDED))
for i in range(HOSTS):
    host = f"host{i:02}"
    os.makedirs(f"{DIR}/{host}")
    made = profile(SCENARIOS[i % len(SCENARIOS)], EACH, seed=i + 1, name=f"{host}/perf.data.1")
    files[host] = [made]
if RECORDED:
    shutil.copy(RECORDED, f"{DIR}/host00/perf.data.2")
    files["host00"].append("host00/perf.data.2")
want = {h: sum(data("report", f, symbols=False)["totals"]["records"] for f in names)
        for h, names in files.items()}
SIZE = sum(os.path.getsize(f"{DIR}/{f}") for names in files.values() for f in names)
for host, names in files.items():
    for f in names:
        os.link(f"{DIR}/{f}", f"{DIR}/kept/{f.replace('/', '-')}")
figure("rows, bytes of the files", (sum(want.values()), SIZE))

# ---- loading ----

loaded = threading.Event()
used, lock = {"cpu": 0.0}, threading.Lock()
todo = sorted(files)
rates = []
start = time.time()


def ship_host(host):
    to = (A, B)[int(host[-2:]) % 2]
    while [n for n in os.listdir(f"{DIR}/{host}") if n.startswith("perf")]:
        p = subprocess.Popen([SPEX, "ship", "--once", "--spool", host, "--url", to.url, "--host",
                              host, *SYMBOLS],
                             cwd=DIR, env={**os.environ, "HOME": DIR}, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        pid, status, usage = os.wait4(p.pid, 0)
        p.returncode = status
        with lock:
            used["cpu"] += usage.ru_utime + usage.ru_stime
        if status:
            time.sleep(1)


def worker():
    while True:
        with lock:
            if not todo:
                return
            host = todo.pop(0)
        ship_host(host)
        with lock:
            rates.append((time.time() - start,
                          sum(want[h] for h in files) * (len(rates) + 1) / HOSTS))


answers = {"whole": 0, "partial": 0, "wrong": []}


def asker():
    """What is asked in the middle of it is whole, or says that it is not."""
    while not loaded.is_set():
        code, out, err = spex("report", "--url", A.url, "--sort", "host", "--format", "json",
                              "--retry", "30")
        if code == 0:
            answers["whole"] += 1
            if json.loads(out)["partial"] is not None:
                answers["wrong"].append(err)
        elif "PARTIAL" in err:
            answers["partial"] += 1
        elif not any(w in err for w in ("trying again", "error", "127.0.0.1")):
            answers["wrong"].append(err or out)
        time.sleep(0.5)


threads = [threading.Thread(target=worker) for _ in range(3)] + [threading.Thread(target=asker)]
for t in threads:
    t.start()
killed = 0
for share, victim in ((0.2, B), (0.4, A), (0.6, B)):
    while len(rates) < share * HOSTS:
        time.sleep(0.1)
    victim.kill()
    killed += 1
    time.sleep(2)
    victim.start()
for t in threads[:3]:
    t.join()
loaded.set()
threads[3].join()
seconds = time.time() - start
figure("seconds to load with three servers killed, rows a second",
       (round(seconds, 1), round(sum(want.values()) / seconds)))
figure("CPU of ship, microseconds a row", round(used["cpu"] / sum(want.values()) * 1e6, 2))
figure("seconds since the start by rows loaded", [(round(t, 1), int(r)) for t, r in rates[4::9]])

got = {h: int(n) for h, n in settled("SELECT host, count() FROM samples GROUP BY host")}
equal(f"{killed} servers were killed while they loaded: every host has the rows of its files", got,
      want)
equal("samples, roll-ups and the ledger agree", set(total()), {sum(want.values())})
check("answers in between were whole, or said that they were partial", not answers["wrong"],
      answers)
figure("answers while loading", {k: v for k, v in answers.items() if k != "wrong"})

# ---- again, and a server killed while it answers ----

for host, names in files.items():
    for f in names:
        os.link(f"{DIR}/kept/{f.replace('/', '-')}", f"{DIR}/{f}")
again = time.time()
for host in files:
    ship_host(host)
figure("seconds to ship all files again, which adds nothing", round(time.time() - again, 1))
equal("all files are shipped again: nothing is there twice", set(total()), {sum(want.values())})

results = []


def ask_long():
    for _ in range(6):
        code, out, err = spex("report", "--url", A.url, "--sort", "host,symbol", "--format", "json",
                              "--retry", "30")
        results.append((code, json.loads(out)["samples"] if out else None, "PARTIAL" in err))


t = threading.Thread(target=ask_long)
t.start()
time.sleep(0.3)
B.kill()
time.sleep(1)
B.start()
t.join()
check("a server is killed while it answers: an answer is whole, or says that it is not",
      all((code == 0 and n == sum(want.values())) or partial or
          code for code, n, partial in results), results)
figure("answers while a server is killed (exit status, samples, partial)", results)

# ---- figures ----

for s in fleet.servers:
    for table in ("samples", "minutes"):
        s.ask(f"OPTIMIZE TABLE spex.{table}_local FINAL")
for name, query in (
    ("report by symbol, all hosts, from roll-ups", "SELECT symbol, sumMerge(samples), "
     "quantilesExactWeightedMerge(0.5, 0.95, 0.99)(total_levels) FROM minutes GROUP BY symbol"),
    ("one host, from roll-ups",
     "SELECT symbol, sumMerge(samples) FROM minutes WHERE host = 'host07' GROUP BY symbol"),
    ("one host, from samples", "SELECT symbol, count(), quantileExact(latency) FROM samples WHERE "
     "host = 'host07' GROUP BY symbol"),
    ("all hosts, from samples",
     "SELECT symbol, count(), quantileExact(latency) FROM samples GROUP BY symbol")):
    times = []
    for _ in range(3):
        t0 = time.time()
        A.ask(query, database="spex")
        times.append(time.time() - t0)
    figure(f"seconds: {name}", round(min(times), 3))
parts = [A.ask("SELECT table, sum(bytes), sum(rows) FROM system.parts WHERE active AND database = "
               "'spex' GROUP BY table"),
         B.ask("SELECT table, sum(bytes), sum(rows) FROM system.parts WHERE active AND database = "
               "'spex' GROUP BY table")]
size = {t: (sum(int(r[1]) for p in parts for r in p if r[0] == t),
            sum(int(r[2]) for p in parts for r in p if r[0] == t))
        for t in ("samples_local", "minutes_local", "batches_local")}
figure("bytes and rows of tables", size)
figure("bytes a sample, on the server and in the file",
       (round(size["samples_local"][0] / sum(want.values()), 1),
        round(SIZE / sum(want.values()), 1)))
figure("CPU of the servers since their last start, seconds",
       [round(cpu_of(s.process.pid), 1) for s in fleet.servers])
fleet.close()
done()
