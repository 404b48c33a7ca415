"""The unit in an emulator that is not ours: examples/unicorn.c on libunicorn; records checked."""
import json, os, re, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

CODE, DATA, COUNT = 0x400000, 0x800000, 200000
path = os.path.join(tempfile.mkdtemp(), "records")
code, out, err = run(os.path.join(BUILD, "examples", "unicorn"), path)
equal("the program ran to its end", (code, out.decode(), err),
      (0, f"{4 * COUNT + 1} instructions: OK (UC_ERR_OK)\n", ""))
code, out, err = spex("verify", "--raw", "--features", "neoverse-n1", path)
m = re.search(r"(\d+) records, 0 violations\n", err)
check("every record conforms, none warns", code == 0 and out == b"" and m and
      4 * COUNT / 1400 < int(m.group(1)) < 4 * COUNT / 1000, out.decode()[:500] + err)
code, out, err = spex("dump", "--raw", "--format", "json", path)
records, now = [], {}
for p in map(json.loads, out.splitlines()):
    now[p["packet"], p.get("index", 0)] = int(p["payload"], 0)
    if p["packet"] in ("timestamp", "end"):
        records.append(now)
        now = {}
by_pc = {}
for r in records:
    by_pc.setdefault((r["address", 0] & (1 << 56) - 1) - CODE, []).append(r)
equal("the loop's four instructions, sampled alike",
      [n for n in range(0, 16, 4) if 0.18 < len(by_pc.get(n, [])) / len(records) < 0.32],
      [0, 4, 8, 12])
loads = by_pc.get(0, [])
check("loads have address, latency and source",
      loads and all(DATA <= r["address", 2] < DATA + 8 * COUNT and ("counter", 2) in r and
                    ("data-source", 0) in r for r in loads), loads[:2])
check("nothing else has", not any(("address", 2) in r for n in (4, 8, 12) for r in by_pc[n]))
check("branches are conditional and end where the loop begins",
      all(r["operation-type", 2] & 1 and r["address", 1] & (1 << 56) - 1 == CODE
          for r in by_pc[12] if not r["events", 0] & 1 << 6))
page = open(os.path.join(SOURCE, "docs/embedding.md")).read()
check("docs/embedding.md has it", "examples/unicorn.c" in page)
done()
