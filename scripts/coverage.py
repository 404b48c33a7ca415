"""Branch coverage of the core (wire, record, arch, spu) by its own tests.

Usage: coverage.py [--no-run] [--write] BUILD

Builds without optimization and assertions, runs the core's tests, the replay of its fuzz corpora
and a short part of the long proofs, and prints how many lines and branches were taken. A line that
is not reached, or not with all its branches, must stand in spec/coverage.tsv with a reason: FILE,
FUNCTION, the line's text (white space aside), REASON. Fails if one does not stand there or has "?"
for a reason, or if one that does is covered or gone. --write brings the list up to date, with "?"
for what is new; --no-run takes the counts of the last run.
"""
import json
import os
import subprocess
import sys

SUITES = ["wire", "record", "arch", "spu", "spu-proof"]
FUZZ = ["replay-packet", "replay-record", "replay-roundtrip", "replay-script", "replay-restore"]
# long; of some a part below
SKIP = ["proof-model-1", "proof-model-2", "proof-statistics", "proof-pairs", "cross"]
# of tests/spu-proof: seed, how much
SHORT = [["test-model", "1", "300", "1000"], ["test-pairs", "1", "300"]]
MODULES = ["wire", "record", "arch", "spu"]
LIST = "spec/coverage.tsv"


def sh(*args, **kw):
    return subprocess.run(args, check=True, **kw)


def tests(build):
    """Arguments for meson: names, and the suites of others that have such a name, too."""
    out = sh("meson", "introspect", "--tests", build, capture_output=True, text=True).stdout
    all_ = [(t["name"], {s.split(":")[-1] for s in t["suite"]}) for t in json.loads(out)]
    ours = [(name, suites) for name, suites in all_ if name not in SKIP and
            (suites & set(SUITES) or name in FUZZ)]
    names, kept = {name for name, _ in ours}, set().union(*(suites for _, suites in ours))
    others = set().union(*(suites for name, suites in all_ if name in names)) - kept
    return sorted(names) + [f"--no-suite={suite}" for suite in sorted(others)]


def measure(build):
    """{(file, function, number): (text, reached, [taken or not, of each
    branch])} of lines with code."""
    data = [os.path.join(root, name) for m in MODULES
            for root, _, names in os.walk(f"{build}/src/{m}")
            for name in names if name.endswith(".gcda")]
    reached, taken = {}, {}
    for path in data:
        out = sh("gcov", "--json-format", "--branch-probabilities", "--stdout",
                 os.path.relpath(path, build), cwd=build, capture_output=True, text=True).stdout
        for unit in out.splitlines():
            for f in json.loads(unit)["files"]:
                file = os.path.relpath(os.path.realpath(os.path.join(build, f["file"])))
                if not file.startswith(tuple(f"src/{m}/" for m in MODULES)):
                    continue
                for line in f["lines"]:  # one of a header comes several times
                    key = file, line.get("function_name", ""), line["line_number"]
                    reached[key] = reached.get(key, False) or line["count"] != 0
                    old = taken.setdefault(key, [])
                    for i, b in enumerate(line["branches"]):
                        if i == len(old):
                            old.append(False)
                        old[i] = old[i] or b["count"] != 0
    texts = {f: open(f).read().split("\n") for f in {k[0] for k in taken}}
    return {k: (" ".join(texts[k[0]][k[2] - 1].split()), reached[k], v) for k, v in taken.items()}


def main():
    args = [a for a in sys.argv[1:] if not a.startswith("--")]
    build = args[0]
    if "--no-run" not in sys.argv:
        sh("scripts/configure", build, "gcc", "-Db_coverage=true", "-Dbuildtype=debug",
           "-Db_ndebug=true", "-Dc_args=-fprofile-update=atomic")  # several threads count
        sh("ninja", "-C", build, "--quiet")
        for root, _, names in os.walk(build):
            for name in names:
                if name.endswith(".gcda"):
                    os.unlink(os.path.join(root, name))
        p = subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "-t", "10",
                            "--print-errorlogs", *tests(build)],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if p.returncode:
            print(p.stdout[-4000:])
            return 1
        for name, *rest in SHORT:
            sh(f"{build}/tests/spu-proof/{name}", *rest, stdout=subprocess.DEVNULL)
    lines = measure(build)
    known = {}
    if os.path.exists(LIST):
        for row in open(LIST).read().split("\n")[1:]:
            if row:
                file, function, text, reason = row.split("\t")
                known[file, function, text] = reason
    missing, used, failed = [], set(), False
    for (file, function, number), (text, reached, taken) in sorted(lines.items()):
        if reached and all(taken):
            continue
        key = file, function, text
        used.add(key)
        if known.get(key, "?") != "?":
            continue
        missing.append(key)
        failed = True
        what = "not reached" if not reached else "not taken of %d branches: %s" % (
            len(taken), " ".join(str(i) for i, t in enumerate(taken) if not t))
        print(f"{file}:{number}: {function}: {what}, and no reason in {LIST}: {text}")
    for key in known:
        if key not in used:
            failed = True
            print(f"{LIST}: {key[0]}: {key[1]}: covered or gone: {key[2]}")
    for module in MODULES + [""]:
        own = [v for k, v in lines.items() if k[0].startswith(f"src/{module}")]
        reached = sum(v[1] for v in own)
        taken, branches = sum(sum(v[2]) for v in own), sum(len(v[2]) for v in own)
        print(f"{module or 'the core'}: {reached} of {len(own)} lines "
              f"({100 * reached / max(len(own), 1):.1f}%), "
              f"{taken} of {branches} branches ({100 * taken / max(branches, 1):.1f}%)")
    print(f"{len(used)} lines not covered in full: {len(used) - len(set(missing))} with a reason, "
          f"{len(set(missing))} without")
    if "--write" in sys.argv:
        rows = {k: v for k, v in known.items() if k in used}
        rows.update({k: "?" for k in missing if k not in rows})
        with open(LIST, "w") as f:
            f.write("file\tfunction\ttext\treason\n" +
                    "".join("\t".join(k) + f"\t{r}\n" for k, r in sorted(rows.items())))
    return 1 if failed else 0


sys.exit(main())
