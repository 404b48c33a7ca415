"""Programs use what a core has: each preset runs instructions of all its features, and what it
has not is explained."""
import json

from guest import *

need_engine("presets")
program = build("features", "-static")
V8_2 = "lse rdm fp16 dotprod rcpc crc aes sha2"
V8_4 = V8_2 + " pauth fcma jscvt rcpc2 flagm fhm sha3 sha512 sm4 i8mm bf16"
SVE = V8_4 + " sve sve_i8mm sve_bf16"
SVE2 = SVE + " frintts flagm2 sve2 mte"
CORES = {"neoverse-n1": V8_2, "neoverse-n1-r3": V8_2,
         "kunpeng-920": V8_2 + " fcma jscvt fhm", "neoverse-v1": SVE,
         "neoverse-n2": SVE2, "neoverse-v2": SVE2, "grace": SVE2,
         "neoverse-v3": SVE2, "ampereone": V8_4 + " frintts flagm2 mte", "max": SVE2 + " sme"}
equal("every preset is here", sorted(CORES),
      sorted([f[:-4] for f in os.listdir(os.path.join(SOURCE, "share", "cpus"))] + ["max"]))
# Bits of AT_HWCAP and, from 64 on, AT_HWCAP2 (Linux, arch/arm64/include/uapi/asm/hwcap.h).
HWCAP = {"lse": 8, "rdm": 12, "fp16": 9, "dotprod": 20, "rcpc": 15, "crc": 7, "aes": 3, "sha2": 6,
         "pauth": 30, "fcma": 14, "jscvt": 13, "rcpc2": 26, "flagm": 27, "fhm": 23, "sha3": 17,
         "sha512": 21, "sm4": 19, "sve": 22, "i8mm": 64 + 13, "bf16": 64 + 14, "sve_i8mm": 64 + 9,
         "sve_bf16": 64 + 12, "frintts": 64 + 8, "flagm2": 64 + 7,
         "sve2": 64 + 1, "mte": 64 + 18, "sme": 64 + 23}
for cpu, features in CORES.items():
    code, out, err, path = record("--cpu", cpu, program, *features.split())
    words = out.decode().split()
    equal(f"{cpu}: all that it has runs", (code, words[-1:]), (0, ["done"]))
    if code:
        print("#", err)
    bits = int(words[0], 16) | int(words[1], 16) << 64 if len(words) > 1 else 0
    equal(f"{cpu}: and programs are told of it",
          [f for f in features.split() if not bits >> HWCAP[f] & 1], [])

# ---- what it has not ----
LACKS = [("neoverse-n1", "sve", "FEAT_SVE", "--cpu neoverse-v1"),
         ("neoverse-n1", "bf16", "FEAT_BF16", "--cpu neoverse-v1"),
         ("neoverse-n1", "pauth", "FEAT_PAuth", "--cpu neoverse-v1"),
         ("neoverse-n1", "sve2", "FEAT_SVE2", "--cpu neoverse-n2"),
         ("ampereone", "sve", "FEAT_SVE", "--cpu neoverse-v1"),
         ("neoverse-n2", "sme", "FEAT_SME", "--cpu max"),
         ("neoverse-n1", "udf", "UDF", "no CPU has it"),
         ("neoverse-v1", "none", "not allocated", "no CPU has it")]
for cpu, name, feature, offer in LACKS:
    code, out, err, path = record("--cpu", cpu, program, "lse", name)
    check(f"{cpu}, {name}: says what and what to do",
          code == -4 and feature in err and offer in err and "ended at an instruction" in err,
          (code, err))
for name in ("wfxt", "mops", "dcpop"):  # not of 7.2
    code, out, err, path = record("--cpu", "neoverse-v3", program, name)
    check(f"neoverse-v3, {name}: runs, or says why not",
          code == 0 or (code == -4 and "of a newer QEMU" in err), (code, err))
code, out, err, path = record("--cpu", "neoverse-n1", "--model", "full", program, "bf16")
check("the full model", code == -4 and "FEAT_BF16" in err, (code, err))
code, out, err, path = record("--cpu", "neoverse-v1", program, "sve", "bf16", "handle", "raise")
check("a signal that was sent, an instruction that was handled: none is blamed",
      code == -4 and "ended at" not in err and "another process sent" in err, (code, err))
code, out, err, path = record("--cpu", "neoverse-n1", "/bin/sh", "-c",
                              f"{program} bf16; {program} lse")
check("a child: the same, with its number", code == 0 and "FEAT_BF16" in err and
      re.search(r"process 1\d\d\d ended", err) and out.endswith(b"done\n"), (code, out, err))
# Erratum 1694299 is in the unit of the older N1 alone, and is noticed.
loop = build("bias", "-static")
for cpu, biased in (("neoverse-n1-r3", True), ("neoverse-n1", False)):
    code, out, err, path = record("--cpu", cpu, "-c", "1024", loop)
    code, out, err = spex("annotate", "-i", path, "main")
    equal(f"{cpu}: sampling looks biased", b"sampling looks biased here" in out, biased)
    d = json.loads(spex("annotate", "--format", "json", "-i", path, "main")[1])
    equal(f"{cpu}: JSON says so", (d["never_sampled"] > 0, d["erratum"]), (biased, None))
done()
