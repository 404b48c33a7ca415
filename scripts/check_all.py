"""Every long target in turn, with a log of each and one table at the end.

Usage: check_all.py BUILD [TARGET...]. Logs and results are in BUILD/check-all. What has passed on
the commit that is checked out is not run again, so that a run that was cut goes on where it was;
--again runs everything, --table prints the table of the last results alone, --write puts it into
docs/testing.md.
"""
import json
import os
import re
import subprocess
import sys
import time

TARGETS = ["check", "check-threads", "check-races", "check-programs", "check-turns", "check-model",
           "check-html", "check-exec", "check-perf", "perf-check", "check-faults", "check-feeds",
           "check-fleet", "check-pgo", "check-vm", "check-engines", "check-ports", "check-deb",
           "mutate", "validate"]


def commit():
    """The commit, with a mark if files differ from it."""
    run = lambda *words: subprocess.run(["git", *words], capture_output=True, text=True).stdout
    return run("rev-parse", "--short", "HEAD").strip() + ("+" if run("status", "--porcelain") else
                                                          "")


def counts(text):
    """(passed, failed, skipped) as the target's output says; None where it does not."""
    m = re.findall(r"^(\d+) passed, (\d+) failed, (\d+) skipped", text, re.M)
    if m:
        return [sum(int(x[i]) for x in m) for i in range(3)]
    passed = sum(int(n) for n in re.findall(r"\bOK .* (\d+) subtests passed", text))
    failed = len(re.findall(r"^not ok ", text, re.M))
    return [passed, failed, None] if passed or failed else [None, None, None]


def run_target(target, folder):
    log = os.path.join(folder, f"{target}.log")
    start = time.time()
    print(f"{target}: running; its output goes to {log}", flush=True)
    with open(log, "w") as out:
        code = subprocess.run(["make", target], stdout=out, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL).returncode
    passed, failed, skipped = counts(open(log, errors="replace").read())
    result = {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "exit": code,
              "passed": passed, "failed": failed, "skipped": skipped,
              "minutes": round((time.time() - start) / 60, 1)}
    print(f"{target}: {'passed' if not code else 'FAILED, see ' + log}, "
          f"{result['minutes']} min", flush=True)
    return result


def table(results):
    rows = ["| target | result | passed | failed | skipped | minutes | commit | date |",
            "|---|---|---|---|---|---|---|---|"]
    for target in TARGETS:
        if target not in results:
            rows.append(f"| `{target}` | not run | | | | | | |")
            continue
        r = results[target]
        cell = lambda key: "" if r[key] is None else f"{r[key]:,}"
        rows.append(f"| `{target}` | {'fails' if r['exit'] else 'passes'} | {cell('passed')} | "
                    f"{cell('failed')} | {cell('skipped')} | {r['minutes']} | {r['commit']} | "
                    f"{r['date']} |")
    return "\n".join(rows) + "\n"


def write(text):
    """The table of docs/testing.md."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../docs/testing.md")
    begin, end = "<!-- table: scripts/check_all.py --write -->\n", "<!-- end of table -->\n"
    with open(path) as f:
        before, _, rest = f.read().partition(begin)
    with open(path, "w") as f:
        f.write(before + begin + text + end + rest.partition(end)[2])


def main():
    build, *words = sys.argv[1:]
    again, only_table = "--again" in words, "--table" in words or "--write" in words
    chosen = [w for w in words if not w.startswith("--")] or TARGETS
    unknown = [w for w in chosen if w not in TARGETS]
    if unknown:
        sys.exit(f"check-all: no such target: {', '.join(unknown)} (of {', '.join(TARGETS)})")
    folder = os.path.join(build, "check-all")
    os.makedirs(folder, exist_ok=True)
    file = os.path.join(folder, "results.json")
    results = json.load(open(file)) if os.path.exists(file) else {}
    for target in chosen if not only_table else ():
        last = results.get(target)
        if last and not last["exit"] and last["commit"] == commit() and not again:
            print(f"{target}: passed on {last['commit']} before", flush=True)
            continue
        results[target] = run_target(target, folder)
        with open(file + ".new", "w") as f:
            json.dump(results, f, indent=1)
        os.replace(file + ".new", file)
    print(table(results), end="")
    if "--write" in words:
        write(table(results))
    return any(results[t]["exit"] for t in chosen if t in results)


if __name__ == "__main__":
    sys.exit(main())
