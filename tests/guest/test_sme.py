"""SME in user mode: loads and stores of ZA, and SVE in streaming mode with its own vector length,
by hand and against a scalar twin."""
import json

from guest import *

need_engine("sme")
program = build("streams", "-march=armv8.2-a+sve")
MIDDLE = 0x10001000
# By vector length and that of streaming mode, in bytes: (kind, address from the middle, in
# streaming mode); None: no address.
FORMS = lambda vl, svl: {"ld1b": {("load", 0, True)}, "ld1w": {("load", 24, True)},
                         "st1d": {("store", 72, True)}, "st1q": {("store", 80, True)},
                         "part": {("load", 0, True)}, "empty": {("load", None, True)},
                         "ldr_za": {("load", 3 * svl, True), ("store", 2 * svl, True)},
                         "za_alone": {("load", svl, False)},
                         "sve": {("load", svl, True), ("store", -2 * svl, True)},
                         "plain": {("load", vl, False)},
                         "switched": {("load", 2 * svl, True), ("load", 5 * vl, False)},
                         "called": {("load", 3 * vl, False)}, "fault": {("load", 4 * svl, True)},
}

LONG = ["--qemu-cpu", "max,sve128=on,sme512=on,pauth-impdef=on"]
for model, bits, cpu in (("sampled", 256, []), ("full", 256, []), ("sampled", 512, LONG)):
    code, out, err, path = record("--cpu", "max", *cpu, "--model", model, "-c", "256", program)
    what = f"{model}, {bits}"
    equal(f"{what}: ends well, nothing unseen", (code, out, "no address" in err),
          (0, b"128 %d\n" % bits, False))
    check(f"{what}: verify", *verified(path))
    rows = [json.loads(l)
            for l in spex("script", "-i", path, "--format", "json")[1].decode().splitlines()]
    rows = [r for r in rows if r["op"].startswith(("load", "store"))]
    vl, svl = 16, bits // 8
    seen = {}
    for r in rows:
        symbol = r.get("symbol") or ""
        if symbol.startswith("form_") and " sve" in r["op"]:
            va = int(r["va"], 16) - MIDDLE if "va" in r else None
            streaming = "streaming-sve" in r["events"]
            seen.setdefault(symbol[5:], set()).add((r["op"].split()[0], va, streaming))
            # D18.2.10: EVL; accesses of ZA have streaming mode's wherever they are
            want = svl if streaming or symbol == "form_za_alone" else vl
            if 4 << (r["op_payload"] >> 4 & 7) != want:
                check(f"{what} {symbol}: vector length", False, r)
    equal(f"{what}: what each form accesses, and where", seen, FORMS(vl, svl))
    predicates = {n: {frozenset(e for e in r["events"] if e.endswith("predicate")) for r in rows
                      if r.get("symbol") == "form_" + n and " sve" in r["op"]}
                  for n in ("part", "empty", "ld1w")}
    equal(f"{what}: predicates", predicates,
          {"part": {frozenset({"partial-predicate"})}, "ld1w": {frozenset()},
           "empty": {frozenset({"partial-predicate", "empty-predicate"})}})
    places = {f: {(r["op"].split()[0], int(r["va"], 16)) for r in rows if r.get("symbol") == f and
                  "va" in r and MIDDLE <= int(r["va"], 16) < MIDDLE + 4096}
              for f in ("add_streaming", "add_twin")}
    twin = {("load", MIDDLE + d + 4 * i) for d in (0, 2048)
            for i in range(401)} | {("store", MIDDLE + 4 * i) for i in range(401)}
    check(f"{what}: a loop accesses what its scalar twin does",
          len(places["add_streaming"]) > 20 and places["add_streaming"] <= twin and
          places["add_twin"] <= twin, [(k, hex(a)) for k, a in places["add_streaming"] - twin][:4])
    check(f"{what}: a vector at a time",
          all((a - MIDDLE) % svl == 0 for _, a in places["add_streaming"]), places["add_streaming"])
    handler = {(int(r["va"], 16) - MIDDLE, "streaming-sve" in r["events"])
               for r in rows if r.get("symbol") == "handle" and " sve" in r["op"]}
    equal(f"{what}: a handler is outside of streaming mode", handler, {(6 * vl, False)})
done()
