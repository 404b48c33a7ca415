"""
spex calibrate gives the numbers of a model back without being told, writes a preset that --cpu
takes, and ends where the clock is no clock. `make validate` does the first for every preset.
"""
import os, re, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

MICRO = os.path.join(BUILD, "spex-micro")
LIMIT = 0.05
# The clock of a made-up machine: additions take a cycle, and each third run is slower.
FAKE = """import sys
runs, name = int(sys.argv[2]), sys.argv[3]
each = {"add": 1.0, "near": 0.25, "chase": 5.0, "mul": 3.0}.get(name, 2.0)
print(name, 1000, 4096, 8192, "cycles", *(1000 * each * (1 + 0.02 * (i % 3 == 2))
                                         for i in range(runs)))
"""


def numbers(path):
    """{key: (number, source)} of a preset."""
    rows = {}
    for line in open(path):
        word = line.split(None, 2)
        if word and word[0] != "#" and word[0] not in ("features", "layout", "sve.bits",
                                               "select_group"):
            scale = {"K": 10, "M": 20, "G": 30}.get(word[1][-1], 0)
            rows[word[0]] = (int(word[1].rstrip("KMG")) << scale, word[2].strip())
    return rows


def recover(cpu, place, *keys):
    """Keys that were measured, of them those that are off, what was printed."""
    mine = os.path.join(place, "mine.cpu")
    code, out, err = spex("calibrate", "--cpu", cpu, "-o", mine, *keys, timeout=3000)
    if code:
        return [], [f"exit {code}: {err}"], out.decode()
    of = cpu if "/" in cpu else os.path.join(SOURCE, "share/cpus", cpu + ".cpu")
    want, got = numbers(of), numbers(mine)
    measured = [k for k, (_, source) in got.items() if source.startswith("measured: ")]
    off = [f"{k}: {got[k][0]}, and it is {want[k][0]}" for k in want
           if abs(got[k][0] - want[k][0]) > (LIMIT * want[k][0] if k in measured else 0)]
    return measured, off, out.decode()


def model(place):
    """A core that nobody knows: the numbers can only come from measuring it."""
    changed = {"l1d.size": "32K", "l1d.latency": "6", "rob": "100", "lat.mul": "5",
               "pipes.alu": "2", "forward.fail": "9"}
    odd = os.path.join(place, "odd.cpu")
    text = open(os.path.join(SOURCE, "share/cpus/neoverse-v2.cpu")).read()
    for key, number in changed.items():
        text, n = re.subn(rf"^({re.escape(key)} +)\S+", rf"\g<1>{number}", text, flags=re.M)
        assert n == 1, key
    open(odd, "w").write(text)
    measured, off, out = recover(odd, place, *changed)
    equal("the keys that were asked for are measured", sorted(measured), sorted(changed))
    check("a core of changed numbers gives them back", not off, "\n".join(off) + "\n" + out)
    code, _, err = spex("record", "-q", "--engine", "qemu",
                        "--cpu", os.path.join(place, "mine.cpu"),
                        "-o", os.path.join(place, "x.data"),
                        "--", MICRO, "chase", "32K", "64", "2000")
    check("record takes the preset", code == 0, err)


def clock(place):
    code, out, err = spex("calibrate", "--via", f"qemu-aarch64 {MICRO}", "--runs", "3", timeout=300)
    check("under qemu-user it ends, and says that the clock is none",
          code == 1 and "the clock here cannot be used" in err and "emulator" in err and not out,
          err)
    fake, mine = os.path.join(place, "fake.py"), os.path.join(place, "real.cpu")
    open(fake, "w").write(FAKE)
    code, out, err = spex("calibrate", "--via", f"{sys.executable} {fake}", "--base", "neoverse-v1",
                          "-o", mine, "l1d.latency", "lat.mul")
    got = numbers(mine) if not code else {}
    equal("with a clock the numbers are its",
          [got.get(k, [0])[0] for k in ("l1d.latency", "lat.mul")], [5, 3])
    check("each has its spread", got and got["lat.mul"][1] == "measured: a chain; 3, 3 to 3.06",
          got.get("lat.mul"))
    check("the rest says that it is another's",
          got and got["l2.latency"][1] == "chosen: as neoverse-v1 (published)",
          got.get("l2.latency"))
    check("the file says by which clock",
          got and "by its cycle counter" in open(mine).read())


def messages(place):
    for words, part in [
            (["--cpu", "neoverse-n1", "--via", "x"], "leave one out"),
            (["l9.latency"], "'l9.latency' is not measured"),
            (["--runs", "0"], "a number from 1 to"),
            (["--cpu", "neoverse-n9"], "'spex help cpus'"),
            (["--cpu", "neoverse-n1", "--base", "neoverse-n1"], "--base is for hardware"),
            (["--via", "true"], "printed '', not 'NAME UNITS START END CLOCK CYCLES...'"),
            (["--via", "false"], "of false ended with status 1"),
            (["--cpu", "neoverse-n1", "-o", os.path.join(place, "no/x.cpu")], "no/x.cpu")]:
        code, out, err = spex("calibrate", *words)
        check(f"calibrate {' '.join(words[:3]).replace(place, '')}", code in (1, 2) and part in err
              and len(err.strip().splitlines()) <= 2, f"{code}: {err}")


def samples(place):
    code, out, err = spex("calibrate", "--cpu", "neoverse-n1", "--samples", timeout=3000)
    lines = [l for l in out.decode().splitlines() if "samples say" in l or "verify" in l]
    check("samples say what was measured, and the records are those of the manual",
          code == 0 and len(lines) == 8 and not any("not" in l or "deviate" in l for l in lines),
          "\n".join(lines) + err)


CLAIMS = re.findall(r'^CLAIM\("([^"]+)", +\w+, +"([^"]+)"\)$',
                    open(os.path.join(SOURCE, "src/cli/calibrate.def")).read(), re.M)
PAGE = open(os.path.join(SOURCE, "docs/calibrate.md")).read()
equal("docs/calibrate.md has the rows of calibrate.def",
      re.findall(r"^\| `([^`]+)` \| (.+) \|$", PAGE, re.M), CLAIMS)
if not os.path.exists(MICRO):
    skip("calibrate", "no " + MICRO)
    done()
with tempfile.TemporaryDirectory() as place:
    model(place)
    clock(place)
    messages(place)
    if os.environ.get("SPEX_LONG"):
        samples(place)
        for file in sorted(os.listdir(os.path.join(SOURCE, "share/cpus"))):
            measured, off, out = recover(file[:-4], place)
            check(f"{file}: {len(measured)} numbers come back",
                  len(measured) == len(CLAIMS) and not off, "\n".join(off) + "\n" + out)
done()
