"""spex dump: JSON, truncation, padding, blocks, errors."""
import json, os, subprocess, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *


def dump(data, *options):
    return spex("dump", "--raw", *options, "-", stdin=bytes(data))


def packets(data):
    code, out, err = dump(data, "--format", "json")
    return code, [json.loads(line) for line in out.splitlines()], err


ROWS = [
    ("00", {"packet": "padding", "header": "00", "size": 0, "payload": "0x0"}),
    ("01", {"packet": "end", "header": "01", "size": 0, "payload": "0x0"}),
    ("710102030405060708", {"packet": "timestamp", "header": "71", "size": 8,
                            "payload": "0x807060504030201"}),
    ("521600", {"packet": "events", "header": "52", "size": 2, "payload": "0x16"}),
    ("430c", {"packet": "data-source", "header": "43", "size": 1, "payload": "0xc"}),
    ("65805f0000",
     {"packet": "context", "index": 1, "header": "65", "size": 4, "payload": "0x5f80"}),
    ("4a01", {"packet": "operation-type", "index": 2, "header": "4a", "size": 1, "payload": "0x1"}),
    ("b0d0c2a1ed66baffc0", {"packet": "address", "index": 0, "header": "b0", "size": 8,
                            "payload": "0xc0ffba66eda1c2d0"}),
    ("22b00100000000000000", {"packet": "address", "index": 16, "header": "22b0", "size": 8,
                              "payload": "0x1"}),
    ("9a0100", {"packet": "counter", "index": 2, "header": "9a", "size": 2, "payload": "0x1"}),
    ("6301020304", {"packet": "reserved", "header": "63", "size": 4, "payload": "0x4030201"}),
    ("730102030405060708", {"packet": "reserved", "header": "73", "size": 8,
                            "payload": "0x807060504030201"}),
    ("2013", {"packet": "reserved", "header": "2013", "size": 0, "payload": "0x0"}),
    ("1f", {"packet": "reserved", "header": "1f", "size": 0, "payload": "0x0"}),
]
code, got, err = packets(bytes.fromhex("".join(h for h, _ in ROWS)))
check("JSON: exit 0, no message", code == 0 and err == "", err)
offset = 0
for (h, want), p in zip(ROWS, got):
    equal(f"JSON of {h}", p, {"offset": offset, **want})
    offset += len(h) // 2
equal("JSON: one object per packet", len(got), len(ROWS))
code, out, err = dump(bytes.fromhex("b0d0c2a1ed66baffc0"), "--format", "json")
equal("JSON: order of the keys", out, b'{"offset":0,"packet":"address","index":0,"header":"b0",'
      b'"size":8,"payload":"0xc0ffba66eda1c2d0"}\n')

# Every truncation of every packet is told at its offset, with what is there.
for h, want in ROWS:
    whole = bytes.fromhex(h)
    for n in range(1, len(whole)):
        code, got, err = packets(b"\x01\x00" + whole[:n])
        header = whole[:min(n, len(want["header"]) // 2)]
        payload = whole[len(header):n]
        ok = code == 1 and len(got) == 3 and "byte 2" in err and got[2] == {
            "offset": 2, "packet": "truncated", "header": header.hex(), "size": len(payload),
            "payload": hex(int.from_bytes(payload, "little"))}
        if not ok:
            check(f"truncated {h} after {n}", False, (got, err))
check("every truncation has its offset, exit 1", True)
code, out, err = dump(b"\x01\xb0\x01")
check("text: truncated packet", code == 1 and out.endswith(b"truncated\n"), out)

code, out, err = dump(bytes(300) + b"\x01" + bytes(3))
equal("text: runs of padding are one line", [l.split()[-1] for l in out.decode().splitlines()],
      ["300", "end", "3"])

# Blocks: the same text whatever the pieces in which the input arrives.
stream = b"".join(bytes.fromhex(h) + bytes(i % 40) for i, (h, _) in enumerate(ROWS * 9000))
stream += bytes(600000) + b"\x01"
with tempfile.TemporaryDirectory() as d:
    path = os.path.join(d, "s")
    with open(path, "wb") as f:
        f.write(stream)
    for style in ("spex", "perf"):
        code, whole, err = spex("dump", "--raw", "--style", style, path)
        p = subprocess.Popen([SPEX, "dump", "-r", "-s", style, "-"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
        import threading
        def feed():
            for i in range(0, len(stream), 70001):
                p.stdin.write(stream[i:i + 70001])
                p.stdin.flush()
            p.stdin.close()
        t = threading.Thread(target=feed)
        t.start()
        pieces = p.stdout.read()
        t.join()
        p.wait()
        check(f"{style}: the pieces of the input do not matter", whole == pieces and code == 0)
    offsets = [int(l.split(b":")[0][3:], 16) for l in whole.splitlines()]
    sizes = [len(l.split(b":")[1][:49].split()) for l in whole.splitlines()]
    check("perf: lines cover every byte once",
          all(o + n == p for o, n, p in zip(offsets, sizes, offsets[1:] + [len(stream)])))
    code, out, err = spex("dump", "--raw", os.path.join(d, "none"))
    check("missing file", code == 1 and "none" in err, err)
# Lines that come again are remembered: a line says the same however often, and after which others,
# it was printed. 6000 counters are more than are remembered; the separator keeps padding apart.
import random
rng = random.Random(1)
pool = ([bytes.fromhex(h) for h, _ in ROWS if h != "01"] +
        [bytes([0x98 + i % 3]) + i.to_bytes(2, "little") for i in range(6000)])
pool += [bytes(n) for n in (2, 5, 9, 15, 16, 17)]
for options in (["--style", "spex"], ["--style", "perf"], ["--style", "perf-7"],
                ["--format", "json"]):
    once = [p + b"\x01" for p in pool]
    often = [rng.choice(once) for _ in range(30000)]
    first, again = [], []
    for lines, parts in ((first, once), (again, often)):
        out = iter(dump(b"".join(parts), *options)[1].splitlines())
        for part in parts:
            said = []
            for line in out:
                said.append(line.split(b"," if "json" in options else b" " * 2,
                                       2 if "perf" in options[1] else 1)[-1])
                if ((b'"end"' in line) if "json" in options
                    else line.rstrip().lower().endswith(b"end")):
                    break
            lines.append(said)
    said = dict(zip(once, first))
    wrong = [(p.hex(), said[p], lines) for p, lines in zip(often, again) if said[p] != lines]
    check(f"{' '.join(options)}: the same bytes, the same line", not wrong, wrong[:3])

code, out, err = dump(b"")
check("empty input", code == 0 and out == b"")
code, out, err = spex("dump", "--style", "prf", "--raw", "-", stdin=b"")
check("unknown style is a usage error", code == 2 and "spex, perf, perf-7" in err, err)
done()
