"""SVE in a guest of `spex vm` on QEMU 11.1: gathers and first-fault loads live, and samples have
the addresses of the arrays."""
import shutil

from guests import *

os.makedirs(WORK, exist_ok=True)
program = os.path.join(WORK, "gathers")
code, out, err = run("aarch64-linux-gnu-gcc", "-O2", "-static", "-march=armv8.2-a+sve", "-o",
                     program, os.path.join(HERE, "gathers.c"))
linux, why = guest("debian")
later, why_later = qemu11()
if code or not linux or not later:
    skip("SVE in a guest", err if code else why if not linux else why_later)
    done()
share = os.path.join(WORK, "run-sve")
shutil.rmtree(share, ignore_errors=True)
os.makedirs(share)
shutil.copy(program, share)
with open(os.path.join(share, "run"), "w") as f:
    f.write("#!/bin/busybox sh\ncd /host\n./gathers 2 >plain 2>&1 || exit 1\n"
            "perf record -o /tmp/g.data -c 512 -e arm_spe/ts_enable=1,jitter=1,pa_enable=1/u -- "
            "./gathers 20 >recorded 2>&1 || exit 2\n"
            "cp /tmp/g.data g.data\n")
os.chmod(os.path.join(share, "run"), 0o755)
code, out, err = spex("vm", "--guest", linux, "--qemu", later, "--cpu", "neoverse-v1", "--share",
                      share, timeout=300)


def read(name):
    try:
        with open(os.path.join(share, name)) as f:
            return f.read()
    except OSError:
        return ""


equal("the guest runs them to their end, with the CPU's vectors",
      (code, read("status"), read("plain")[:19]),
      (0, "0\n", "vectors of 256 bits"))
code, out, err = spex("script", "-i", os.path.join(share, "g.data"), "--format", "json")
rows = [json.loads(l) for l in out.decode().splitlines()]
places = {n: int(a, 16) for a, _, n in (l.split() for l in run("aarch64-linux-gnu-nm", program)[
    1].decode().splitlines() if len(l.split()) == 3)}
ARRAYS = {  # what a function's SVE accesses are: load or store, gather or not -> array, bytes
    ("gather_sve", "load", False): ("index32", 16384), ("gather_sve", "load", True): ("x", 16384),
    ("scatter_sve", "store", True): ("y", 16384), ("strlen_sve", "load", False): ("text", 6000),
}
for (function, kind, gather), (array, size) in ARRAYS.items():
    found = [r for r in rows if r.get("symbol") == function and
             r["op"].startswith(kind + " sve") and ("gather" in r["op"]) == gather]
    seen = [int(r["va"], 16) for r in found if "va" in r]
    check(f"{function}: {kind}s{' of elements' if gather else ''} have addresses, in {array}",
          len(found) > 2 and len(seen) == len(found) and
          all(0 <= a - places[array] < size for a in seen),
          (len(found), [hex(a) for a in seen][:5], hex(places[array])))
    check(f"{function}: physical ones, too", found and all("pa" in r for r in found), found[:1])
done()
