"""
Samples against the exact counts of the same run: what SPE estimates lies within its statistical
error, at several intervals; the bias of an interval that the length of a loop divides, without
jitter, and that jitter removes it.
"""
import bisect
import collections
import os
import re
import sys

sys.path.insert(0, os.path.dirname(__file__))
from profile import *

need("sort", "tlb", "matmul", "loop")
SIGMAS = 5


def by_function(example, counts):
    """Sums {pc: number} by function."""
    table = sorted(symbols(example))
    starts = [row[0] for row in table]
    sums = collections.Counter()
    for pc, number in counts.items():
        i = bisect.bisect_right(starts, pc) - 1
        sums[table[i][2] if i >= 0 and pc < table[i][1] else "?"] += number
    return sums


def collided(profile):
    return int(re.search(r"([\d,]+) collided", profile.err).group(1).replace(",", ""))


def compare(name, samples, truth, what):
    """Shares of the samples against exact shares, each function's own binomial error."""
    n, total = sum(samples.values()), sum(truth.values())
    wrong = []
    for function in set(samples) | set(truth):
        share = truth[function] / total
        sigma = max((n * share * (1 - share)) ** 0.5, 1)
        if abs(samples[function] - n * share) > SIGMAS * sigma:
            wrong.append(f"{function}: {samples[function]} samples, {n * share:.1f} "
                         f"expected, sigma {sigma:.1f}")
    check(f"{name}: {what}, {n} samples of {total}", n > 20 and not wrong, "\n".join(wrong))


# The N1 has ERnd: the counter runs out every period + 1 operations, and one of the next 256 is
# selected by chance. So the number of samples is exact, and which operations they are is not.
for example, periods in (("sort", (1024, 2048, 8192)), ("tlb", (1024, 4096)), ("matmul", (4096,))):
    for period in periods:
        p = Profile(example, "--truth", period=period)
        name = f"{example} -c {period}"
        truth, records = p.truth(), p.records("pc,op,events")
        operations = sum(r["count"] for r in truth.values())
        intervals = operations // (period + 1)
        n = len(records) + collided(p)
        check(f"{name}: one sample in each interval", abs(n - intervals) <= 1,
              f"{n} samples, {intervals} intervals")
        pcs = collections.Counter(int(r["pc"], 16) for r in records)
        compare(name, by_function(example, pcs),
                by_function(example, {pc: r["count"] for pc, r in truth.items()}),
                "operations by function")
        for event, column in (("l1d-miss", "l1_miss"), ("mispredict", "mispredict")):
            hits = collections.Counter(int(r["pc"], 16) for r in records
                                       if event in r["events"] or event + "ed" in r["events"])
            exact = {pc: r[column] for pc, r in truth.items() if r[column]}
            expected = sum(exact.values()) / (period + 1)
            if expected < 60:
                continue
            got = sum(hits.values())
            check(f"{name}: number of {event}", abs(got - expected) <= SIGMAS * expected ** 0.5,
                  f"{got} samples, {expected:.1f} expected")
            compare(name, by_function(example, hits), by_function(example, exact),
                    f"{event} by function")

# Without ERnd the interval itself is drawn: the period plus 0 to 255, plus one.
p = Profile("sort", "--truth", "--cpu", "neoverse-n1,no-ernd", period=1024)
operations = sum(r["count"] for r in p.truth().values())
records = p.records("pc")
intervals = operations / (1024 + 127.5 + 1)
sigma = (256 ** 2 - 1) ** 0.5 / 12 ** 0.5 / 1152.5 * intervals ** 0.5
n = len(records) + collided(p)
check("sort without ERnd: the mean interval is 1152.5", abs(n - intervals) <= SIGMAS * sigma + 1,
      f"{n} samples, {intervals:.1f} intervals, sigma {sigma:.2f}")
compare("sort without ERnd",
        by_function("sort", collections.Counter(int(r["pc"], 16) for r in records)),
        by_function("sort", {pc: r["count"] for pc, r in p.truth().items()}),
        "operations by function")

# ---- the loop whose length divides the interval ----
begin, end = address("loop", "loop_begin"), address("loop", "loop_end")
inside = lambda records: collections.Counter(int(r["pc"], 16) for r in records
                                             if begin <= int(r["pc"], 16) < end)
equal("loop: 41 instructions", (end - begin) // 4, 41)
fixed = inside(Profile("loop", period=1024, event="ts_enable=1").records("pc"))
n = sum(fixed.values())
check("loop without jitter: one instruction has all samples",
      n > 30000 and max(fixed.values()) == n, fixed.most_common(3), "SMP-26")
p = Profile("loop", "--truth", period=1024)
jitter = inside(p.records("pc"))
n = sum(jitter.values())
expected = dict.fromkeys(range(begin, end, 4), 0)
for r in range(256):  # the counter runs out at the same place each time; then 0 to 255 more
    expected[begin + (max(fixed) - begin + 4 * r) % (end - begin)] += n / 256
chi = sum((jitter[pc] - e) ** 2 / e for pc, e in expected.items())
check(f"loop with jitter: {n} samples over all instructions as 256 = 6 * 41 + 10 says, "
      f"chi-square {chi:.0f} of 40",
      n > 30000 and chi < 90, jitter)
check("loop with jitter: the bias left is an eighth", max(jitter.values()) < n / 41 * 1.25 and
      min(jitter[pc] for pc in expected) > n / 41 * 0.8, jitter)
counts = {pc: r["count"] for pc, r in p.truth().items() if begin <= pc < end}
check("loop: exact counts are exact", len(counts) == 41 and set(counts.values()) == {1000000},
      counts)
done()
