"""The same samples on two QEMUs: the installed one, and the one that SPEX_QEMU names
(make check-engines)."""
import json

from guest import *

need_engine("engines")
if not ENGINE:
    done()
INSTALLED = ["--qemu", "qemu-aarch64"]
STACK = range(0x5500000000, 0x5501000000)  # each engine has other things at its end


def rows(*args, engine):
    """Every field of every record, and what the program wrote; the stack's
    addresses from its lowest one."""
    code, out, err, path = record(*engine, *args)
    script = [json.loads(l)
              for l in spex("script", "-i", path, "--format", "json")[1].decode().splitlines()]
    stack = [int(r["va"], 16) for r in script if "va" in r and int(r["va"], 16) in STACK]
    for r in script:
        if "va" in r and int(r["va"], 16) in STACK:
            r["va"] = "stack+%#x" % (int(r["va"], 16) - min(stack))
    return code, out, script, err


def begin(script, symbol, fields):
    """Until the program does something else for the first time: what that does depends on
    where the stack lies."""
    end = next((i for i, r in enumerate(script) if r.get("symbol") != symbol), len(script))
    return [{f: r.get(f) for f in fields} for r in script[:end]]


def same(what, *args, symbol=None, fields=None):
    a, b = rows(*args, engine=INSTALLED), rows(*args, engine=ENGINE)
    equal(f"{what}: ends the same", b[:2], a[:2])
    if fields:
        a, b = ((*x[:2], begin(x[2], symbol, fields)) for x in (a, b))
    different = [(x, y) for x, y in zip(a[2], b[2]) if x != y]
    check(f"{what}: the same {len(a[2])} samples",
          (a[2] or symbol) and len(a[2]) == len(b[2]) and not different,
          (len(a[2]), len(b[2]), different[:2]))
    return a, b


# Without a C library everything is the same but the place of the stack: times,
# latencies and events, too.
for name in ("exact", "branches", "faults", "accesses"):
    program = build(name, "-nostdlib", "-static")
    for model in ("sampled", "full", "none"):
        same(f"{name}, {model}", "--model", model, "-c", "256", program)

# SVE (test_sve.py has the addresses, on both): from the kernel on, what it does; the two C
# libraries begin with other things in their caches.
vectors = build("vectors", "-O2", "-march=armv8.2-a+sve", "-static")
for bits in (128, 256, 512):
    for name, n in {"saxpy": 1001, "dot": 1001, "gather": 777, "scatter": 777,
                    "strlen": 1003}.items():
        same(f"{name}, {bits} bits", "--model", "none", "--start-at", f"{name}_sve", "--cpu",
             "neoverse-v1", "--qemu-cpu",
             f"max,sve{bits}=on,sme=off,pauth-impdef=on", "-c", "256", vectors, name, n,
             symbol=name + "_sve", fields=("pc", "op", "op_payload", "va", "target", "events"))

# Threads and children.
work = build("work", "-static", "-pthread")
for what in ("threads", "fork"):
    found = []
    for engine in (INSTALLED, ENGINE):
        code, out, err, path = record(*engine, "--deterministic", "-c", "1024", work, what)
        kinds = [(e["pid"], e["tid"])
                 for e in (json.loads(l) for l in spex("script", "-i", path, "--format",
                                                       "json")[1].decode().splitlines())]
        found.append((code, {k: kinds.count(k) for k in set(kinds)}))
    (code, a), (other, b) = found
    check(f"{what}: the same threads, as many samples of each", code == other and
          set(a) == set(b) and all(abs(a[k] - b[k]) <= 3 + a[k] // 50 for k in a), found)
done()
