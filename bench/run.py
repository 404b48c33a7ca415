"""Runs every benchmark in one go and prints one table of values, ratios and goals.

A benchmark is a program build/bench/bench-* or a script bench/bench_*.py. It prints lines
'name<TAB>value<TAB>unit<TAB>ratio<TAB>against': ratio is taken against something measured in the
same run (machines are shared and noisy; a ratio is what lasts). bench/marks.tsv has the goals by
row name. Nothing fails by time. Writes bench/results.json. See bench/README.md for what each
number means.
"""
import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
COLUMNS = ("name", "value", "unit", "ratio", "against")


def read_marks():
    """{row: [(value or ratio, >= or <=, number)]}"""
    marks = {}
    with open(os.path.join(ROOT, "bench", "marks.tsv")) as f:
        for line in f.read().splitlines()[1:]:
            name, what, order, number = line.split("\t")[:4]
            marks.setdefault(name, []).append((what, order, float(number)))
    return marks


def judge(row, marks):
    """The goals of a row as text, and whether each is reached."""
    goals, reached = [], []
    for what, order, number in marks.get(row["name"], []):
        try:
            found = float(row[what])
        except ValueError:
            continue  # nothing to compare with, such as no perf
        goals.append(f"{'ratio ' if what == 'ratio' else ''}{order} {number:g}")
        reached.append(found >= number if order == ">=" else found <= number)
    row["goal"] = ", ".join(goals)
    row["reached"] = "" if not goals else "reached" if all(reached) else "NOT REACHED"


def run(job, env):
    name = os.path.basename(job[-1])
    start = time.monotonic()
    print(f"# {name}", end="", file=sys.stderr, flush=True)
    p = subprocess.run(job, stdout=subprocess.PIPE, text=True, env=env)
    print(f"  {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    rows = [dict(zip(COLUMNS, (line.split("\t") + [""] * 5)[:5]), bench=name)
            for line in p.stdout.splitlines() if line.count("\t") >= 2]
    if p.returncode:
        rows.append(dict(dict.fromkeys(COLUMNS, ""), bench=name, name=name,
                         value=f"exit {p.returncode}"))
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default="", help="benchmarks whose name contains this")
    args = parser.parse_args()
    build = os.path.join(ROOT, args.build)
    jobs = [[p] for p in sorted(glob.glob(os.path.join(build, "bench", "bench-*")))
            if os.access(p, os.X_OK) and os.path.isfile(p)]
    jobs += [[sys.executable, p]
             for p in sorted(glob.glob(os.path.join(ROOT, "bench", "bench_*.py")))]
    jobs = [job for job in jobs if args.only in os.path.basename(job[-1])]
    if not jobs:
        sys.exit(f"no benchmark's name contains '{args.only}'")
    env = dict(os.environ, SPEX_BUILD=build, SPEX_SOURCE=ROOT)
    marks = read_marks()
    rows = [row for job in jobs for row in run(job, env)]
    for row in rows:
        judge(row, marks)
    shown = ("name", "value", "unit", "ratio", "goal", "reached")
    width = {k: max(len(r[k]) for r in rows + [dict.fromkeys(shown, "") | {"name": "row"}])
             for k in shown}
    for r in [{"name": "row", "value": "value", "unit": "", "ratio": "ratio", "goal": "goal",
               "reached": "", "against": "ratio is against"}] + rows:
        print(f"{r['name']:<{width['name']}}  {r['value']:>{max(5, width['value'])}} "
              f"{r['unit']:<{width['unit']}}  "
              f"{r['ratio']:>{max(5, width['ratio'])}}  {r['goal']:<{width['goal']}}  "
              f"{r['reached']:<{width['reached']}}"
              f"  {r['against']}".rstrip())
    goals = [r for r in rows if r["goal"]]
    print(f"\n{sum(r['reached'] == 'reached' for r in goals)} of {len(goals)} rows "
          "with a goal reach it")
    if not shutil.which("perf"):
        print("perf is not installed: rows that compare with it have no ratio")
    with open(os.path.join(ROOT, "bench", "results.json"), "w") as f:
        json.dump(rows, f, indent=1)
        f.write("\n")


main()
