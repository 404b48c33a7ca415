"""Time in which threads do not run, from the switches of a file of hardware."""
import struct

from common import *

OUT, PREEMPT = 1 << 13, 1 << 14


def switches(raw):
    """(position, misc, thread, time) of each switch: identifier, pid, tid, time, cpu at its end."""
    start, size = struct.unpack_from("<QQ", raw, 40)
    at, end = start, start + size
    while at < end:
        kind, misc, length = struct.unpack_from("<IHH", raw, at)
        if kind == 15:
            tid, time = struct.unpack_from("<IQ", raw, at + 8 + 8 + 4)
            yield at, misc, tid, time
        at += length
        if kind == 71:  # AUXTRACE: its bytes follow
            at += struct.unpack_from("<Q", raw, at - length + 8)[0]


def expected(raw):
    """By thread: time out that it waited, that it could have run, and that it ran."""
    by, times = {}, {}
    for at, misc, tid, time in switches(raw):
        if tid:
            times.setdefault(tid, []).append((time, misc))
    for tid, list in times.items():
        list.sort(key=lambda x: x[0])
        away = [0, 0]
        for (one, misc), (two, next) in zip(list, list[1:]):
            if misc & OUT and not next & OUT:
                away[bool(misc & PREEMPT)] += two - one
        by[tid] = (*away, list[-1][0] - list[0][0] - sum(away))
    return {tid: x for tid, x in by.items() if len(times[tid]) > 1}


path = profile("mixed-nocontext-cpus8", 300000)
raw = bytearray(open(f"{DIR}/{path}" if not os.path.isabs(path) else path, "rb").read())
outs = [at for at, misc, tid, time in switches(raw) if misc & OUT and tid]
check("there are switches", len(outs) > 20, len(outs))
for at in outs[::2]:
    struct.pack_into("<H", raw, at + 4, OUT | PREEMPT)
with open(f"{DIR}/switches.data", "wb") as f:
    f.write(raw)
want = expected(raw)
sums = [sum(x[i] for x in want.values()) for i in range(3)]
e = data("report", "switches.data")["elapsed"]
equal("threads, and what they ran and waited", (e["threads"], e["waiting_ns"], e["running_ns"]),
      (len(want), sums[0] + sums[1], sums[2]))
equal("which is all; the kernel is not told apart", (e["kernel_ns"], e["time_ns"]), (0, sum(sums)))
equal("by whether they could have gone on", {r["what"]: r["time_ns"] for r in e["rows"]},
      {"[blocked]": sums[0], "[preempted]": sums[1]})
equal("how often", sum(r["calls"] for r in e["rows"]) > 10, True)
equal("no switches: null", data("report", profile("mixed", 2000))["elapsed"], None)
done()
