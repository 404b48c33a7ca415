"""spex record and stat on small programs: life, death, threads, files, filters, messages."""
import glob
import hashlib
import json
import signal
import subprocess
import time

from guest import *

need_engine("record")
work = build("work", "-pthread")
static = build("work", "-pthread", "-static", output="work-static")
fixed = build("work", "-pthread", "-no-pie", output="work-fixed")
PERF_MESSAGES = re.compile(
    r"Only instruction-based sampling period|unwind: target platform|"
    r"\[(perf record|unknown)|^$|To display|Cannot load debuginfo|^#|Press|"
    r"kernel address maps|kptr_restrict|/proc/kallsyms|check /proc|Samples in kernel|"
    r"addresses|resolved|cannot be|suitable vmlinux|As no")


def perf_script(path, *args):
    code, out, err = run("perf", "script", "-i", path, "--itrace=i1i", "-F",
                         "comm,pid,tid,ip,sym,dso", *args)
    rows = [l.split() for l in out.decode(errors="replace").splitlines() if l.strip()]
    # without those of elapsed time, which have lines for their callers
    return code, [r for r in rows if len(r) > 3 and "/" in r[1] and r[2] != "0"], err


# ---- the same bytes ----
digests = set()
for i in range(2):
    code, out, err, path = record("--truth", work, "exit", "3")
    digests.add(hashlib.sha256(open(path, "rb").read() +
                               open(path + ".truth", "rb").read()).hexdigest())
equal("the same program, seed and environment give the same bytes", len(digests), 1)
equal("exit status of the guest", code, 3)
check("closing line", re.search(r"^spex: [\d,]+ samples, 0 lost, \d+ collided; "
                                r"neoverse-n1, full, spex [\d.]+; wrote \S+ \([\d.]+ [kM]B\)$",
                                err, re.M), err)
header = run("perf", "report", "-i", path, "--header-only", "-I")[1].decode()
answer = json.loads(spex("report", "-i", path, "--format", "json")[1])
made = answer["sampling"]["model"] or ""
check("every reader knows what made it: the closing line, perf's header, ours, JSON",
      re.fullmatch(r"neoverse-n1, full, spex [\d.]+", made) and
      all(made in text for text in (err, header, spex("report", "-i", path)[1].decode())),
      (made, header[:500]))
for line in ("# hostname : spex", "# os release : 0.0.0-qemu", "# sibling sockets : 0",
             "# sibling threads : 0", "# pmu mappings: software = 1, arm_spe_0 = 12"):
    check(f"perf's header has '{line}'", line in header.splitlines(), header)
record("--seed", "7", work, "exit", "3", name="seed")
check("another seed gives other samples",
      open(path, "rb").read() != open(os.path.join(WORK, "seed"), "rb").read())
equal("nothing is left beside the file",
      [n for n in os.listdir(WORK) if ".run-" in n or ".new-" in n], [])
record(work, "exit", "0")
code, out, err = spex("record", "-o", path, work, "exit", "0")
check("an older file is kept as .old", os.path.exists(path + ".old"))

# ---- input, output, environment ----
code, out, err, path = record("--", work, "cat", stdin=b"through\nand through\n")
equal("standard input and output pass through", (code, out), (0, b"through\nand through\n"))
code, out, err, path = record("--env", "SPEX_TEST=seen", "--", work, "env")
equal("--env reaches the program", out, b"seen\n")
code, out, err = spex("record", "-q", "-o", "-", work, "exit", "0")
check("-o - writes perf's pipe format, and nothing else", code == 0 and out[:8] == b"PERFILE2",
      out[:40])
open(os.path.join(WORK, "piped"), "wb").write(out)
check("which spex reads", *verified(os.path.join(WORK, "piped")))
p = run("perf", "script", "-i", "-", "--itrace=i1i", "-F", "ip,sym", stdin=out)
check("and perf", p[0] == 0 and p[1].count(b"busy") > 100, p[2])

