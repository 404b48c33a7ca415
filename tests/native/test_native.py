"""spex record on a machine's own SPE, as far as a machine without it shows that: what is read from
/sys and /proc (made up), what is refused and how, and whole recordings in which a software event
stands for SPE's. The rest is in tests/vm/test_native.py."""
import collections
import ctypes
import os
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *

WORK = tempfile.mkdtemp(prefix="spex-native-")
DEVICES = "sys/bus/event_source/devices"
TERMS = {"ts_enable": "config:0", "jitter": "config:16", "load_filter": "config:33",
         "event_filter": "config1:0-63", "min_latency": "config2:0-11", "event": "config:0-63"}


def write(path, text):
    """At once, as /sys is: who reads meanwhile sees the old text or the new one."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w") as f:
        f.write(text)
    os.rename(path + ".new", path)


def machine(name, pmus={}, **files):
    """A directory that looks like a machine: {PMU: (type, CPUs, terms)}; other files by path."""
    root = os.path.join(WORK, name)
    write(f"{root}/sys/devices/system/cpu/online", "0-1\n")
    for pmu, (kind, cpus, terms) in pmus.items():
        write(f"{root}/{DEVICES}/{pmu}/type", f"{kind}\n")
        write(f"{root}/{DEVICES}/{pmu}/cpumask", cpus + "\n")
        write(f"{root}/{DEVICES}/{pmu}/caps/min_interval", "1024\n")
        for term, place in terms.items():
            write(f"{root}/{DEVICES}/{pmu}/format/{term}", place + "\n")
    for path, text in files.items():
        write(os.path.join(root, path), text)
    if not os.path.exists(f"{root}/proc"):
        os.symlink("/proc", f"{root}/proc")
    return root


def record(root, *args, **kw):
    return spex("record", *args, env={"SPEX_ROOT": root, "SPEX_NO_AUX": "1"}, cwd=WORK, **kw)


# ---- no SPE, and why ----
ARM = {"proc/sys/kernel/arch": "aarch64\n"}
DEVICE = {"sys/bus/platform/devices/arm,spe-v1/uevent": "\n"}
PTI = {"sys/devices/system/cpu/vulnerabilities/meltdown": "Mitigation: PTI\n"}
LOADED = {"sys/module/arm_spe_pmu/refcnt": "0\n"}
for name, files, words in [
    ("x86", {"proc/sys/kernel/arch": "x86_64\n"}, ["not an Arm machine", "--engine qemu"]),
    ("kpti", {**ARM, **DEVICE, **PTI, **LOADED}, ["KPTI", "kpti=off"]),
    ("module", {**ARM, **DEVICE},
     ["driver is not loaded", "modprobe arm_spe_pmu", "CONFIG_ARM_SPE_PMU"]),
    ("tree", {**ARM, "sys/firmware/devicetree/base/spe-pmu/compatible": "x"},
     ["modprobe arm_spe_pmu"]),
    ("failed", {**ARM, **DEVICE, **LOADED}, ["has not taken the device", "kpti=off", "dmesg"]),
    ("vm", {**ARM, "sys/class/dmi/id/sys_vendor": "Amazon EC2\n"},
     ["virtual machine", ".metal", "--engine qemu"]),
    ("old", ARM, ["firmware describes no SPE"])]:
    code, out, err = record(machine("no-" + name, **files), "--engine", "native", "--", "true")
    check(f"no SPE: {name}", code == 1 and all(w in err for w in words), err)
code, out, err = record(os.path.join(WORK, "no-vm"), "-a")
check("-a without SPE says the same", code == 1 and "virtual machine" in err, err)
code, out, err = record(os.path.join(WORK, "no-vm"), "--engine", "qemu", "-p", "1")
check("-p and --engine qemu do not go together", code == 2 and "-p" in err, err)

# ---- terms and options ----
spe = machine("spe", {"arm_spe_0": (1, "0-1", TERMS)})
two = machine("two", {"arm_spe_0": (1, "0", TERMS),
                      "arm_spe_1": (1, "1", {**TERMS, "discard": "config:35"})})
for title, root, args, words in [
    ("a term that the driver does not have", spe, ["-e", "arm_spe/discard=1/", "--", "true"],
     ['no term "discard"', "event_filter, jitter, load_filter, min_latency, ts_enable"]),
    ("a value that does not fit", spe, ["-e", "arm_spe/min_latency=4096/", "--", "true"],
     ["min_latency", "0xfff"]),
    ("a PMU that is not there", spe, ["-e", "arm_spe_7//", "--", "true"],
     ["no PMU 'arm_spe_7'", "arm_spe_0"]),
    ("a term that one of two PMUs lacks", two, ["-e", "arm_spe/discard/", "--", "true"],
     ["arm_spe_0", "discard"]),
    ("CPUs as --cpu", spe, ["--cpu", "0-1", "--", "true"], ["-C 0-1"]),
    ("a model", spe, ["--cpu", "neoverse-v1", "--", "true"], ["--engine qemu"]),
    ("--model", spe, ["--model", "full", "--", "true"], ["--model", "--engine qemu"]),
    ("--truth", spe, ["--truth", "--", "true"], ["--truth", "--engine qemu"]),
    ("nobody", spe, [], ["PROGRAM", "-p PID", "-a"]),
    ("-p and a program", spe, ["-p", "1", "--", "true"], ["-p"]),
    ("-p that is no number", spe, ["-p", "1,x"], ["-p"]),
    ("-C that is no list", spe, ["-C", "0-", "--", "true"], ["-C", "0-3,8"]),
    ("-m that is no power of two", spe, ["-m", ",3M", "--", "true"], ["power of two"]),
    ("-D -1 for ever", spe, ["-D", "-1", "--", "true"], ["--control"])]:
    code, out, err = record(root, *args)
    check(f"refused: {title}", code == 2 and all(w in err for w in words), err)

# ---- recordings ----
EVENT = ["-e", "arm_spe/event=9/"]  # PERF_COUNT_SW_DUMMY: never counts, but the rest is as with SPE
WORDS = "ls / >/dev/null; (true; /bin/true); exec /bin/echo done"


def events(path, *kinds):
    """Lines of perf script with one kind of record or several."""
    code, out, err = run("perf", "script", "-i", path, "--show-task-events", "--show-mmap-events",
                         "--show-switch-events", "--show-namespace-events", cwd=WORK)
    return [l for l in out.decode(errors="replace").splitlines()
            if any("RECORD_" + k in l for k in kinds)]


def comms(path):
    return collections.Counter(re.findall(r"COMM exec: ([^:]+):", "\n".join(events(path, "COMM"))))


def maps(path):
    return collections.Counter(re.findall(r"r-xp (/.*)$", "\n".join(events(path, "MMAP2")), re.M))


def whole(title, path):
    code, out, err = run("perf", "script", "-i", path, "--show-task-events", cwd=WORK)
    good = code == 0 and "incompatible" not in err and "failed" not in err.lower()
    code, out, err2 = spex("script", path, cwd=WORK)
    return check(title, good and code in (0, 1) and "offset" not in err2, err + err2)


def test_program():
    code, out, err = record(spe, *EVENT, "-o", "a.data", "--env", "COLOUR=blue", "--", "sh", "-c",
                            WORDS + " $COLOUR")
    check("a program runs, with its output and --env", code == 0 and out == b"done blue\n", err)
    check("the closing line names the engine",
          re.search(r"native, arm_spe_0; wrote .*a\.data", err), err)
    whole("perf and spex read the file", "a.data")
    run("perf", "record", "-q", "-e", "dummy:u", "-o", "p.data", "--", "sh", "-c", WORDS + " blue",
        cwd=WORK)
    equal("programs are those that perf record sees", comms("a.data"), comms("p.data"))
    equal("and mappings of code", maps("a.data"), maps("p.data"))
    kinds = lambda path: [len(events(path, k)) for k in ("FORK", "EXIT")]
    equal("and forks and exits", kinds("a.data"), kinds("p.data"))
    check("switches and namespaces are there",
          events("a.data", "SWITCH") and events("a.data", "NAMESPACES"))
    equal("build-ids of what ran are those that perf finds",
          run("perf", "buildid-list", "-i", "a.data", "-H", cwd=WORK)[0], 0)
    ids = run("perf", "buildid-list", "-i", "a.data", cwd=WORK)[1].decode()
    libc = os.path.realpath("/bin/ls")
    want = re.search(r"Build ID: (\w+)", run("readelf", "-n", libc)[1].decode())
    check("build-ids", want and f"{want.group(1)} {libc}" in ids, ids)
    code, out, err = record(spe, *EVENT, "-o", "a.data", "--", "sh", "-c", "exit 7")
    check("the exit status is the program's; the older file is kept",
          code == 7 and os.path.exists(f"{WORK}/a.data.old"), err)
    code, out, err = record(spe, *EVENT, "-o", "a.data", "--", "sh", "-c", "kill -SEGV $$")
    equal("and its signal", code, -signal.SIGSEGV)
    code, out, err = record(spe, *EVENT, "-o", "a.data", "--", "sh", "-c", "trap 'echo heard; kill "
                            "$!; exit 5' USR1; sleep 60 >/dev/null 2>&1 & kill -USR1 $PPID; wait")
    check("SIGUSR1 reaches the program", code == 5 and out == b"heard\n", f"{code} {out} {err}")
    code, out, err = record(spe, *EVENT, "-o", "a.data", "--", "/no/such")
    check("a program that is not there", code == 1 and "no such program" in err, err)
    write(f"{WORK}/plain", "echo shell\n")
    os.chmod(f"{WORK}/plain", 0o755)
    code, out, err = record(spe, *EVENT, "-o", "a.data", "--", "./plain")
    check("no shell for what is no program", code == 1 and out == b"" and "#!" in err, err)
    code, out, err = record(spe, *EVENT, "-o", "-", "--", "echo", "aside")
    check("-o -: the file is on standard output alone",
          out.startswith(b"PERFILE2") and b"aside\n" not in out and "aside" in err, err)
    code, out, err = record(two, *EVENT, "-o", "two.data", "--", "true")
    check("two PMUs", code == 0 and "arm_spe_0, arm_spe_1" in err, err)
    whole("perf and spex read a file of two PMUs", "two.data")
    mixed = machine("mixed", {"arm_spe_0": (1, "0", TERMS), "arm_spe_1": (1, "1", TERMS)}, **{
        f"sys/devices/system/cpu/cpu{i}/regs/identification/midr_el1": f"0x{midr:016x}\n"
        for i, midr in enumerate((0x413fd0c1, 0x410fd4f0))})
    record(mixed, *EVENT, "-o", "mixed.data", "--", "true")
    data = open(f"{WORK}/mixed.data", "rb").read()
    at = data.index(struct.pack("<IHHII", 70, 0, 16 + 8 * (4 + 2 * 7), 4, 0)) + 16
    words = struct.unpack_from("<18Q", data, at)
    equal("CPUs that differ: metadata of version 2 with MIDR_EL1, PMU and caps of each",
          words[:2] + words[3:],
          (2, 4, 2, 0x1010101010101010, 0, 4, 0x413fd0c1, 1, 1024, 0, 0x1010101010101010, 1, 4,
           0x410fd4f0, 1, 1024, 0))


def until(what):
    while not what():
        time.sleep(0.05)
    return True


def attached(name, *how):
    """A recording of a process that is there before and ends while it is recorded: the process,
    exit status, messages."""
    def begun():
        return os.path.exists(f"{WORK}/{name}") and b"/cat\0" in open(f"{WORK}/{name}", "rb").read()

    cat = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    p = subprocess.Popen([SPEX, "record", *EVENT, "-o", name, *how, str(cat.pid)], cwd=WORK,
                         stderr=subprocess.PIPE,
                         env={**os.environ, "SPEX_ROOT": spe, "SPEX_NO_AUX": "1"})
    until(begun)
    cat.stdin.close()
    cat.wait()
    return cat.pid, p.communicate()[1].decode(), p.returncode


def test_running():
    pid, err, code = attached("p1.data", "-p")
    lines = "\n".join(events("p1.data", "COMM", "EXIT", "MMAP2"))
    check("-p: until it ends, with what was there before",
          code == 0 and f"COMM: cat:{pid}" in lines and
          "RECORD_EXIT" in lines and re.search("r-xp /.*/cat", lines), err + lines)
    pid, err, code = attached("t.data", "--per-thread", "-t")
    check("-t --per-thread", code == 0, err)
    whole("perf and spex read it", "t.data")
    code, out, err = record(spe, *EVENT, "-p", "999999999")
    check("-p of nobody", code == 1 and "no process 999999999" in err, err)
    code, out, err = record(spe, *EVENT, "-a", "-o", "all.data", "--", "sh", "-c", "/bin/true")
    lines = "\n".join(events("all.data", "COMM"))
    check("-a: others are there too",
          code == 0 and f":{os.getpid()}/" in lines and "COMM exec: true" in lines, err)
    whole("perf and spex read it", "all.data")


def descriptors(process):
    """Of events; files come and go meanwhile."""
    links = subprocess.run(["ls", "-l", f"/proc/{process}/fd"], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL).stdout
    return links.count(b"anon_inode:[perf_event]")


def until_read(path):
    """Waits until somebody has read the file as it is now."""
    libc = ctypes.CDLL(None)
    fd = libc.inotify_init1(0)
    libc.inotify_add_watch(fd, path.encode(), 0x10)  # IN_CLOSE_NOWRITE
    ready = select.select([fd], [], [])[0]
    os.close(fd)
    return bool(ready)


def test_hotplug():
    """What Linux says of its CPUs is made up here; their events are real."""
    if os.cpu_count() < 2:
        return skip("CPUs that go and come", "one CPU", machine=True)
    hot = machine("hot", {"arm_spe_0": (1, "0-1", TERMS)},
                  **{"sys/devices/system/cpu/present": "0-1\n"})
    online = f"{hot}/sys/devices/system/cpu/online"
    write(online, "0\n")
    p = subprocess.Popen([SPEX, "record", *EVENT, "-a", "-o", "hot.data", "--", "sh", "-c",
                          "read x; while read cpu; do taskset -c $cpu /bin/echo; done"],
                         cwd=WORK, stdin=subprocess.PIPE,
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                         env={**os.environ, "SPEX_ROOT": hot, "SPEX_NO_AUX": "1"})

    def seen(cpu):
        """Whether programs that start on the CPU are in the file: COMM records of an exec, by
        the CPU they end with."""
        p.stdin.write(f"{cpu}\n".encode())
        p.stdin.flush()
        data = open(f"{WORK}/hot.data", "rb").read()
        at = struct.unpack_from("<Q", data, 40)[0]
        while at + 8 <= len(data):
            kind, misc, size = struct.unpack_from("<IHH", data, at)
            if size < 8 or at + size > len(data):
                break
            if (kind == 3 and misc & 0x2000 and data[at + 16:at + 21] == b"echo\0" and
                    struct.unpack_from("<I", data, at + size - 16)[0] == cpu):
                return True
            at += size
        return False

    equal("-a: those online at the beginning", until(lambda: descriptors(p.pid) == 2), True)
    write(online, "1\n")
    equal("a CPU comes: its events are opened", until(lambda: descriptors(p.pid) == 4), True)
    p.stdin.write(b"\n")
    equal("and recorded", until(lambda: seen(1)), True)
    write(online, "0-1\n")
    check("one that comes back is noticed", until_read(online))  # its CPU was never really away
    equal("and is recorded", until(lambda: seen(0)), True)
    err = p.communicate()[1].decode()
    check("and it is said",
          p.returncode == 0 and "1 CPU went offline and came back: not recorded for" in err and
          "1 CPU came online: recorded from then on" in err, err)
    whole("perf and spex read it", "hot.data")
    equal("perf knows their events",
          {l.split("[")[1][:3] for l in events("hot.data", "COMM") if "exec: echo:" in l},
          {"000", "001"})


def test_bpf():
    root = machine("bpf", {"arm_spe_0": (1, "0-1", TERMS)},
                   **{"proc/kallsyms": "ffff800008000000 T _text\nffff800009000000 T _end\n"
                      "ffff80000a123000 t bpf_trampoline_6442491136\t[bpf]\n"
                      "ffff80000a124000 t bpf_dispatcher_xdp\t[bpf]\n"
                      "ffff800008001000 t bpf_trampoline_link\n"
                      "ffff80000a125000 t bpf_prog_0123456789abcdef_x\t[bpf]\n"})
    record(root, *EVENT, "-o", "bpf.data", "--", "true")
    out = run("perf", "script", "-i", "bpf.data", "--show-bpf-events", cwd=WORK)[1].decode()
    equal("trampolines of BPF as the kernel lists them",
          re.findall(r"KSYMBOL addr (\w+) len (\w+) type 1 flags 0x0 name (\S+)", out)[-2:],
          [("ffff80000a123000", "4096", "bpf_trampoline_6442491136"),
           ("ffff80000a124000", "4096", "bpf_dispatcher_xdp")])


def test_limits():
    code, out, err = record(spe, *EVENT, "-o", "s.data", "--switch-output", "300ms", "--", "sh",
                            "-c", "until [ -e s.data.00003 ]; do sleep 0.1; done")
    parts = sorted(f for f in os.listdir(WORK) if f.startswith("s.data."))
    check("--switch-output by time: several files",
          code == 0 and len(parts) >= 3 and "s.data.00001 to ." in err, f"{parts} {err}")
    check("each knows the process",
          all(re.search("COMM.*: sh:|COMM.*: sleep:", "\n".join(events(p, "COMM")))
              for p in parts[:3]))
    for p in parts[:3]:
        whole(f"{p} can be read alone", p)
    code, out, err = record(spe, *EVENT, "-o", "m.data", "--max-size", "1", "--", "true")
    check("--max-size says so", code == 0 and "--max-size was reached" in err, err)
    os.mkfifo(f"{WORK}/ctl")
    os.mkfifo(f"{WORK}/ack")
    p = subprocess.Popen([SPEX, "record", *EVENT, "-D", "-1", "--control", "fifo:ctl,ack", "-o",
                          "c.data", "--", "sleep", "6000"],
                         cwd=WORK, env={**os.environ, "SPEX_ROOT": spe, "SPEX_NO_AUX": "1"},
                         stderr=subprocess.PIPE)
    ctl, ack = open(f"{WORK}/ctl", "w"), open(f"{WORK}/ack")
    answers = []
    for word in ("ping", "enable", "disable", "stop"):
        ctl.write(word + "\n")
        ctl.flush()
        answers.append(ack.readline())
    equal("--control answers each word", answers, ["ack\n"] * 4)
    err = p.communicate()[1].decode()
    check("--control: stop ends the program", p.returncode == -signal.SIGTERM and "wrote" in err,
          f"{p.returncode} {err}")


def test_stat():
    counting = machine("counting", {"arm_spe_0": (1, "0-1", TERMS)},
                       **{f"{DEVICES}/armv8_pmuv3_0/type": "1\n",
                          # of software: page faults and switches stand for SAMPLE_*
                          f"{DEVICES}/armv8_pmuv3_0/events/sample_pop": "event=0x2\n",
                          f"{DEVICES}/armv8_pmuv3_0/events/sample_collision": "event=0x3\n"})
    code, out, err = spex("stat", *EVENT, "--", "sh", "-c", "echo out; ls / >/dev/null; exit 3",
                          cwd=WORK, env={"SPEX_ROOT": counting, "SPEX_NO_AUX": "1", "TMPDIR": WORK})
    check("stat: the CPU's own counters, of the program and what it starts",
          code == 3 and out == b"out\n" and
          int(re.search(r"([\d,]+)  sample_pop", err).group(1).replace(",", "")) > 50 and
          "sample_collision" in err and
          "sample_feed" not in err and "collision rate" in err and "overhead" in err, err)
    check("stat: nothing is left", not any(f.startswith("spex-stat") for f in os.listdir(WORK)))
    code, out, err = spex("stat", *EVENT, "--", "true", cwd=WORK,
                          env={"SPEX_ROOT": spe, "SPEX_NO_AUX": "1", "TMPDIR": WORK})
    check("stat: a CPU that does not count them", code == 0 and "does not count them" in err, err)


def test_nodes():
    root = machine("nodes", {"arm_spe_0": (1, "0-1", TERMS)},
                   **{"sys/devices/system/memory/block_size_bytes": "8000000\n",
                      "sys/devices/system/node/online": "0,2\n",
                      "sys/devices/system/node/node0/cpulist": "0\n",
                      "sys/devices/system/node/node2/cpulist": "1\n",
                      "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:   1000 kB\n"
                      "Node 0 MemFree:   10 kB\n",
                      "sys/devices/system/node/node2/meminfo": "Node 2 MemTotal:   2000 kB\n"
                      "Node 2 MemFree:   20 kB\n",
                      "sys/devices/system/node/node0/memory8/state": "x",
                      "sys/devices/system/node/node2/memory70/state": "x"})
    record(root, *EVENT, "-o", "numa.data", "--", "true")
    text = run("perf", "report", "-i", "numa.data", "--header-only", "-I", cwd=WORK)[1].decode()
    check("nodes and blocks of memory are those of /sys",
          "# node0 meminfo  : total = 1000 kB, free = 10 kB" in text and
          "# node2 cpu list : 1" in text and re.search(r"0 \[128M\]: 8\n", text) and
          re.search(r"2 \[128M\]: 70\n", text), text[-900:])


def test_killed():
    p = subprocess.Popen([SPEX, "record", *EVENT, "-o", "k.data", "--", "sh", "-c",
                          "/bin/true; sleep 6000"],
                         cwd=WORK, env={**os.environ, "SPEX_ROOT": spe, "SPEX_NO_AUX": "1"},
                         stderr=subprocess.DEVNULL)
    until(lambda: os.path.exists(f"{WORK}/k.data") and comms("k.data").get("sleep"))
    child = subprocess.run(["pgrep", "-P", str(p.pid)], stdout=subprocess.PIPE).stdout.split()
    p.kill()
    p.wait()
    check("killed: what was there is in the file", comms("k.data")["true"] == 1,
          events("k.data", "COMM"))
    for c in child:
        subprocess.run(["pkill", "-P", c.decode()])
    whole("killed: perf and spex read it", "k.data")


def test_privilege():
    nobody = 65534
    os.chmod(WORK, 0o777)
    code, out, err = spex("record", *EVENT, "-o", "u.data", "--", "id", "-u", cwd=WORK,
                          env={"SPEX_ROOT": spe, "SPEX_NO_AUX": "1", "SUDO_UID": str(nobody),
                               "SUDO_GID": str(nobody)})
    check("under sudo the program is run as who called it",
          out == b"65534\n" and "--keep-root" in err, err)
    code, out, err = spex("record", *EVENT, "--keep-root", "-o", "u.data", "--", "id", "-u",
                          cwd=WORK, env={"SPEX_ROOT": spe, "SPEX_NO_AUX": "1",
                                         "SUDO_UID": str(nobody), "SUDO_GID": str(nobody)})
    check("--keep-root leaves it root", out == b"0\n", err)
    for level, args, words in [(3, ["--", "true"], []),
                               (1, ["-a", "--", "true"], ["whole CPUs", "CAP_PERFMON"]),
                               (3, ["-a", "--", "true"],
                                ["perf_event_paranoid is 3", "CAP_PERFMON"])]:
        root = machine(f"paranoid{level}", {"arm_spe_0": (1, "0-1", TERMS)},
                       **{"proc/sys/kernel/perf_event_paranoid": f"{level}\n"})
        run("chmod", "-R", "a+rX", WORK)
        p = subprocess.run([SPEX, "record", *EVENT, "-o", "n.data", *args], cwd=WORK, user=nobody,
                           group=nobody, extra_groups=[],
                           env={"PATH": os.environ["PATH"], "SPEX_ROOT": root, "SPEX_NO_AUX": "1"},
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        err = p.stderr.decode()
        if words:
            check(f"a user and {args[0]}: what stands in the way",
                  p.returncode == 1 and all(w in err for w in words), err)
    p = subprocess.run([SPEX, "record", *EVENT, "-o", "n.data", "-m", "256M", "--", "true"],
                       cwd=WORK, user=nobody, group=nobody, extra_groups=[],
                       env={"PATH": os.environ["PATH"], "SPEX_ROOT": spe, "SPEX_NO_AUX": "1"},
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK,
                                                             (65536, 65536)),
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    paranoid = int(open("/proc/sys/kernel/perf_event_paranoid").read())
    check("a user and large rings: what stands in the way", paranoid < 0 or p.returncode == 1 and
          all(w in p.stderr.decode() for w in ("perf_event_mlock_kb", "-m", "CAP_IPC_LOCK")
              if paranoid < 3), p.stderr.decode())


def allowed():
    """Whether this machine lets us record at all."""
    code, out, err = record(spe, *EVENT, "-o", "probe.data", "--", "true")
    return code == 0, err


ok, why = allowed()
if not ok or not shutil.which("perf"):
    skip("recordings", why.strip().splitlines()[-1] if why.strip() else "no perf here",
         machine=bool(shutil.which("perf")))
else:
    for test in (test_program, test_running, test_hotplug, test_bpf, test_limits, test_stat,
                 test_nodes, test_killed):
        test()
    if os.geteuid() == 0:
        test_privilege()
    else:
        skip("privileges", "only root can drop some", machine=True)
shutil.rmtree(WORK, ignore_errors=True)
done()
