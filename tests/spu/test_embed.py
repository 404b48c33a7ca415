"""The example of docs/embedding.md runs, and its profile shows what the toy program does."""
import os, re, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

code, out, err = run(os.path.join(BUILD, "examples", "embed"))
text = out.decode()
equal("exit status", (code, err), (0, ""))
m = re.match(r"(\d+) samples, (\d+) full buffers\n", text)
samples, full = (int(m.group(1)), int(m.group(2))) if m else (0, 0)
check("about one sample in 1025 operations", 4700 < samples < 5050, text)
check("every full buffer held 64 records", samples // 64 <= full <= samples // 64 + 1, text)
rows = re.findall(r"^ *([\d.]+)% +([\d.]+) cycles +([\d.]+)% miss  (.*)$", text, re.M)
equal("five instructions", len(rows), 5)
check("each is a fifth of the samples", all(16 < float(r[0]) < 24 for r in rows), text)
check("every eighth load misses", rows and 9 < float(rows[0][2]) < 16, text)
check("only loads take long",
      rows and float(rows[0][1]) > 10 and all(float(r[1]) == 1 for r in rows[1:]), text)
page = open(os.path.join(SOURCE, "docs/embedding.md")).read()
source = "".join(open(os.path.join(SOURCE, "examples", name)).read()
                 for name in ("embed.c", "unicorn.c"))
quoted = re.findall(r"```c\n(.*?)```", page, re.S)
missing = [q for q in quoted if q not in source]
check("docs/embedding.md quotes the examples as they are", quoted and not missing,
      "\n".join(missing))
done()
