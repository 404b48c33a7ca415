"""Each module includes only the modules below it (the data flows one way)."""
import os, re, sys
sys.path.insert(0, os.path.dirname(__file__))
from support.tap import *

ALLOWED = {
    "base": "base",
    "wire": "base wire",
    "arch": "base arch",
    "record": "base wire arch record",
    "spu": "base wire arch record spu",
    "script": "base wire arch record spu script",
    "uarch": "base arch uarch",
    "guest": "base wire arch record spu uarch perfdata guest",
    "perfdata": "base perfdata",
    "analysis": "base wire arch record perfdata analysis",
    "export": "base wire arch record perfdata analysis export",
    "report": "base wire arch record perfdata analysis report",
    "cli": "base wire arch record spu script uarch guest perfdata analysis export report cli",
}
# Public headers and the module that owns each.
OWNER = {"base": "base", "events": "base", "wire": "wire", "record": "record", "features": "arch", "op": "arch",
         "sysreg": "arch", "spu": "spu",
         "perfdata": "perfdata", "analysis": "analysis", "datasource": "analysis", "symbols": "analysis",
         "verify": "record", "generate": "record"}
CORE = {"base", "wire", "record", "arch", "spu"}
LIBC = set("assert ctype errno inttypes limits math stdarg stdbool stddef stdint stdio stdlib string".split())

for module, allowed in ALLOWED.items():
    wrong = []
    for root, _, names in os.walk(os.path.join(SOURCE, "src", module)):
        for name in names:
            if not name.endswith((".c", ".h")):
                continue
            path = os.path.join(root, name)
            for number, line in enumerate(open(path), 1):
                m = re.match(r'\s*#\s*include\s+(?:<spex/(\w+)\.(?:h|def)>|"(\w+)/[\w/.]+")', line)
                if m:
                    target = OWNER.get(m.group(1)) if m.group(1) else m.group(2)
                    if target not in allowed.split():
                        wrong.append(f"{os.path.relpath(path, SOURCE)}:{number}: {line.strip()}")
                m = re.match(r"\s*#\s*include\s+<([\w/]+)\.h>", line)
                if m and module in CORE - {"base"} and not m.group(1).startswith("spex/") \
                        and m.group(1) not in LIBC:
                    if m.group(1) not in ("immintrin", "arm_neon"):
                        wrong.append(f"{os.path.relpath(path, SOURCE)}:{number}: core is libc only: {line.strip()}")
    check(f"{module} includes only {allowed}", not wrong, "\n".join(wrong))

leaks = []
for name in os.listdir(os.path.join(SOURCE, "include/spex")):
    if name.endswith(".h") and name[:-2] not in OWNER:
        leaks.append(name)
check("every public header has an owner", not leaks, leaks)
done()