# ---- symbols: dynamic PIE, static, fixed address ----
for name, program in (("dynamic", work), ("static", static), ("not PIE", fixed)):
    code, out, err, path = record(program, "exit", "0")
    code, rows, err = perf_script(path)
    share = sum(r[3] == "busy" for r in rows if len(r) > 3) / max(1, len(rows))
    check(f"{name}: perf resolves the hot function", code == 0 and share > 0.9,
          (share, err, rows[:3]))
    odd = [l for l in err.splitlines() if not PERF_MESSAGES.search(l)]
    equal(f"{name}: perf says nothing unexpected", odd, [])
    code, out, err = spex("report", "-i", path)
    check(f"{name}: spex resolves it",
          code == 0 and re.search(r"9\d\.\d%.* busy$", out.decode(), re.M), out.decode())
    check(f"{name}: verify", *verified(path))

# ---- threads, processes ----
code, out, err, path = record(work, "threads")
code, rows, err = perf_script(path)
names = {}
for r in rows:
    names.setdefault(r[0], set()).add(r[1])
check("threads: every thread has samples under its own name",
      {"work", "one", "two", "three", "late"} <= set(names), names)
equal("threads: one thread per name", {n: len(t) for n, t in names.items() if n != "work"},
      {"one": 1, "two": 1, "three": 1, "late": 1})
equal("threads: FORK and EXIT records", (len(events(path, "FORK")), len(events(path, "EXIT"))),
      (4, 5))
check("threads: verify", *verified(path))
code, out, err, path = record(work, "forks")
equal("forks: exit status", code, 6)
code, rows, _ = perf_script(path)
by = {}
for r in rows:
    by[r[1]] = by.get(r[1], 0) + 1
n = sorted(v for k, v in by.items() if not k.startswith("1000"))
check("forks: children have samples in the ratio of their work",
      len(n) >= 2 and 1.7 < n[-1] / n[-2] < 2.3, by)
equal("forks: FORK records", len(events(path, "FORK")), 3)
check("forks: verify", *verified(path))
clean = {}
for r in packets(path):
    clean.setdefault(r["context"], []).append(r["ts"])
check("forks: time goes forward in every thread", all(t == sorted(t) for t in clean.values()))

# ---- ends ----
for how, number in (("segv", 11), ("abort", 6), ("kill", 9), ("term", 15)):
    code, out, err, path = record(work, how)
    equal(f"{how}: spex dies by the guest's signal", code, -number)
    ok, text = verified(path)
    got = len(packets(path))
    check(f"{how}: the profile up to that moment is whole", ok and got > 1000, (got, text))
