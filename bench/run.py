"""Runs every benchmark in one go and prints one table of ratios.

A benchmark is a program build/bench/bench-* or a script bench/bench_*.py. It prints lines
'name<TAB>value<TAB>unit<TAB>ratio<TAB>against': ratio is taken against something measured in the
same run (machines are shared and noisy; a ratio is what lasts). Nothing fails by time.
Writes bench/results.json. See bench/README.md for what each number means.
"""
import argparse
import glob
import json
import os
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default="", help="benchmarks whose name contains this")
    args = parser.parse_args()
    build = os.path.join(ROOT, args.build)
    jobs = [[p] for p in sorted(glob.glob(os.path.join(build, "bench", "bench-*"))) if os.access(p, os.X_OK)
            and os.path.isfile(p)]
    jobs += [[sys.executable, p] for p in sorted(glob.glob(os.path.join(ROOT, "bench", "bench_*.py")))]
    env = dict(os.environ, SPEX_BUILD=build, SPEX_SOURCE=ROOT)
    rows = []
    for job in jobs:
        name = os.path.basename(job[-1])
        if args.only not in name:
            continue
        print(f"# {name}", file=sys.stderr, flush=True)
        p = subprocess.run(job, stdout=subprocess.PIPE, text=True, env=env)
        for line in p.stdout.splitlines():
            cells = line.split("\t")
            if len(cells) >= 3:
                cells += [""] * (5 - len(cells))
                rows.append(dict(zip(("name", "value", "unit", "ratio", "against"), cells), bench=name))
        if p.returncode:
            rows.append({"bench": name, "name": name, "value": f"exit {p.returncode}", "unit": "",
                         "ratio": "", "against": ""})
    width = [max([len(r[k]) for r in rows] + [4]) for k in ("name", "value", "unit", "ratio")]
    for r in rows:
        print(f"{r['name']:<{width[0]}}  {r['value']:>{width[1]}} {r['unit']:<{width[2]}}  "
              f"{r['ratio']:>{width[3]}}  {r['against']}")
    with open(os.path.join(ROOT, "bench", "results.json"), "w") as f:
        json.dump(rows, f, indent=1)
        f.write("\n")


main()
