"""Parts of a run: marker functions, --control, --delay, --max-size."""
import json
import struct
import subprocess

from guest import *

need_engine("regions")
program = build("regions", "-pthread")


def functions(path):
    code, out, err = spex("script", "-i", path, "--format", "json")
    seen = {}
    for line in out.decode().splitlines():
        r = json.loads(line)
        seen.setdefault(r.get("symbol"), []).append(r["time"])
    return seen


for model in ("sampled", "full", "none"):
    how = ["--model", model, "-c", "512", "-e", "arm_spe/jitter=1/"]
    code, out, err, path = record(*how, program)
    everything = functions(path)
    code, out, err, path = record(*how, "--start-at", "region_begins", "--stop-at", "region_ends",
                                  program)
    seen = functions(path)
    check(f"{model}: between the markers, and nowhere else",
          code == 0 and set(seen) <= {"two", "main", "region_begins", "region_ends"} and
          abs(len(seen["two"]) / len(everything["two"]) - 1) < 0.05,
          {k: len(v) for k, v in seen.items()})
    check(f"{model}: verify", *verified(path))
    code, out, err, path = record(*how, "--stop-at", "region_begins", program)
    seen = functions(path)
    check(f"{model}: --stop-at alone: until there",
          "one" in seen and "two" not in seen and "three" not in seen,
          {k: len(v) for k, v in seen.items()})
    code, out, err, path = record(*how, "-D", "-1", "--start-at", "region_ends", program)
    seen = functions(path)
    check(f"{model}: --start-at alone: from there on, to the end",
          {"one", "two", "three"} <= set(seen) and len(seen["three"]) > len(seen["one"]) and
          len(everything["one"]) > len(seen["one"]) * 1.15, {k: len(v) for k, v in seen.items()})
    code, out, err, path = record(*how, "--start-at", "region_begins", "--stop-at", "region_ends",
                                  program, "thread")
    seen = functions(path)
    check(f"{model}: other threads, too",
          "one" not in seen and "three" not in seen and len(seen["two"]) > 1000,
          {k: len(v) for k, v in seen.items()})
    times = sorted(t for v in everything.values() for t in v)
    middle = times[len(times) // 2]
    code, out, err, path = record(*how, "-D", str(middle / 1e6), program)
    late = sorted(t for v in functions(path).values() for t in v)
    check(f"{model}: --delay: in modelled time",
          late and min(late) >= middle and 0.45 < len(late) / len(times) < 0.55,
          (len(late), len(times)))
code, _, err = spex("stat", "-c", "512", program)
whole = counts(err)["SAMPLE_POP"]

# ---- size ----
for limit in (20000, 60000, 200000):
    code, out, err, path = record("-c", "256", "-m", ",64K", "--max-size", limit, program)
    size = os.stat(path).st_size
    check(f"--max-size {limit}: as much as fits, and no more",
          code == 0 and limit - 5000 < size < limit + 12000 and verified(path)[0], size)
    check("and it is told", re.search(r"--max-size was reached", err) and "missing" not in err, err)
code, out, err, path = record("--max-size", "100M", program)
check("a size that is not reached", code == 0 and "max-size" not in err, err)

# ---- --control, as perf's ----
ctl, ack = os.path.join(WORK, "ctl"), os.path.join(WORK, "ack")
os.mkfifo(ctl)
os.mkfifo(ack)
for model in ("sampled", "full"):
    path = os.path.join(WORK, "controlled")
    p = subprocess.Popen([SPEX, "record", "--model", model, "-c", "512", "-D", "-1", "--control",
                          f"fifo:{ctl},{ack}", "-o", path, program, "lines"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said = []
    with open(ctl, "w") as words, open(ack, "rb", buffering=0) as answers:
        for word in (None, "enable", "disable"):
            said.append(p.stdout.readline())
            if word:
                words.write(word + "\n")
                words.flush()
                said.append(answers.read(4))
            p.stdin.write(b"\n")
            p.stdin.flush()
        err = p.communicate()[1].decode()
    equal(f"{model}: words are answered, and the program sees nothing of it", (p.returncode, said),
          (4, [b"ready\n", b"ready\n", b"ack\n", b"ready\n", b"ack\n"]))
    seen = functions(path)
    check(f"{model}: enable, disable",
          len(seen.get("two", [])) > 1000 and "one" not in seen and "three" not in seen,
          ({k: len(v) for k, v in seen.items()}, err))
p = subprocess.Popen([SPEX, "record", "--control", f"fifo:{ctl}", "-o", path, program, "lines"],
                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
p.stdout.readline()
with open(ctl, "w") as words:
    words.write("dance\nstop\n")
    words.flush()
    err = p.communicate()[1].decode()
check("stop ends the run; a word that is none is told",
      p.returncode == -15 and "'dance' is none of" in err and "wrote" in err, (p.returncode, err))

# ---- several files ----
path = os.path.join(WORK, "split")
code, out, err = spex("record", "-c", "256", "-m", ",16K", "-o", path + ".whole", program)
whole = packets(path + ".whole")
for value in ("50K", "1ms"):
    code, out, err = spex("record", "-c", "256", "-m", ",16K", "--switch-output", value, "-o", path,
                          program)
    names = sorted(n for n in os.listdir(WORK) if re.fullmatch(r"split\.\d{5}", n))
    check(f"--switch-output {value}: said", code == 0 and
          f"wrote {path}.00001 to .{len(names):05d}" in err and len(names) > 2, (err, names))
    parts = [packets(os.path.join(WORK, n)) for n in names]
    equal(f"--switch-output {value}: together they are the whole", [r for p in parts for r in p],
          whole)
    ok = [verified(os.path.join(WORK, n)) for n in names]
    check(f"--switch-output {value}: each can be read", all(o for o, _ in ok), ok)
    unnamed = [l for n in names for l in spex("script", "-i", os.path.join(WORK, n), "--format",
                                              "json")[1].splitlines() if "dso" not in json.loads(l)]
    equal(f"--switch-output {value}: and names the files of its samples", unnamed, [])
    if value == "1ms":
        spans = [(min(r["ts"] for r in p), max(r["ts"] for r in p)) for p in parts if p]
        check("by time: one after the other",
              all(a[1] <= b[0] for a, b in zip(spans, spans[1:])) and
              all(b - a < 1500000 for a, b in spans), spans)
    for n in names:
        os.unlink(os.path.join(WORK, n))
equal("nothing else is left",
      [n for n in os.listdir(WORK) if n.startswith("split") and n != "split.whole"], [])

# ---- refusals ----
# all 65,535 sections are the same table of symbols, whose names are one long one
overlap = os.path.join(WORK, "overlap")
at, symbols = 64 + 65535 * 64, struct.pack("<IBBHQQ", 1, 2, 0, 1, 0x400000, 4) * 40000
with open(overlap, "wb") as f:
    f.write(b"\x7fELF\x02\x01\x01" + bytes(9) +
            struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, 0x400000, 0, 64, 0, 64, 56, 0, 64, 65535, 0))
    f.write(struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, at, len(symbols), 65534, 0, 8, 24) * 65534)
    f.write(struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, at + len(symbols), 1000001, 0, 0, 1, 0))
    f.write(symbols + b"x" * 1000000 + b"\0")
os.chmod(overlap, 0o755)
for args, words in ((["--switch-output", "often", program], "neither a size"),
                    (["--switch-output", "1M", "--truth", program], "--truth"),
                    (["--start-at", "nowhere", program], "no function nowhere"),
                    (["--start-at", "nowhere", overlap], "no function nowhere"),
                    (["-D", "soon", program], "milliseconds"),
                    (["-D", "-1", program], "--control or --start-at"),
                    (["--control", ctl, program], "fifo:"),
                    (["--control", "fifo:/nonexistent", program], "/nonexistent"),
                    (["--control", f"fifo:{program}", program], "no FIFO"),
                    (["--control", "fd:99", program], "99")):
    code, out, err, path = record(*args)
    check(f"refused: {' '.join(args)[:40].replace(WORK, 'DIR')}", code == 2 and words in err,
          (code, err))
done()
