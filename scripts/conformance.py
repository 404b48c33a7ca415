"""Joins spec/requirements.tsv with the SPEC marks of tests that ran and
passed, and with the mutants.

Each requirement is one of:
  proven    a passing test marks it, and spec/mutants.tsv breaks it
            (`make mutate`: a marked test notices)
  tested    a passing test marks it; spec/reasons.tsv says why no mutant can be written
  reasoned  no test can show it; spec/reasons.tsv says why
  open      none of these
Usage: conformance.py [--write FILE] [--missing] BUILD... Prints the score per group; fails on
requirements that are open and on unknown ids.
"""
import argparse
import collections
import os
import sys
import textwrap

import tap

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def table(name):
    with open(os.path.join(ROOT, "spec", name)) as f:
        return [line.rstrip("\n").split("\t") for line in f][1:]


def score(builds, write=None, missing=False):
    rows, reasons = table("requirements.tsv"), dict(table("reasons.tsv"))
    mutants = collections.Counter(i for row in table("mutants.tsv")
                                  for i in row[0].split() if i != "-")
    good, marked = collections.defaultdict(set), set()
    for build in builds:
        for test in tap.tests(build):
            marked |= test.marks
            for ident in test.marks:
                if test.ok and not test.skipped:
                    good[ident].add(f"{test.program}: {test.name}")

    def state(ident):
        if ident in good and mutants[ident]:
            return "proven"
        return "open" if ident not in reasons else "tested" if ident in good else "reasoned"

    groups = collections.defaultdict(list)
    for row in rows:
        groups[row[0][:3]].append(row)
    counts = {name: collections.Counter(state(r[0]) for r in some) for name, some in groups.items()}
    for name, some in groups.items():
        c = counts[name]
        print(f"   {name}: {c['proven']} of {len(some)} proven by a mutant, "
              f"{c['tested']} tested without, "
              f"{c['reasoned']} reasoned, {c['open']} open")
    c = sum(counts.values(), collections.Counter())
    summary = (f"{c['proven']} of {len(rows)} requirements are proven by a mutant that a test "
               "of theirs notices, "
               f"{c['tested']} are tested without a mutant (reason given), {c['reasoned']} "
               "have a reason only, "
               f"{c['open']} are open.")
    print(f"   {summary}")
    if missing or c["open"]:
        for ident, _, kind, text in rows:
            if state(ident) == "open":
                why = "has no mutant" if ident in good else "no test"
                print(f"   open ({why}): {ident} [{kind}] {text}")
    unknown = (marked | set(reasons) | set(mutants)) - {row[0] for row in rows}
    for ident in sorted(unknown):
        print(f"   unknown requirement id: {ident}")
    if write:
        page(write, groups, good, reasons, mutants, summary)
    return not unknown and not c["open"]


def page(path, groups, good, reasons, mutants, summary):
    with open(os.path.join(ROOT, path), "w") as f:
        f.write("# Conformance\n")
        for paragraph in (
            "Made by `make conformance` from spec/requirements.tsv, the SPEC marks of tests that "
            "passed, spec/mutants.tsv and spec/reasons.tsv. Kinds: R rule, T table "
            "row, C choice that "
            "is configurable, U CONSTRAINED UNPREDICTABLE, S software. Mutants: in how many ways "
            "`make mutate` breaks it, each noticed by a test that marks it.", summary):
            f.write(f"\n{textwrap.fill(paragraph, 100)}\n")
        for name, rows in groups.items():
            f.write(f"\n## {name} ({rows[0][1]})\n\n| id | kind | requirement | mutants "
                    "| test or reason |\n"
                    "|---|---|---|---|---|\n")
            for ident, _, kind, text in rows:
                tests = sorted(good.get(ident, ()))
                proof = "; ".join(tests[:2]) + (f"; {len(tests) - 2} more" if len(tests) > 2
                                                else "")
                if not mutants[ident] and ident in reasons:
                    proof = f"{proof}; " * bool(proof) + "reason: " + reasons[ident]
                f.write(f"| {ident} | {kind} | {text.replace('|', '/')} | {mutants[ident] or ''} | "
                        f"{(proof or 'open').replace('|', '/')} |\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("--missing", action="store_true",
                        help="list what has neither test nor reason")
    parser.add_argument("builds", nargs="+")
    args = parser.parse_args()
    sys.exit(0 if score(args.builds, args.write, args.missing) else 1)
