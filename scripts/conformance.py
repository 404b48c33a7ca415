"""Joins spec/requirements.tsv with the SPEC marks of tests that ran and passed.

Usage: conformance.py [--write FILE] [--missing] BUILD... Prints the score per group and fails on
unknown ids. spec/reasons.tsv holds what no software test can show, each with its reason.
"""
import argparse
import collections
import os
import sys

import tap

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def table(name):
    with open(os.path.join(ROOT, "spec", name)) as f:
        return [line.rstrip("\n").split("\t") for line in f][1:]


def score(builds, write=None, missing=False):
    rows, reasons = table("requirements.tsv"), dict(table("reasons.tsv"))
    good, marked = collections.defaultdict(set), set()
    for build in builds:
        for test in tap.tests(build):
            marked |= test.marks
            for ident in test.marks:
                if test.ok and not test.skipped:
                    good[ident].add(f"{test.program}: {test.name}")
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row[0][:3]].append(row)
    tested = lambda some: sum(r[0] in good for r in some)
    reasoned = lambda some: sum(r[0] in reasons and r[0] not in good for r in some)
    for name, some in groups.items():
        print(f"   {name}: {tested(some)} of {len(some)} tested, {reasoned(some)} reasoned")
    n, t, r = len(rows), tested(rows), reasoned(rows)
    print(f"   all: {t} of {n} tested ({100 * t / n:.1f}%), {r} reasoned, {n - t - r} open")
    if missing:
        for ident, _, kind, text in rows:
            if ident not in good and ident not in reasons:
                print(f"   open: {ident} [{kind}] {text}")
    unknown = (marked | set(reasons)) - {row[0] for row in rows}
    for ident in sorted(unknown):
        print(f"   unknown requirement id: {ident}")
    if write:
        page(write, groups, good, reasons, f"{t} of {n} requirements are tested, {r} have a reason, "
             f"{n - t - r} are open.")
    return not unknown


def page(path, groups, good, reasons, summary):
    with open(os.path.join(ROOT, path), "w") as f:
        f.write("# Conformance\n\nMade by `make conformance` from spec/requirements.tsv, the SPEC marks "
                "of tests that passed, and spec/reasons.tsv.\nKinds: R rule, T table row, C choice that "
                f"is configurable, U CONSTRAINED UNPREDICTABLE, S software.\n\n{summary}\n")
        for name, rows in groups.items():
            f.write(f"\n## {name} ({rows[0][1]})\n\n| id | kind | requirement | test or reason |\n"
                    "|---|---|---|---|\n")
            for ident, _, kind, text in rows:
                tests = sorted(good.get(ident, ()))
                proof = "; ".join(tests[:2]) + (f"; {len(tests) - 2} more" if len(tests) > 2 else "")
                proof = proof or ("reason: " + reasons[ident] if ident in reasons else "open")
                f.write(f"| {ident} | {kind} | {text.replace('|', '/')} | {proof.replace('|', '/')} |\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("--missing", action="store_true", help="list what has neither test nor reason")
    parser.add_argument("builds", nargs="+")
    args = parser.parse_args()
    sys.exit(0 if score(args.builds, args.write, args.missing) else 1)
