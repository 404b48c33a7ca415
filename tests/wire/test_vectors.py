"""Bytes published with their decoding: each packet at its offset, with its text."""
import glob, json, os, re, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

VECTORS = os.path.join(SOURCE, "tests/vectors")

# Published text is of several perf versions. What older ones left out of perf 6.1's text:
def older(text):
    yield text
    yield re.sub(r"^(LD|ST) GP-REG$", r"\1", text)                  # before 5.10: no subclass
    yield re.sub(r"^OTHER INSN-OTHER$", "INSN-OTHER", text)
    yield re.sub(r" ch=\d pat=\d$", "", text)                       # before 5.11: PA without tag


STYLE = {"leo_other_ase": "perf-7"}

for path in sorted(glob.glob(VECTORS + "/*.txt")):
    name = os.path.basename(path)[:-4]
    want = []
    with open(path) as f:
        for line in f:
            m = re.match(r"([0-9a-f]{8})  ((?:[0-9a-f]{2} )+) *(\S.*)$", line)
            if m:
                want.append((int(m[1], 16), bytes.fromhex(m[2]), m[3]))
    spe = os.path.join(VECTORS, name + ".spe")
    with open(spe, "rb") as f:
        data = f.read()
    check(f"{name}: text and bytes agree", b"".join(w[1] for w in want) == data)
    code, out, err = spex("dump", "--raw", "--style", STYLE.get(name, "perf"), spe)
    got = []
    for line in out.decode().splitlines():
        m = re.match(r"\.  ([0-9a-f]{8}): ((?: [0-9a-f]{2})+) +(\S.*)$", line)
        got.append((int(m[1], 16), bytes.fromhex(m[2]), m[3]))
    wrong = [(g, w) for g, w in zip(got, want) if g[:2] != w[:2] or w[2] not in older(g[2])]
    check(f"{name}: {len(want)} packets as published", not wrong and len(got) == len(want) and
          code == 0, wrong[:3] or f"{len(got)} packets {err}")

# The two WindowsPerf records have no published text; their layout is known.
for name, closing in (("spe-b1-ts0", (63, "end")), ("spe-b1-ts1", (55, "timestamp"))):
    code, out, err = spex("dump", "--raw", "--format", "json", f"{VECTORS}/{name}.spe")
    packets = [json.loads(l) for l in out.splitlines()]
    seen = [(p["offset"], p["packet"]) for p in packets if p["packet"] != "padding"]
    equal(f"{name}: a branch record of 64 bytes", seen,
          [(0, "address"), (19, "operation-type"), (21, "events"), (24, "counter"),
           (27, "counter"), (30, "address"), closing])
# packets.json: what other decoders test with
import json
code, made, err = run(os.path.join(BUILD, "tests/wire/packets-json"))
stored = open(os.path.join(SOURCE, "tests/vectors/packets.json"), "rb").read()
check("packets.json is what the tables say", made == stored,
      "run build/tests/wire/packets-json > tests/vectors/packets.json")
wrong = []
rows = json.loads(stored)
stream = b"".join(bytes.fromhex(r["bytes"]) for r in rows)
code, out, err = spex("dump", "--raw", "--format", "json", "-", stdin=stream)
for row, line in zip(rows, out.decode().splitlines()):
    got = json.loads(line)
    if (got["packet"], got.get("index", 0), got["size"], got["payload"]) != (
            row["packet"], row["index"], row["size"], row["payload"]):
        wrong.append((row, got))
check("spex dump reads every packet of packets.json",
      len(rows) == len(out.splitlines()) and not wrong, wrong[:3])
done()