p = subprocess.Popen([SPEX, "record", "-m", ",8K", "-c", "2048", "-o", os.path.join(WORK, "term"),
                      work, "sleep"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
while not any(os.path.getsize(d) > 10000 for d in glob.glob(f"{WORK}/term.run-*/data")):
    time.sleep(0.05)  # the guest runs
p.send_signal(signal.SIGTERM)
err = p.communicate()[1].decode()
equal("SIGTERM to spex reaches the guest", p.returncode, -15)
check("and the profile is written", "wrote" in err and verified(os.path.join(WORK, "term"))[0], err)
code, out, err, path = record(work, "exec", "/nonexistent")
check("a failed execve changes nothing", code == 0 and "execve" not in err, err)
code, out, err, path = record(work, "exec", "/bin/true")
check("an execve that succeeds is told",
      code == 0 and re.search("not profiled: true$", err, re.M) and verified(path)[0], err)
code, out, err, path = record(work, "closeall")
check("a guest that closes our files harms nothing",
      code == 0 and verified(path)[0] and len(packets(path)) > 2500, err)

# ---- code that changes, signals, memory that QEMU does not show ----
code, out, err, path = record("--truth", "-c", "256", work, "jit")
ok, text = verified(path)
check("self-modifying code", code == 0 and ok, text)
anon = [l for l in events(path, "MMAP2") if "rwxp //anon" in l]
equal("generated code has a mapping", len(anon), 1)
base = int(re.search(r"\[(0x[0-9a-f]+)\(", anon[0]).group(1), 16)
truth = {int(l.split()[1], 16): int(l.split()[2]) for l in open(path + ".truth") if l[0] != "#"}
equal("truth of generated code", [truth.get(base + 4 * i) for i in range(5)],
      [200, 200, 40000, 40000, 200])
code, out, err, path = record(work, "alarm")
check("asynchronous signals", code == 0 and verified(path)[0], err)
code, out, err, path = record("--cpu", "max", "-c", "256", "-e", "arm_spe/store_filter=1/", work,
                              "zero")
zva = [r for r in packets(path) if r["op"] == "ST UNSPEC-REG"]
check("DC ZVA has addresses, one cache line apart",
      len(zva) > 100 and all(r["va"] % 64 == 0 for r in zva), zva[:3])
check("and nothing is unseen", "no address" not in err, err)

# ---- buffers ----
code, out, err, big = record("-e", "arm_spe//", "-c", "512", work, "exit", "0", name="big")
code, out, err, small = record("-e", "arm_spe//", "-c", "512", "-m", ",8K", work, "exit", "0",
                               name="small")
equal("full buffers lose nothing", packets(small), packets(big))
check("each is one AUX record of a whole page", len(events(small, "AUX offset")) > 50 and
      all("flags: 0" in l for l in events(small, "AUX offset")), events(small, "AUX offset")[:3])

code, _, err = spex("stat", *MODEL, "-e", "arm_spe//", "-c", "512", "-m", ",8K", work, "exit", "0")
equal("stat: as many interrupts as whole buffers", counts(err)["interrupts"],
      len([l for l in events(small, "AUX offset") if "size: 0x1000 " in l]))
code, _, err = spex("stat", *MODEL, "--cpu", "max", "-c", "512", "-m", ",8K", work, "exit", "4")
c = counts(err)
check("stat: every event of a CPU that has them all",
      code == 4 and c["SAMPLE_FEED"] == c["SAMPLE_FILTRATE"] == c["SAMPLE_FEED_EVENT"] and
      c["SAMPLE_BUFFER_FULL"] == c["interrupts"] > 20 and
      c["SAMPLE_FEED_BR"] + c["SAMPLE_FEED_LD"] + c["SAMPLE_FEED_ST"] < c["SAMPLE_FEED"], err)

# ---- the truth beside the samples ----
code, _, err, path = record("--truth", "-c", "512", work, "exit", "0")
code, out, err = spex("truth", "--format", "json", path)
rows = {r["symbol"]: r for r in json.loads(out)["rows"]}
total = json.loads(out)["operations"]
exact = [l.split("\t") for l in open(path + ".truth") if not l.startswith("#")]
for model, said in ((["--model", "full"], "full"), ([], "sampled")):
    code, _, err = spex("stat", *model, "--format", "json", "-c", "512", work, "exit", "0")
    answer = json.loads(err)
    guessed = {c["name"] for c in answer["counters"] if c.get("estimate")}
    check(f"stat: what made the counts, and which are estimated, {said}",
          answer["model"].startswith(f"neoverse-n1, {said}, spex ") and
          ({"cycles", "l1d-misses"} <= guessed if said == "sampled" else not guessed) and
          not {"operations", "SAMPLE_POP"} & guessed, answer)
code, _, err = spex("stat", "--model", "full", "-c", "512", work, "exit", "0")  # as --truth does
equal("truth: all operations are there", total, counts(err)["SAMPLE_POP"])
said = [int(re.search(rf"([\d,]+) +{name}", err)[1].replace(",", ""))
        for name in ("l1d-misses", "mispredicts", "tlb-walks")]
want = [sum(int(r[column]) for r in exact) for column in (3, 6, 5)]
check("stat: misses and mispredicts are those of all instructions; walks those for code, too",
      said[:2] == want[:2] and said[2] >= want[2], (said, want))
busy = rows["busy"]
check("truth: the hot function, its count, its error",
      abs(busy["operations"] - 7000000) < 1000000 and
      busy["within"] == "yes" and abs(busy["error"]) < 2 * busy["expected"] < 0.02, busy)
code, out, err = spex("truth", path)
check("truth: text", code == 0 and re.search(r"% +yes .* busy$", out.decode(), re.M), out.decode())
os.unlink(path + ".truth")
code, out, err = spex("truth", path)
check("truth: without the counts, how to get them", code == 1 and "record with --truth" in err, err)
open(path + ".truth", "w").write("1 2 3\n")
code, out, err = spex("truth", path)
check("truth: a damaged file is told with its line", code == 1 and ".truth:1:" in err, err)

# ---- collisions ----
chase = build("chase")
code, out, err, path = record("-c", "256", "-e", "arm_spe/jitter=1/", chase)
collided = int(re.search(r"([\d,]+) collided", err).group(1).replace(",", ""))
check("samples collide where memory is slow", collided > 100, err)
check("AUX records carry the flag", any("flags: 0x8" in l for l in events(path, "AUX offset")))
code, _, err = spex("stat", *MODEL, "-c", "256", "-e", "arm_spe/jitter=1/", chase)
equal("stat counts the same", counts(err)["SAMPLE_COLLISION"], collided)

# ---- filters ----
FILTERS = [
    ("load_filter=1", lambda r: r["op"].startswith("LD")),
    ("store_filter=1", lambda r: r["op"].startswith("ST") or " AT" in r["op"]),
    ("branch_filter=1", lambda r: r["op"].startswith("B")),
    ("load_filter=1,store_filter=1", lambda r: r["op"][:2] in ("LD", "ST")),
    ("min_latency=6", lambda r: r["total"] >= 6),
    ("event_filter=0x8", lambda r: "L1D-REFILL" in r["ev"]),
    ("event_filter=0x80", lambda r: "MISPRED" in r["ev"]),
]
for terms, keep in FILTERS:
    code, out, err, path = record("-e", f"arm_spe/{terms},jitter=1/", "-c", "256", chase)
    rows = packets(path)
    check(f"{terms}: only what it selects", rows and all(keep(r) for r in rows),
          [r for r in rows if not keep(r)][:2])
    code, _, err = spex("stat", *MODEL, "-e", f"arm_spe/{terms},jitter=1/", "-c", "256", chase)
    c = counts(err)
    check(f"{terms}: stat: FILTRATE below FEED",
          len(rows) == c["SAMPLE_FILTRATE"] < c["SAMPLE_FEED"], c)
code, out, err, path = record("--cpu", "max", "-e", "arm_spe/inv_event_filter=0x8,load_filter=1/",
                              "-c", "256", chase)
check("inv_event_filter on a CPU that has it",
      code == 0 and not any("L1D-REFILL" in r["ev"] for r in packets(path)), err)
code, out, err, path = record("--cpu", "max", "-e", "arm_spe/discard=1/", work, "exit", "0")
equal("discard: counted, not kept", (code, len(packets(path))), (0, 0))

# ---- periods ----
for asked, used in ((1, 256), (257, 256), (5000, 4864), (4096, 4096)):
    code, out, err, path = record("-c", asked, work, "exit", "0")
    code, out, _ = run("perf", "evlist", "-v", "-i", path)
    check(f"-c {asked} becomes {used}",
          f"{{ sample_period, sample_freq }}: {used}," in out.decode(), out[:300])

# ---- refusals: one line each, nothing run ----
script = os.path.join(WORK, "script")
open(script, "w").write("#!/bin/sh\n")
os.chmod(script, 0o755)
REFUSED = [(["-e", "arm_spe/pa_enable=1/", work], 2, "pa_enable: .*physical addresses; allowed: 0"),
           (["-e", "arm_spe/event_filter=0x800000000000/", work], 2,
            r"event_filter=0x800000000000: bits .*allowed: bits of 0x"),
           (["-e", "arm_spe/inv_event_filter=2/", work], 2, "inv_event_filter: .*allowed: 0"),
           (["-e", "arm_spe/discard=1/", work], 2, "discard: .*SPEv1p2.*allowed: 0"),
           (["-e", "arm_spe/simd_filter=1/", work], 2, "simd_filter: .*FEAT_SPE_EFT.*allowed: 0"),
           (["-e", "arm_spe/min_latency=4096/", work], 2, "min_latency"),
           (["-e", "arm_spe/jitter=2/", work], 2, "jitter"),
           (["-e", "arm_spe/loads=1/", work], 2, "loads"),
           (["-e", "cycles", work], 2, "arm_spe/TERMS/"),
           (["-e", "arm_spe//k", work], 2, "no kernel"),
           (["-m", ",12K", work], 2, "power of two"),
           (["-m", "1M", work], 2, ",SIZE"),
           (["-m", ",17179869185G", work], 2, ",SIZE"),  # 1G, if it were cut to 64 bits
           (["--cpu", "cortex-z", work], 2, "cortex-z"),
           (["--model", "l1d.size=7", work], 2, "l1d.size"),
           (["--model", "fast", work], 2, "'fast' is no model any more: .*sampled.*full.*none"),
           (["--env", "X", work], 2, "NAME=VALUE"),
           ([], 2, "no program"),
           (["/nonexistent"], 2, "/nonexistent: No such file"),
           (["no-such-program-here"], 2, "not found in PATH"),
           (["/bin/true"], 1, "/bin/true is not an AArch64 program, and started none"),
           ([script], 1, "script is not an AArch64 program, and started none"),
           ([__file__], 2, "neither an ELF program nor a script|ermission denied"),
           ([WORK], 2, "directory|denied"),
           (["-L", "/nonexistent", work], 2, "ld-linux-aarch64.so.1.*/nonexistent.*-L"),
           (["--qemu", "/nonexistent/qemu", work], 2, "qemu-user"),
           (["--qemu", "/bin/true", work], 2, "no plugin support"),
           (["-o", "/nonexistent/perf.data", work], 1, "/nonexistent/perf.data.*No such file"),
]
for args, status, text in REFUSED:
    code, out, err = spex("record", "-o", os.path.join(WORK, "refused"),
                          *args) if "-o" not in args else spex("record", *args)
    lines = [l for l in err.splitlines() if not l.startswith("Try 'spex help")]
    check(f"refused: {' '.join(args)[:60].replace(WORK, 'DIR')}",
          code == status and len(lines) == 1 and re.search(text, err), err)
equal("nothing was written by those", [n for n in os.listdir(WORK) if n.startswith("refused")], [])

# ---- names, limits ----
code, out, err, path = record(static, "names")
check("a thread without a name: the run is whole", code == 5 and "damaged" not in err, err)
check("and what comes later is there", any("later" in l for l in events(path, "COMM")))
code, out, err, path = record(static, "limit")
check("the program limits its files: its own life goes on, the profile says what is missing",
      (code, out) == (1, b"all is well\n") and "File too large" in err, (code, out, err))
check("and is whole", *verified(path))
where = os.path.join(WORK, "limited")
os.mkdir(where)
code, out, err = run("bash", "-c", "ulimit -f 100; exec \"$@\"", "-", SPEX, "record", "-c", "256",
                     "-o", where + "/perf.data", static, "exit", "0")
check("spex has such a limit: one line, exit 1, and nothing half-written",
      code == 1 and re.search(r"^spex record: .*File too large", err) and
      not [n for n in os.listdir(where) if n != "perf.data"], (code, err, os.listdir(where)))

# ---- a full disk ----
disk = os.path.join(WORK, "disk")
os.mkdir(disk)
code, _, err = run("mount", "-t", "tmpfs", "-o", "size=600k", "none", disk)
if code:
    skip("full disk", "cannot mount a small file system here", machine=True)
else:
    try:
        code, out, err = spex("record", "-c", "256", "-m", ",256K", "-o", disk + "/perf.data", work,
                              "threads")
        check("full disk: one clear line, exit 1", code == 1 and len(err.splitlines()) == 1 and
              re.search(r"No space left on device; [1-9][\d,]+ records \([1-9][\d,]+ "
                        r"bytes\) are missing", err), err)
        check("full disk: what fits is kept", *verified(disk + "/perf.data"))
        check("full disk: which is much of it",
              200000 < os.stat(disk + "/perf.data").st_size < 600 * 1024)
        left = [n for n in os.listdir(disk) if "run-" in n or "new-" in n]
        equal("full disk: nothing half-written is left", left, [])
    finally:
        run("umount", disk)
done()
