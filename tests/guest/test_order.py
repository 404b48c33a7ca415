"""Threads in turns by modelled time: the same program gives the same answer and the same bytes, on one host CPU as on two,
though who gets a lock first decides what it prints."""
import json
import shutil
from guest import *

need_engine("threads in turns")
program = build("order", "-pthread", "-static")
answers, files = set(), set()
for i in range(6):
    alone = ["taskset", "-c", "0"] if i % 2 and shutil.which("taskset") else []
    path = os.path.join(WORK, "order.data")
    code, out, err = run(*alone, SPEX, "record", "-q", "--deterministic", "-c", "1024", "-o", path, "--", program)
    check(f"run {i}: ends well", code == 0, err)
    answers.add(out)
    files.add(open(path, "rb").read())
check("the same thread gets the lock each time", len(answers) == 1, answers)
check("the same bytes each time", len(files) == 1, len(files))
code, out, err = spex("report", "-i", path, "--sort", "tid", "--format", "json")
rows = json.loads(out)["rows"]
check("all threads are sampled, side by side in time", len([r for r in rows if r["samples"] > 10]) >= 5, rows)

code, out, err = spex("record", "--deterministic", "--model", "fast", "--", program)
check("not with the fast model", code == 2 and "--deterministic takes the full model" in err, err)
done()
