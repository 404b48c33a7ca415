"""What the full model says of whole programs on each preset: a table of docs/validation.md.

Usage: validate_programs.py BUILD ROOT [--write FILE] [--cpu NAME ...]

ROOT has Debian's bzip2, zstd, gawk, cc1 of gcc and sqlite3 for arm64 (scripts/fetch-debs). Their
input is made up here and the same each time, so a reader with the hardware can count the same with
perf stat: --keep DIR leaves it there, with the commands.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
MARK = "<!-- programs: scripts/validate_programs.py -->\n"
SQL = ("create table t(a integer primary key, b, c); insert into t with recursive n(i) as "
       "(select 1 union all select i + 1 from n where i < 20000) "
       "select i, i * 7919 % 20011, 'row ' || i from n; create index x on t(b); "
       "select count(*), sum(a.b) from t a join t b on a.a = b.b where a.c like '%7%';")
AWK = "{for (i = 1; i <= NF; i++) n[$i]++} END {for (w in n) if (n[w] > m) m = n[w]; print m}"


def words(count):
    """Text of made-up words, few of them often and many seldom."""
    state, vocabulary, line = 1, [], []
    for i in range(4096):
        state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        vocabulary.append("".join(chr(97 + (state >> 8 * k & 255) % 26) for k in range(2 + i % 9)))
    for i in range(count):
        state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        line.append(vocabulary[int(4096 ** ((state >> 33) / 2 ** 31)) - 1])
        if i % 12 == 11:
            yield " ".join(line) + "\n"
            line = []


def functions(count):
    yield "extern int sink(const int *, int);\n"
    for i in range(count):
        yield (f"int f{i}(int *p, int n)\n{{\n    int s = {i};\n"
               "    for (int i = 0; i < n; i++) {\n"
               f"        if (p[i] > s + {i % 7})\n            s += p[i] * {i % 13 + 3};\n"
               f"        else\n            p[i] ^= s >> {i % 5};\n    }}\n"
               "    switch (n % 5) {\n    case 0: return s;\n    case 1: return sink(p, s);\n"
               "    case 2: return s / (n + 1);\n    default: return p[n % 4];\n    }\n}\n")


def commands(root, folder):
    """{name: argv}, with their input in the folder."""
    text, source = os.path.join(folder, "text"), os.path.join(folder, "source.c")
    open(text, "w").writelines(words(60000))
    open(source, "w").writelines(functions(6))
    at = lambda path: os.path.join(root, path)
    cc1 = at("usr/lib/gcc/aarch64-linux-gnu/12/cc1")
    return {"bzip2 -c": [at("bin/bzip2"), "-c", text],
            "zstd -c": [at("usr/bin/zstd"), "-q", "-c", "--single-thread", text],
            "gawk": [at("usr/bin/gawk"), AWK, text],
            "gcc -O2": [cc1, "-quiet", "-O2", source, "-o", os.path.join(folder, "out.s")],
            "sqlite3": [at("usr/bin/sqlite3"), ":memory:", SQL]}


def count(spex, root, cpu, argv):
    p = subprocess.run([spex, "stat", "--engine", "qemu", "--model", "full", "--cpu", cpu,
                        "-L", root, "--format", "json", "--", *argv],
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    start = p.stderr.find("{")
    if p.returncode or start < 0:
        sys.exit(f"validate_programs: {cpu}: {argv[0]}: {p.stderr}")
    return {c["name"]: c["value"] for c in json.loads(p.stderr[start:])["counters"]}


def row(name, cpu, n):
    each = lambda key: f"{1000 * n.get(key, 0) / n['operations']:.3g}"
    cpi = (n["cycles"] - n.get("kernel-cycles", 0)) / n["operations"]
    return (f"| {name} | {cpu} | {n['operations'] / 1e6:.1f} | {cpi:.2f} | {each('mispredicts')} | "
            f"{each('l1i-misses')} | {each('l1d-misses')} | {each('l2-misses')} | "
            f"{each('tlb-walks')} |\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("root")
    parser.add_argument("--write", metavar="FILE", help="the page whose last table this is")
    parser.add_argument("--cpu", action="append", help="these presets only")
    parser.add_argument("--program", action="append", help="these programs only: first words")
    parser.add_argument("--keep", metavar="DIR", help="leave the input there, and say the commands")
    args = parser.parse_args()
    spex = os.path.join(os.path.realpath(args.build), "spex")
    cpus = args.cpu or sorted(f[:-4] for f in os.listdir(os.path.join(ROOT, "share", "cpus"))
                              if f != "neoverse-n1-r3.cpu")
    table = ("| program | core | million instructions | cycles each | mispredicted | L1I misses | "
             "L1D misses | L2 misses | walks |\n|---|---|---|---|---|---|---|---|---|\n")
    with tempfile.TemporaryDirectory() as folder:
        if args.keep:
            os.makedirs(args.keep, exist_ok=True)
        for name, argv in commands(os.path.realpath(args.root), args.keep or folder).items():
            if args.program and name.split()[0] not in args.program:
                continue
            if args.keep:
                print(shlex.join(argv))
            for cpu in cpus:
                line = row(name, cpu, count(spex, args.root, cpu, argv))
                print(line, end="", flush=True)
                table += line
    if args.write:
        page = open(args.write).read()
        before, mark, after = page.partition(MARK)
        rest = after[after.index("\n\n") + 1:] if mark else ""
        with open(args.write, "w") as f:
            f.write(before + MARK + table + rest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
