"""Threads in turns by modelled time: the same program gives the same answer and the same bytes, on
one host CPU as on two, though who gets a lock first decides what it prints."""
import json
import shutil
from guest import *

need_engine("threads in turns")
program = build("order", "-pthread", "-static")
answers, files = set(), set()
for i in range(10):
    alone = ["taskset", "-c", "0"] if i % 2 and shutil.which("taskset") else []
    path = os.path.join(WORK, "order.data")
    code, out, err = run(*alone, SPEX, "record", "-q", "--deterministic", "-c", "1024", "-o", path,
                         "--", program)
    check(f"run {i}: ends well", code == 0, err)
    answers.add(out)
    files.add(open(path, "rb").read())
check("the same thread gets the lock each time", len(answers) == 1, answers)
check("the same bytes each time", len(files) == 1, len(files))
code, out, err = spex("report", "-i", path, "--sort", "tid", "--format", "json")
rows = json.loads(out)["rows"]
check("all threads are sampled, side by side in time",
      len([r for r in rows if r["samples"] > 10]) >= 5, rows)

# Threads that take a line from each other, and one that waits, take turns of 64 words (a block or
# an access each, so some 20 rounds of these loops). With the 4096 of threads that leave each other
# alone the first sees a dozen values and the second is up to 650 late.
code, out, err = run(SPEX, "record", "-q", "--deterministic", "-o", path, "--",
                     build("turns", "-pthread", "-static"))
check("turns: ends well", code == 0, err)
word = out.split()
check("of 10,000 values in a line that both use a thread sees one in 50",
      word[0] == b"fight" and int(word[1]) > 200, out)
check("a thread that waits goes on soon after the write that it waits for",
      word[2] == b"wait" and int(word[3]) < 128, out)

# A thread that says that it waits (YIELD) lets the other go on at once: a line that is handed to
# and fro by compare and swap takes no longer than its way and the moment that its owner keeps it.
micro, path = os.path.join(WORK, "micro"), os.path.join(WORK, "pingpong")
subprocess.run([CC, "-D_GNU_SOURCE", "-O2", "-static", "-pthread", "-o", micro,
                os.path.join(SOURCE, "src/micro/micro.c")], check=True)
code, out, err = run(SPEX, "record", "-q", "--model", "full,cluster=1,far.latency=150,lease=30",
                     "--truth", "-c", "1048576", "-o", path, "--", micro, "pingpong", "2000")
check("pingpong: ends well", code == 0, err)
place = subprocess.run([CC.replace("gcc", "nm"), "-S", micro], capture_output=True,
                       text=True).stdout
start, size = next([int(w, 16) for w in line.split()[:2]]
                   for line in place.splitlines() if line.endswith(" kernel_pingpong"))
rows = [line.split() for line in open(path + ".truth") if not line.startswith("#")]
cycles = sum(float(row[8]) for row in rows if start <= int(row[1], 16) < start + size)
hop = cycles / 2 / int(out.split()[1])
check("a line changes hands by compare and swap in 180 cycles, 10% more or less", 162 < hop < 198,
      hop)

# The same where one thread alone is accounted for whole, too.
files = set()
for i in range(2):
    code, out, err = run(SPEX, "record", "-q", "--deterministic", "--model", "full", "-c", "1024",
                         "-o", path, "--", program)
    check(f"full {i}: ends well", code == 0, err)
    files.add(open(path, "rb").read())
check("full: the same bytes each time", len(files) == 1, len(files))

# Other operations are sampled with another seed: such runs differ by noise, in rows that have all
# of the time of all threads, too, where only the ends of threads are unknown. The environment is
# on the guest's stack: it is the same everywhere.
program, seeds = build("apart", "-pthread", "-static"), [f"{path}{i}" for i in range(5)]
for i, name in enumerate(seeds):
    code, out, err = run("env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", SPEX, "record", "-q",
                         "--deterministic", "--seed", str(i), "-o", name, "--", program)
    check(f"seed {i}: ends well", code == 0, err)
rows = [dict(r, sort=sort) for name in seeds[1:] for sort in ("dso", "tid", "symbol") for r in
        json.loads(spex("diff", "--sort", sort, "--format", "json", seeds[0], name)[1])["rows"]
        if max(r["samples_a"], r["samples_b"]) >= 20]
beyond = [r for r in rows if r["time_verdict"]]
check("two runs of a program with threads differ by noise", len(rows) > 20 and
      len(beyond) <= 0.05 * len(rows), (len(beyond), len(rows), beyond[:3]))
check("no interval has a width of zero", all(r["time_low"] < r["time_high"] for r in rows),
      [r for r in rows if r["time_low"] == r["time_high"]][:3])

code, out, err = spex("record", "--deterministic", "--model", "none", "--", program)
check("not without a model", code == 2 and "leave --model none out" in err, err)
done()
