"""SVE in user mode: what sampled loads and stores accessed, against scalar
twins of the same loops."""
import json

from guest import *

need_engine("sve")
program = build("vectors", "-O2", "-march=armv8.2-a+sve")
SIZES = {"saxpy": 1001, "dot": 1001, "gather": 777, "scatter": 777, "strlen": 1003}


def samples(path, function):
    """Samples in a function, and those with an address in the arrays: (load or
    store, address, record)."""
    code, out, err = spex("script", "-i", path, "--format", "json")
    rows = [json.loads(l) for l in out.decode().splitlines()]
    rows = [r for r in rows if r.get("symbol") == function]
    return rows, [("store" if "store" in r["op"] else "load", int(r["va"], 16), r)
                  for r in rows if "va" in r and int(r["va"], 16) < 0x40000000]


def unseen_prefetches(err):
    found = re.search(r"([\d,]+) samples of prefetches have no address", err)
    return int(found.group(1).replace(",", "")) if found else 0


def twin_addresses(name, n):
    """What the scalar loop accesses, from its text: loads, stores."""
    x, y, i32, i64 = 0x10000000, 0x20000000, 0x30000000, 0x31000000
    k = [i * 2654435761 % (1 << 32) % 4096 for i in range(n)]
    return {"saxpy": ({x + 4 * i for i in range(n)} | {y + 4 * i for i in range(n)},
                      {y + 4 * i for i in range(n)}),
            "dot": ({x + 4 * i for i in range(n)} | {y + 4 * i for i in range(n)}, set()),
            "gather": ({i32 + 4 * i for i in range(n)} | {x + 4 * j for j in k}, set()),
            "scatter": ({i64 + 8 * i for i in range(n)}, {y + 8 * j for j in k}),
            "strlen": ({0x32001000 - n + i for i in range(n)}, set()),
    }[name]


