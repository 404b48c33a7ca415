"""Branch coverage of the core (wire, record, arch, spu) by its own tests.

Usage: coverage.py [--no-run] [--write] BUILD

Builds without optimization and assertions, runs the core's tests and the replay of its fuzz corpora, and prints how
many lines and branches were taken. A line that is not reached, or not with all its branches, must stand in
spec/coverage.tsv with a reason: FILE, the line's text (white space aside), REASON; the reason "?" is one that waits for
a test or a reason, and is counted apart. Fails if one does not stand there, or if one that does is covered or gone.
--write brings the list up to date, with "?" for what is new.
"""
import json
import os
import subprocess
import sys

SUITES = ["wire", "record", "arch", "spu", "spu-proof"]
FUZZ = ["replay-packet", "replay-record", "replay-roundtrip", "replay-script", "replay-restore"]
SKIP = ["proof-model-1", "proof-model-2", "proof-statistics", "proof-pairs", "cross"]  # long, and nothing but repetition of the rest
MODULES = ["wire", "record", "arch", "spu"]
LIST = "spec/coverage.tsv"


def sh(*args, **kw):
    return subprocess.run(args, check=True, **kw)


def tests(build):
    out = sh("meson", "introspect", "--tests", build, capture_output=True, text=True).stdout
    return [t["name"] for t in json.loads(out)
            if t["name"] not in SKIP and (set(s.split(":")[-1] for s in t["suite"]) & set(SUITES) or t["name"] in FUZZ)]


def measure(build):
    """{(file, number): (text, reached, branches taken, branches)} of lines with code."""
    data = [os.path.join(root, name) for m in MODULES for root, _, names in os.walk(f"{build}/src/{m}")
            for name in names if name.endswith(".gcda")]
    reached, taken = {}, {}
    for path in data:
        out = sh("gcov", "--json-format", "--branch-probabilities", "--stdout", os.path.relpath(path, build), cwd=build,
                 capture_output=True, text=True).stdout
        for unit in out.splitlines():
            for f in json.loads(unit)["files"]:
                file = os.path.relpath(os.path.join(build, f["file"]))
                if not file.startswith(tuple(f"src/{m}/" for m in MODULES)):
                    continue
                for line in f["lines"]:  # one of a header, or of a macro, comes several times
                    key = file, line["line_number"]
                    reached[key] = reached.get(key, False) or line["count"] != 0
                    old = taken.setdefault((key, line.get("function_name", "")), [])
                    for i, b in enumerate(line["branches"]):
                        if i == len(old):
                            old.append(False)
                        old[i] = old[i] or b["count"] != 0
    lines = {}
    for (key, _), flags in taken.items():
        with_ = lines.get(key, (0, 0))
        lines[key] = with_[0] + sum(flags), with_[1] + len(flags)
    texts = {f: open(f).read().split("\n") for f in {k[0] for k in lines}}
    return {k: (" ".join(texts[k[0]][k[1] - 1].split()), reached[k], *v) for k, v in lines.items()}


def main():
    args = [a for a in sys.argv[1:] if not a.startswith("--")]
    build = args[0]
    if "--no-run" not in sys.argv:
        sh("scripts/configure", build, "gcc", "-Db_coverage=true", "-Dbuildtype=debug", "-Db_ndebug=true",
           "-Dc_args=-fprofile-update=atomic")  # several threads count
        sh("ninja", "-C", build, "--quiet")
        for root, _, names in os.walk(build):
            for name in names:
                if name.endswith(".gcda"):
                    os.unlink(os.path.join(root, name))
        p = subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "-t", "10", "--print-errorlogs", *tests(build)],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if p.returncode:
            print(p.stdout[-4000:])
            return 1
    lines = measure(build)
    known = {}
    if os.path.exists(LIST):
        for row in open(LIST).read().split("\n")[1:]:
            if row:
                file, text, reason = row.split("\t")
                known[file, text] = reason
    missing, used, failed = [], set(), False
    for (file, number), (text, reached, taken, branches) in sorted(lines.items()):
        if reached and taken == branches:
            continue
        key = file, text
        used.add(key)
        if key not in known:
            missing.append(key)
            failed = True
            what = f"{taken} of {branches} branches" if reached else "not reached"
            print(f"{file}:{number}: {what}, and no reason in {LIST}: {text}")
    for key in known:
        if key not in used:
            failed = True
            print(f"{LIST}: {key[0]}: covered or gone: {key[1]}")
    for module in MODULES + [""]:
        own = [v for k, v in lines.items() if k[0].startswith(f"src/{module}")]
        reached, taken, branches = sum(v[1] for v in own), sum(v[2] for v in own), sum(v[3] for v in own)
        print(f"{module or 'the core'}: {reached} of {len(own)} lines ({100 * reached / max(len(own), 1):.1f}%), "
              f"{taken} of {branches} branches ({100 * taken / max(branches, 1):.1f}%)")
    waiting = sum(known.get(k) == "?" for k in used)
    print(f"{len(used)} lines not covered in full: {len(used) - waiting - len(set(missing))} with a reason, {waiting} wait for a "
          f"test or a reason, {len(set(missing))} are not listed")
    if "--write" in sys.argv:
        rows = {k: v for k, v in known.items() if k in used}
        rows.update({k: "?" for k in missing if k not in rows})
        with open(LIST, "w") as f:
            f.write("file\ttext\treason\n" + "".join(f"{a}\t{b}\t{r}\n" for (a, b), r in sorted(rows.items())))
    return 1 if failed else 0


sys.exit(main())
