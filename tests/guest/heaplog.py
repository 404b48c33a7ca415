"""What record --allocs says against a program that logs its own heap (programs/allocs.cc)."""
from guest import *

CXX = "aarch64-linux-gnu-g++"


def need_cxx(what):
    need_engine(what)
    if not shutil.which(CXX):
        skip(what, f"no {CXX} (package g++-aarch64-linux-gnu)")
        done()


def build_allocs(name, *flags):
    out = os.path.join(WORK, name)
    code, _, err = run(CXX, "-std=c++17", "-O2", "-g", "-Wno-alloc-size-larger-than", "-o", out,
                       os.path.join(HERE, "programs", "allocs.cc"), "-pthread", *flags)
    if code:
        check(f"build {name}", False, err)
        done()
    return out


def allocations(path, sym=True):
    """By (tid, time): (block, size, number, names or addresses of the site), as perf reads them."""
    code, out, err = run("perf", "script", "-i", path, "-F",
                         "tid,time,event,addr,period,weight,ip,sym", "--ns", "--no-inline",
                         "--itrace=")
    found, current = {}, None
    for line in out.decode(errors="replace").splitlines():
        m = re.match(r"\s*(\d+)\s+(\d+)\.(\d+):\s+(\d+)\s+spe-allocs:u:\s+([0-9a-f]+)\s+(\d+)",
                     line)
        if m:
            current = []
            found.setdefault((int(m[1]), int(m[2]) * 10**9 + int(m[3])), []).append(
                (int(m[5], 16), int(m[4]), int(m[6]), current))
        elif (line.strip() and line[0] in "\t " and current is not None and
              not re.match(r"\s*\d+\s+\d+\.\d+:", line)):
            current.append(line.split()[sym])
        else:
            current = None
    return found


def uses(path):
    """Of each thread in order of time: (time, data address) of what touch() did."""
    code, out, err = spex("script", "-i", path, "--format", "csv", "-F", "pid,tid,time,pc,va",
                          "--symbol", "touch")
    threads = {}
    for r in (l.split(",") for l in out.decode().splitlines()[1:]):
        if r[4]:
            threads.setdefault((int(r[0]), int(r[1])), []).append((int(r[2]), int(r[4], 16)))
    return threads


def compare(path, log, callers):
    """Problems; and how many uses were compared. Each is looked for in the log from
    where the last was found."""
    found, threads, blocks, problems, compared = allocations(path), uses(path), {}, [], 0
    logs = {}
    for line in log.splitlines():
        process, thread, ident, start, size, site = line.split()
        logs.setdefault((process,
                         int(thread)), []).append((int(ident), int(start, 16), int(size), site))
    pids = sorted({p for p, _ in threads})
    for (pid, tid), samples in threads.items():
        process = "parent" if pid == pids[0] else "child"
        entries = logs[process, tid - pid if process == "parent" else 0]
        at = 0
        for when, va in samples:
            got = [a for a in found.get((tid, when), []) if a[0] <= va < a[0] + a[1]]
            if len(got) != 1:
                problems.append(("no block", tid, when, hex(va)))
                continue
            start, size, number, names = got[0]
            while at < len(entries) and (entries[at][1:3] != (start, size) or
                                         not start <= va < start + size):
                at += 1
            if at == len(entries):
                problems.append(("not in the log from here on", tid, when, hex(va), hex(start),
                                 size, names))
                break
            ident, _, _, site = entries[at]
            if blocks.setdefault((process, ident), number) != number:
                problems.append(("one block, two numbers", ident, number, blocks[process, ident]))
            if names[:1] != [site] and names[:2] != ["stored", site]:
                problems.append(("site", names, site))
            if callers and "main" not in names and "work" not in names:
                problems.append(("callers", names))
            compared += 1
    numbers = [(p, n) for (p, _), n in blocks.items()]
    if len(set(numbers)) != len(numbers):
        problems.append("two blocks, one number")
    return problems, compared
