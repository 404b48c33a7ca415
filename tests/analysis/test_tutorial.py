"""Runs docs/tutorial.md: each command line, in order; compares its output with what the page shows.

Threads never meet in quite the same way twice, so the words are compared, not the numbers; what
the page claims about these is checked below. SPEX_UPDATE_TUTORIAL=1 writes the output into the
page."""
import re
from common import *

PAGE = f"{SOURCE}/docs/tutorial.md"
if not shutil.which("aarch64-linux-gnu-gcc") or not shutil.which("qemu-aarch64") \
        or b"__asan_init" in open(SPEX, "rb").read():
    skip("tutorial", "needs the cross compiler, qemu-aarch64 and a build without sanitizer")
    done()

os.makedirs(f"{DIR}/examples")
shutil.copy(f"{SOURCE}/examples/readings.c", f"{DIR}/examples")
os.symlink(SPEX, f"{DIR}/spex")
ENV = {"COLUMNS": "100", "HOME": DIR, "PATH": f"{DIR}:{os.environ['PATH']}"}


def words(text):
    """Without what explains marks that one sample more or less brings."""
    text = re.sub(r"^# ~:.*\n(#   .*\n)*", "", text, flags=re.M)
    return set(re.findall(r"[A-Za-z_]{3,}", re.sub(r"LLVM \d+|\S*objdump", "", text)))


new = []
fence = command = None
for line in open(PAGE).read().splitlines(keepends=True) + ["```\n"]:
    if command and (line.startswith("```") or line.startswith("$ ")):
        # the command and the output that the page shows are complete: run it
        p = subprocess.run(["sh", "-c", command[2:]], cwd=DIR, env={**os.environ, **ENV},
                           stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        check(f"{command.strip()} succeeds", p.returncode == 0, p.stdout)
        if not os.environ.get("SPEX_UPDATE_TUTORIAL"):
            a, b = words(shown), words(p.stdout)
            check(f"{command.strip()} prints what the page shows",
                  len(a & b) >= 0.85 * max(len(a), len(b)),
                  f"got:\n{p.stdout}\npage:\n{shown}\n{a ^ b}")
        new += [command, p.stdout]
        command = None
    if line.startswith("```"):
        fence = None if fence else line.strip()
        new.append(line)
    elif fence == "```" and line.startswith("$ "):
        command, shown = line, ""
    elif command:
        shown += line
    else:
        new.append(line)
if os.environ.get("SPEX_UPDATE_TUTORIAL"):
    open(PAGE, "w").write("".join(new[:-1]))

# ---- what the page claims ----
def ask(command, file, *args):
    return data(command, file, *args, symbols=False)

before = {r["symbol"]: r for r in ask("report", "before.data")["rows"]}
after = {r["symbol"]: r for r in ask("report", "after.data")["rows"]}
step2 = {r["symbol"]: r for r in ask("report", "step2.data")["rows"]}
check("tally's slow loads come from the other core", before["tally"]["from_peer_core"] > 20,
      before["tally"])
lines = [l for l in ask("c2c", "before.data")["lines"] if l["score"] >= 0.1]
equal("one falsely shared line, the counters", [(l["kind"], l["data"]) for l in lines],
      [("false", "seen")])
check("padded: none", not [l for l in ask("c2c", "step1.data")["lines"] if l["score"] >= 0.1])
check("tally: most of the time", before["tally"]["time"] > 0.5, before["tally"])
check("sum_by_sensor: small share, long latencies, every load misses",
      before["sum_by_sensor"]["share"] < 0.25 and before["sum_by_sensor"]["latency_p95"] > 50 and
      before["sum_by_sensor"]["l1_miss"] > 0.95 and before["sum_by_sensor"]["tlb_walk"] > 0.9,
      before["sum_by_sensor"])
check("turned around: it does not", step2["sum_by_sensor"]["l1_miss"] < 0.1, step2["sum_by_sensor"])
worst = ask("branch", "step2.data")["branches"][0]
check("collect_above: every second branch is mispredicted",
      worst["symbol"] == "collect_above" and 0.3 < worst["ratio"] < 0.6, worst)
check("without the branch: none", after["collect_above"]["mispredict"] < 0.02,
      after["collect_above"])
span = [ask("report", f)["totals"] for f in ("before.data", "after.data")]
times = [t["last_time"] - t["first_time"] for t in span]
check("less than a third of the time", times[1] < times[0] / 2.5, times)
check("and more operations", span[1]["records"] > span[0]["records"], span)
done()
