"""The classifier against disassemblers: every instruction of libc, and random words."""
import os, random, struct, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
sys.path.insert(0, os.path.dirname(__file__))
from support.tap import *
import a64_compare

# Random words for each tool; `test_a64.py 4000000` is the long run.
COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 60000
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
DUMP = os.path.join(BUILD, "tests/a64/a64-dump")
LIBC = "/usr/aarch64-linux-gnu/lib/libc.so.6"


def text_section(path):
    out = subprocess.run(["aarch64-linux-gnu-readelf", "-SW", path], stdout=subprocess.PIPE,
                         check=True).stdout.decode()
    for line in out.splitlines():
        f = line.replace("[ ", "[").split()
        if len(f) > 5 and f[1] == ".text":
            offset, size = int(f[4], 16), int(f[5], 16)
            with open(path, "rb") as b:
                b.seek(offset)
                return struct.unpack(f"<{size // 4}I", b.read(size // 4 * 4))


def report(name, tally):
    check(name, not tally.unexplained, f"{len(tally.unexplained)} differences\n" +
          "\n".join(tally.unexplained[:40]))
    loose = sorted(tally.loose_rows.items(), key=lambda x: -x[1])[:6]
    print(f"# {tally.judged} judged, {tally.explained} explained differences, "
          f"{tally.unknown} not known to "
          f"the tool of which {tally.loose} classified: " + ", ".join(f"{n} {c}" for n, c in loose))


known = a64_compare.known_differences(os.path.join(os.path.dirname(__file__), "a64_known.tsv"))
tools = ["gnu"] + (["llvm"] if a64_compare.llvm() else [])
for tool in ("gnu", "llvm"):
    label = f"LLVM {a64_compare.llvm()[1]}" if tool == "llvm" and a64_compare.llvm() else "binutils"
    if tool not in tools:
        skip(f"random words, {tool}", "no llvm-objdump")
        continue
    if os.path.exists(LIBC):
        words = sorted(set(text_section(LIBC)))
        tally = a64_compare.Tally(known)
        tally.add(tool, words, DUMP)
        report(f"every instruction of libc.so.6, {label}", tally)
        check(f"libc: nearly all words known, {label}", tally.judged > 0.99 * len(words) > 20000,
              tally.judged)
    newest = tool == "llvm" and a64_compare.llvm()[1] >= 22  # older ones lack whole extensions
    rng = random.Random(SEED)
    tally = a64_compare.Tally(known)
    left = COUNT
    while left > 0:
        n = min(left, 1000000)
        tally.add(tool, [rng.getrandbits(32) for _ in range(n)], DUMP)
        left -= n
    report(f"{COUNT} random words, {label}", tally)
    check(f"random: the tool knows a third of the words, {label}", tally.judged > 0.3 * COUNT,
          tally.judged)
    check(f"random: at most 4% of unknown words are classified, {label}",
          tally.loose < 0.04 * tally.unknown or not newest, tally.loose)
done()
