"""Clocks under --deterministic say modelled time: the same in each run, whatever the host does."""
import subprocess

from guest import *

need_engine("modelled clocks")
program = build("clocks", "-pthread", "-static")
TIMES, LOAD = 4, 3
NAP = 20000000  # ns


def once(*options):
    code, out, err = spex("record", "-q", "--deterministic", *options, "-o",
                          os.path.join(WORK, "perf.data"), "--", program)
    check("the program runs", code == 0, err)
    return out.decode()


def numbers(out):
    return {name: int(value) for name, value in (line.split() for line in out.splitlines())}


first = once()
says = numbers(first)
busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.nice(19))
        for _ in range(LOAD)]
try:
    answers = {first, *(once() for _ in range(TIMES - 1))}
finally:
    for process in busy:
        process.kill()
equal("all clocks say the same in each run", answers, {first})
check("they begin with the run, and with a date of ours",
      10**9 <= says["start"] < 1.01 * 10**9 and 1704067200 * 10**9 < says["date"] <
      1704067260 * 10**9, says)
exact = numbers(once("--model", "full"))
work = exact["monotonic-work"]
# Far from samples time is estimated, and this work has seven.
for model, said, most in (("full", exact, 0.02), ("sampled", says, 0.3)):
    check(f"work takes as long by each clock, and as the counter says, {model}",
          50000 < work < 10**6 and all(abs(said[f"{clock}-work"] / work - 1) < most
                                       for clock in ("wall", "monotonic", "process", "thread")) and
          abs(said["counter-ns"] / work / 2 - 1) < most + 0.08, said)
for clock, least in (("wall", NAP), ("monotonic", NAP), ("process", 0), ("thread", 0)):
    for how in ("nap", "until"):
        check(f"sleep ({how}) by the {clock} clock", least <= says[f"{clock}-{how}"] < least + 5000,
              says)
check("gettimeofday, sysinfo and times go with them, getrusage with CPU time",
      0 <= says["day"] < 3000 and says["up"] == 1 and
      says["ticks"] == (says["date"] - 1704067200 * 10**9) // 10**7 + 100 and says["load"] == 0 and
      1000 < says["usage"] < 10000 and says["usage-rest"] == 0 and says["ticks-used"] == 0, says)
check("timers that are set to a time go off then",
      re.findall(r"timer (\d+)\nfar (\d+)", first) == [("0", "1")] * 2, first)
check("clock_getres: coarse clocks are not", says["resolution"] == 1)
check("time does not go back from one thread to another", says["back"] == 0)
check("the time of the process is that of its threads that ran",
      says["usage"] * 1000 < says["process"] < says["all"], says)
done()
