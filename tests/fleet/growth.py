"""What a row costs as a server fills: CPU time of sender and server by rows that are there, and
how long questions take.

Usage: python3 tests/fleet/growth.py [MILLIONS [SENT]]. The first SENT million rows (all) are
sent, a profile of a million each; the others are those of the first host under the name of
another one, copied by the server itself, which makes roll-ups of them as of any others. Prints a
line at 1, 2, 3, 5, 10, 20, ... million rows: CPU time since the line before, since other work on
the machine does not change it.
"""
import os
import re
import resource
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../analysis"))
from common import *
import server

MILLIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
SENT = int(sys.argv[2]) if len(sys.argv) > 2 else MILLIONS
LINES = {1, 2, 3, 5, MILLIONS, *range(10, MILLIONS + 1, 10)}
fleet = server.Fleet(1)
S = fleet[0]
S.run(spex("export", "--to", "clickhouse", "--print-ddl", "--url", S.url)[1].decode())
text = re.sub(r"/\*.*?\*/", "", open(f"{SOURCE}/src/export/schema.def").read(), flags=re.S)
COLUMNS = ["wall", "part"] + [f"`{name}`" for name, kind, shown in re.findall(
    r'COLUMN\(\s*\w+,\s*"(\w+)",\s*(\w+),\s*\d+,\s*"[^"]*",\s*"[^"]*",\s*"[^"]*",\s*\w+,\s*"(\w*)"',
    text) if kind not in ("LIST", "BOOL") and "p" in shown and name != "host"]


def cpu():
    f = open(f"/proc/{S.process.pid}/stat").read().rsplit(")", 1)[1].split()
    mine = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK"), mine.ru_utime + mine.ru_stime


def least(query):
    times = []
    for _ in range(5):
        begin = time.time()
        S.ask(query, database="spex")
        times.append(time.time() - begin)
    return min(times)


def add(million):
    host = f"host{million}"
    if million > SENT:
        listed = ", ".join(COLUMNS)
        S.ask(f"INSERT INTO samples (host, batch, {listed}) SELECT '{host}', "
              f"toFixedString(lower(hex(MD5('{host}'))), 32), {listed} FROM samples "
              "WHERE host = 'host1'", database="spex")
        return
    file = profile("mixed", 1_000_000, seed=million, name="now.data")
    code, out, err = on("export", file, "--to", "clickhouse", "--url", S.url, "--host", host)
    os.remove(f"{DIR}/{file}")
    if code:
        raise RuntimeError(err)


print("million rows  server us/row  sender us/row  seconds  roll-up query s  one host's "
      "samples s  bytes/row", flush=True)
before, last, begin = cpu(), 0, time.time()
for million in range(1, MILLIONS + 1):
    add(million)
    if million not in LINES:
        continue
    now, rows = cpu(), million - last
    size, count = S.ask("SELECT sum(bytes), sum(rows) FROM system.parts WHERE active "
                        "AND table = 'samples'")[0]
    rolled_up = least("SELECT symbol, sumMerge(samples), "
                      "quantilesExactWeightedMerge(0.5, 0.95)(total_levels) FROM minutes "
                      "GROUP BY symbol")
    of_one = least("SELECT symbol, count(), quantileExact(latency) FROM samples "
                   "WHERE host = 'host1' GROUP BY symbol")
    print(f"{million:12}  {(now[0] - before[0]) / rows:13.2f}  "
          f"{(now[1] - before[1]) / rows:13.2f}  {time.time() - begin:7.0f}  {rolled_up:15.3f}  "
          f"{of_one:20.3f}  {int(size) / int(count):9.1f}", flush=True)
    before, last = cpu(), million
rows, rolled = (int(S.ask(q, database="spex")[0][0])
                for q in ("SELECT count() FROM samples", "SELECT sumMerge(samples) FROM minutes"))
print("all rows are there, in roll-ups, too" if rows == rolled == MILLIONS * 1_000_000
      else f"{rows} rows, {rolled} in roll-ups", flush=True)
fleet.close()
