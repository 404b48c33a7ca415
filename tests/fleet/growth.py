"""What a row costs as a server fills: CPU time of sender and server by rows that are there, and how long questions take.

Usage: python3 tests/fleet/growth.py [MILLIONS]. Prints a line per million rows; CPU time, since other work on the machine does not change it.
"""
import os
import resource
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../analysis"))
from common import *
import server

MILLIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
fleet = server.Fleet(1)
S = fleet[0]
S.run(spex("export", "--to", "clickhouse", "--print-ddl", "--url", S.url)[1].decode())


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


print("million rows  server us/row  sender us/row  roll-up query s  one host's samples s  bytes/row")
for million in range(1, MILLIONS + 1):
    file = profile("mixed", 1_000_000, seed=million, name="now.data")
    server_before, sender_before = cpu()
    code, out, err = on("export", file, "--to", "clickhouse", "--url", S.url, "--host", f"host{million}")
    server_after, sender_after = cpu()
    os.remove(f"{DIR}/{file}")
    size = int(S.ask("SELECT sum(bytes) FROM system.parts WHERE active AND table = 'samples'")[0][0])
    print(f"{million:12}  {server_after - server_before:13.2f}  {sender_after - sender_before:13.2f}"
          f"  {least('SELECT symbol, sumMerge(samples), quantilesExactWeightedMerge(0.5, 0.95)(total_levels) FROM minutes GROUP BY symbol'):15.3f}"
          f"  {least('SELECT symbol, count(), quantileExact(latency) FROM samples WHERE host = ' + repr('host1') + ' GROUP BY symbol'):20.3f}"
          f"  {size / million / 1e6:9.1f}", flush=True)
fleet.close()