for bits in (128, 256, 512):
    cpu = ["--cpu", "neoverse-v1", "--qemu-cpu", f"max,sve{bits}=on,sme=off,pauth-impdef=on"]
    code, out, err, path = record(*cpu, program, "length")
    equal(f"{bits}: the program's vectors", (code, out), (0, b"%d\n" % bits))
    for name, n in SIZES.items():
        code, out, err, path = record(*cpu, "-c", "256", program, name, n)
        equal(f"{bits} {name}: ends as it should, nothing unseen", (code, "no address" in err),
              (0, False))
        check(f"{bits} {name}: verify", *verified(path))
        rows, seen = samples(path, name + "_sve")
        lost = [r for r in rows if "sve" in r["op"] and r["op"][:4] in ("load", "stor") and
                "va" not in r]
        equal(f"{bits} {name}: every SVE access has its address", lost, [])
        loads, stores = twin_addresses(name, n)
        wrong = [hex(a) for k, a, _ in seen if a not in (stores if k == "store" else loads)]
        check(f"{bits} {name}: addresses are those of the scalar loop", seen and not wrong,
              (len(seen), wrong[:5]))
        step = bits // 8
        contiguous = [(a, r) for k, a, r in seen if (a >> 24) in (0x30, 0x31, 0x32) or
                      name in ("saxpy", "dot")]
        first = {"strlen": 0x32001000 - n}.get(name)
        check(f"{bits} {name}: contiguous ones begin at vectors", contiguous and all(
            (a - (first if first is not None else a & ~0xffffff)) % step == 0 or
            name == "strlen" for a, _ in contiguous),
              [hex(a) for a, _ in contiguous][:5])
        # D18.2.10, EVL
        lengths = {32 << (r["op_payload"] >> 4 & 7) for _, _, r in seen if "sve" in r["op"]}
        check(f"{bits} {name}: the records say the vector length", lengths == {bits}, lengths)
        partial = {a for _, a, r in seen if "partial-predicate" in r["events"]}
        elements = bits // (64 if name == "scatter" else 32)
        if name in ("saxpy", "dot") and n % elements:
            tail = n // elements * elements * 4
            check(f"{bits} {name}: only the tail is partial",
                  partial <= {0x10000000 + tail, 0x20000000 + tail} and
                  all("partial-predicate" in r["events"]
                      for _, a, r in seen if a in (0x10000000 + tail, 0x20000000 + tail)),
                  [hex(a) for a in partial])
        if name in ("gather", "scatter"):
            spread = {a for k, a, _ in seen} & (stores if name == "scatter"
                                                else {a for a in loads if a < 0x20000000})
            check(f"{bits} {name}: many different elements", len(spread) > min(60, len(seen) // 4),
                  len(spread))

# ---- against the twin's own samples ----
cpu = ["--cpu", "neoverse-v1"]
for name in ("saxpy", "gather", "scatter"):
    addresses = []
    for function in (name + "_sve", name + "_twin"):
        code, out, err, path = record(*cpu, "-c", "256", program, function.removesuffix("_sve"),
                                      SIZES[name])
        rows, seen = samples(path, function)
        addresses.append({(k, a & ~63) for k, a, _ in seen})
    check(f"{name}: lines that its samples name are lines of the twin's", addresses[0] and
          len(addresses[0] - addresses[1]) <= len(addresses[0]) // 10,
          (len(addresses[0]), len(addresses[0] - addresses[1])))

# ---- predicates, misses, other models ----
code, out, err, path = record(*cpu, "-c", "256", program, "nothing", "1000")
rows, seen = samples(path, "nothing_sve")
vector = [r for r in rows if r["op"].startswith(("load sve", "store sve"))]
check("an empty predicate: events, and no address", code == 0 and vector and not seen and
      all({"partial-predicate", "empty-predicate"} <= set(r["events"]) for r in vector) and
      "no address" not in err, (seen[:2], vector[:2]))
for model in ("full", "none"):
    code, out, err, path = record(*cpu, "--model", model, "-c", "1024", program, "gather", 777)
    rows, seen = samples(path, "gather_sve")
    loads, _ = twin_addresses("gather", 777)
    check(f"--model {model}: the same addresses", code == 0 and len(seen) > 50 and
          all(a in loads for _, a, _ in seen) and "no address" not in err, (len(seen), err))
code, out, err, path = record("--truth", *cpu, program, "dot", "4096")
misses = sum(int(r.split("\t")[3]) for r in open(path + ".truth") if r[0] != "#")
check("SVE accesses go through the caches", misses >= 2 * 4096 * 4 // 64, misses)
code, out, err, path = record(*cpu, "-c", "256", program, "copy", "4000")
rows, seen = samples(path, "__memcpy_sve")
if not rows:  # a stripped libc knows which functions its memcpy chooses from
    rows, seen = samples(path, "memcpy@ifunc")
places = [a for _, a, _ in seen if a >> 28 in (1, 2)]
check("glibc's memcpy: addresses in what it copies",
      places and all(0x10000000 <= a < 0x10000000 + 4096 or 0x20000000 <= a < 0x20000000 + 4096
                     for a in places), [hex(a) for a in places][:5])
check("and nothing is unseen", "SVE loads and stores have no address" not in err, err)
code, out, err, path = record(*cpu, "-c", "256", program, "prefetch", "4000")
rows, seen = samples(path, "prefetch_loop")
ahead = {a for k, a, r in seen if r["op"].startswith("other")}
check("PRFM: addresses, a quarter of a page ahead", len(ahead) > 10 and all(
    0x10000400 <= a < 0x10000400 + 4 * 4000 for a in ahead), len(ahead))
lost = re.search(r"([\d,]+) samples of prefetches", err)
check("and few are unseen", not lost or int(lost.group(1).replace(",", "")) < 20, err)


# ---- random predicates: what accessed memory has address, latency and source ----
DATA = {"va", "translation", "data_source"}
for name in ("neoverse-v1", "neoverse-v2", "neoverse-n2"):
    code, out, err, path = record("--cpu", name, "-c", "256", program, "random", "1001")
    check(f"{name}, random predicates: verify", *verified(path))
    check(f"{name}, random predicates: nothing unseen", code == 0 and "no address" not in err, err)
    for function in ("contiguous_sve", "elements_sve"):
        rows = [r for r in samples(path, function)[0] if r["op"].startswith("load sve")]
        active = [r for r in rows if "empty-predicate" not in r["events"]]
        partial = [r for r in active if "partial-predicate" in r["events"]]
        # of 8 elements 1 predicate in 256 is full and 1 empty, of 4 and 2 more are
        check(f"{name} {function}: nearly all predicates are partial",
              len(rows) > 50 and len(partial) > 0.8 * len(rows), (len(rows), len(partial)))
        check(f"{name} {function}: and some are full",
              function == "elements_sve" or len(active) > len(partial))
        equal(f"{name} {function}: address, latency and source of what accessed memory",
              [r for r in active if not DATA < set(r) or "l1d-access" not in r["events"]][:2], [])
        equal(f"{name} {function}: none of them where nothing was active",
              [r for r in rows if r not in active and
               (DATA & set(r) or "l1d-access" in r["events"])][:2], [])

    # D17.6.4.6: what no address avoids is not the alignment's
    code, out, err, path = record("--cpu", name, "-c", "256", program, "long", "1024")
    for function, misaligned in (("aligned_sve", False), ("askew_sve", True)):
        for kind in ("load sve", "store sve", "load simd", "store simd"):
            rows = [r for _, _, r in samples(path, function)[1] if r["op"].startswith(kind)]
            check(f"{name} {function}, {kind}: E[11] is {misaligned:d}", len(rows) > 3 and
                  all(("misaligned" in r["events"]) == misaligned for r in rows),
                  (len(rows), rows[:2]))
    rows = samples(path, "zero_blocks")[1]
    check(f"{name}: DC ZVA is never misaligned", len(rows) > 50 and
          not any("misaligned" in r["events"] for _, _, r in rows), (len(rows), rows[:2]))


def prefetches(script, bits, model, lost):
    """Addresses of prefetches by hand, relative to 0x10000800; lost: how many samples had none."""
    vl = bits // 8
    s32, d64 = range(vl // 4), range(vl // 8)
    forms = {"pf": [72], "pf_near": [-9], "pf_reg": [-32], "pf_then": [8, 72], "prf_si": [3 * vl],
             "prf_back": [-32 * vl], "prf_ss": [192],
             "prf_part": [20] if bits == 256 else [], "prf_signed": [2 * (-3 + 5 * i) for i in s32],
             "prf_unsigned": [4 * (2 + 7 * i) for i in d64],
             "prf_wide": [8 * (1 + 9 * i) for i in d64],
             "prf_bases": [16 + 40 * i for i in d64], "prf_bases32": [6 + 24 * i for i in s32],
    }
    of = lambda name: [r for r in script if r.get("symbol") == "form_" + name]
    for name, places in forms.items():
        rows = [r for r in of(name) if "va" in r]
        seen = {int(r["va"], 16) - 0x10000800 for r in rows}
        check(f"{bits} {name}, {model}: addresses, as of no load or store",
              (seen or not places) and seen <= set(places) and
              (len(seen) == len(places) or len(rows) < 8 * len(places)) and
              all(r["op"].startswith("other") for r in rows),
              (len(rows), sorted(seen), places))
    literal = {r["va"] for r in of("pf_literal") if "va" in r}
    equal(f"{bits} pf_literal, {model}: one place", len(literal), 1)
    seen = {int(r["va"], 16) - 0x10000800 for r in of("pf_lost") if "va" in r}
    check(f"{bits} pf_lost, {model}: the address, or counted as unseen",
          seen <= {0} and bool(seen) != bool(lost) and lost <= len(of("pf_lost")), (seen, lost))
    partial = [r for r in of("prf_part") if "partial-predicate" in r["events"]]
    check(f"{bits} prf_part, {model}: partial, and empty where none is active", partial and
          all(("empty-predicate" in r["events"]) == (bits == 128) for r in partial), partial[:2])


# ---- every form: addresses by hand, relative to 0x10000800 ----
forms = build("forms", "-O2", "-march=armv8.2-a+sve")
for bits in (128, 256):
    vl = bits // 8
    s32, d64 = range(vl // 4), range(vl // 8)
    FORMS = {"ld2": [64], "st3": [32], "ld1ub_s": [5], "ld1sh_d": [6], "st1b_d": [3],
             "vnum": [3 * vl], "vnum_back": [256 - 2 * vl], "rq": [48], "nt": [128, 192], "nf": [7],
             "gather_signed": [1024 + 4 * (-3 + 2 * i) for i in s32],
             "gather_unscaled": [4 + 12 * i for i in s32],
             "gather_wide": [8 * (1 + 5 * i) for i in d64],
             "gather_narrow": [1 + 7 * i for i in d64], "gather_bases": [16 + 40 * i for i in d64],
             "gather_bases32": [8 + 24 * i for i in s32],
             "gather_first": [8 * (2 + 3 * i) for i in d64],
             "scatter_signed": [1024 + 4 * (-4 + 3 * i) for i in s32],
             "scatter_bases": [8 + 24 * i for i in d64],
             "scatter_unscaled": [2 + 6 * i for i in d64], "late": [12], "ld1r": [12],
             "ldr_z": [2 * vl, -vl], "ldr_p": [3 * vl // 8, 5 * vl // 8], "ss": [48],
    }
    code, out, err, path = record("--cpu", "neoverse-v1", "--qemu-cpu",
                                  f"max,sve{bits}=on,sme=off,pauth-impdef=on", "-c", "256", forms)
    lost = unseen_prefetches(err)
    equal(f"{bits}: forms end well, no access unseen", (code, err.count("no address") - bool(lost)),
          (0, 0))
    script = [json.loads(l)
              for l in spex("script", "-i", path, "--format", "json")[1].decode().splitlines()]
    for name, places in FORMS.items():
        rows = [r for r in script if r.get("symbol") == "form_" + name and
                r["op"].startswith(("load", "store"))]
        seen = {int(r["va"], 16) - 0x10000800 for r in rows if "va" in r}
        check(f"{bits} {name}", rows and seen <= set(places) and (seen or not places) and
              (len(seen) == len(places) or len(rows) < 8 * len(places)),
              (len(rows), sorted(seen), places))
        if name == "late":
            check(f"{bits} {name}: partial, and not empty",
                  all("partial-predicate" in r["events"] and
                      ("empty-predicate" in r["events"]) == False for r in rows) if bits > 96
                  else True, rows[:2])
    prefetches(script, bits, "sampled", lost)

for model, bits in (("full", 256), ("none", 128), ("none", 256)):
    code, out, err, path = record("--cpu", "neoverse-v1", "--model", model, "--qemu-cpu",
                                  f"max,sve{bits}=on,sme=off,pauth-impdef=on", "-c", "256", forms)
    script = [json.loads(l)
              for l in spex("script", "-i", path, "--format", "json")[1].decode().splitlines()]
    prefetches(script, bits, model, unseen_prefetches(err))
code, out, err, path = record(program, "dot", "1000")
check("a CPU without SVE: the reason, and what to do",
      code == -4 and "neoverse-n1" in err and "--cpu neoverse-v1" in err, (code, err))
done()
