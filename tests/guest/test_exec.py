"""Programs that a program starts: the same recording, and nothing that they could notice."""
import json

from guest import *

need_engine("exec")
starts = build("starts")
static = build("starts", "-static", output="starts-static")
lonely = build("starts", "-Wl,--dynamic-linker=/nonexistent/ld.so", output="lonely")


def processes(path):
    """Samples by (pid, name), from spex script."""
    code, out, err = spex("script", "-i", path, "--format", "json")
    seen = {}
    for line in out.decode().splitlines():
        r = json.loads(line)
        key = (r["pid"], r["comm"])
        seen[key] = seen.get(key, 0) + 1
    return seen


def named(path):
    """Share of the samples whose file is known; of stripped ones the functions are not."""
    code, out, err = spex("script", "-i", path, "--format", "json")
    rows = [json.loads(l) for l in out.decode().splitlines()]
    return sum(1 for r in rows if r.get("dso")) / max(1, len(rows))


def file(name, text):
    path = os.path.join(WORK, name)
    open(path, "w").write(text)
    os.chmod(path, 0o755)
    return path


def good(what, path, names):
    check(f"{what}: verify", *verified(path))
    seen = processes(path)
    equal(f"{what}: processes by name", sorted({n for _, n in seen}), sorted(names))
    share = named(path)
    check(f"{what}: samples are named", share == 1, share)
    return seen


# ---- one process, another program ----
code, out, err, path = record("-c", "1024", starts, "exec", starts, "exit", "42")
equal("exec: exit status of the second program", code, 42)
seen = good("exec", path, ["starts"])
equal("exec: the process keeps its number", {p for p, _ in seen}, {1000})
equal("exec: and says that it is another program",
      len([l for l in events(path, "COMM") if "exec" in l]), 2)
code, out, err, path = record("-c", "1024", starts, "exec", static, "exit", "4")
equal("exec of a static program",
      (code, sorted({n for _, n in good("static", path, ["starts", "starts-static"])})),
      (4, ["starts", "starts-static"]))
code, out, err, path = record(starts, "execveat", static, "exit", "4")
equal("execveat of a descriptor", (code, sorted({n for _, n in processes(path)})),
      (4, ["starts", "starts-static"]))
code, out, err, path = record(starts, "exec", starts, "kill")
equal("exec: a signal ends both", code, -15)
code, out, err, path = record(starts, "exec", "/nonexistent", "x")
equal("exec of nothing", (code, out), (9, b"No such file or directory\n"))
code, out, err, path = record(starts, "exec", WORK, "x")
equal("exec of a directory", (code, out), (9, b"Permission denied\n"))
code, out, err, path = record(starts, "exec", lonely, "x")
equal("exec of a program without its dynamic linker", (code, out),
      (9, b"No such file or directory\n"))
check("and the run goes on", *verified(path))
code, out, err, path = record("-c", "1024", starts, "again", "100")
equal("a program that executes itself a hundred times", code, 5)
seen = good("again", path, ["starts"])
check("again: samples of all of them in one process",
      {p for p, _ in seen} == {1000} and sum(seen.values()) > 50000, seen)
code, truth, err, path = record("--truth", "-c", "1024", starts, "exec", starts, "exit", "0")
rows = [l.split("\t") for l in open(path + ".truth") if l[0] != "#"]
code, _, err = spex("stat", "-c", "1024", starts, "exec", starts, "exit", "0")
equal("exec: exact counts are those of both programs", sum(int(r[2]) for r in rows),
      counts(err)["SAMPLE_POP"])

# ---- what they get is what they were given ----
told = os.path.join(WORK, "told")
code, out, err, path = record(starts, "spawn", starts, told)
equal("posix_spawn with file actions: status", code, 7)
text = open(told).read()
equal("posix_spawn: arguments, environment, descriptors, signals", text.splitlines(),
      ["argument 0: other name", "argument 1: tell", "argument 2: a b", "argument 3: ",
       "variable: B=2,3", "variable: A=1", "descriptor 9", "signals: 1 1"])
equal("posix_spawn: processes", sorted(p for p, _ in good("posix_spawn", path, ["starts"])),
      [1000, 1001])
code, out, err, path = record(starts, "storm")
equal("fork storm: statuses", code, 48)
seen = good("fork storm", path, ["starts"])
equal("fork storm: processes", len(seen), 33)

# ---- scripts, shells, programs of the host ----
one = file("one.sh", f"#!{starts} exec\n")
two = file("two.sh", f"#!{one}\n")
code, out, err, path = record("-c", "1024", starts, "exec",
                              file("tell.sh", f"#!{starts} tell\nnothing\n"), "x  y", "z")
lines = [l for l in out.decode().splitlines() if l.startswith("argument")]
equal("a script: arguments as the kernel makes them", (code, lines),
      (7, [f"argument 0: {starts}", "argument 1: tell", f"argument 2: {WORK}/tell.sh",
           "argument 3: x  y", "argument 4: z"]))
equal("a script: its name is that of the process", sorted({n for _, n in processes(path)}),
      ["starts", "tell.sh"])
code, out, err, path = record(starts, "exec", file("bad.sh", "#!/nonexistent/interpreter\n"), "x")
equal("a script without its interpreter", (code, out), (9, b"No such file or directory\n"))
code, out, err, path = record("sh", "-c", f"{starts} exit 3")
if "ptrace is not allowed" in err:
    skip("programs of this machine that start others", "ptrace is not allowed here", machine=True)
    done()
equal("sh -c ./prog", code, 3)
code, out, err, path = record(starts, "system",
                              f"{starts} exit 3; {static} kill; exec {starts} exit 6")
equal("system: status", code, 6)
seen = good("system", path, ["starts", "starts-static"])
equal("system: processes", len({p for p, _ in seen}), 4)
check("system: the shell is named as not profiled", re.search(r"not profiled: sh$", err, re.M), err)
clean = {}
for r in packets(path):
    clean.setdefault(r["context"], []).append(r["ts"])
check("system: one after the other in modelled time", max(clean[1002]) < min(clean[1003]) and
      max(clean[1002]) < max(clean[1001]), {k: (min(v), max(v)) for k, v in clean.items()})
code, out, err, path = record("-c", "1024", starts, "shells", f"{starts} exit 2")
equal("shells one after the other: statuses", code, 16)
good("shells", path, ["starts"])
code, out, _ = spex("script", "-i", path, "--format", "json")
cpus = {json.loads(l)["cpu"] for l in out.decode().splitlines()}
check("shells: they leave their CPU numbers to others", cpus <= {0, 1, 2}, cpus)
check("shells: and are counted", re.search(r"not profiled: sh \(8 times\)$", err, re.M), err)
odd = file("odd", "no program\n")
code, out, err, path = record("-c", "1024", starts, "exec", odd, "x")
check("exec of what the host refuses: the run goes on",
      code == 9 and out == b"Exec format error\n" and "not profiled" not in err and
      verified(path)[0] and sum(processes(path).values()) > 400, (code, out, err))
script = file("four.sh", f"""#!/bin/sh
cd {WORK}
./starts exit 1; echo $?
./starts exec ./starts-static exit 2; echo $?
(./starts-static kill); echo $?
./lonely 2>/dev/null; echo $?
echo through | ./starts tell | grep -c variable
env -i X=1 ./starts tell | grep variable
exec ./starts exit 5
""")
code, out, err, path = record("-c", "1024", script)
lines = out.decode().splitlines()
equal("a shell script that starts programs: statuses and output", (code, lines[:4], lines[5:]),
      (5, ["1", "2", "143", "127"], ["variable: X=1"]))
equal("and its environment is whole", lines[4],
      str(len(os.environ) + (0 if "OLDPWD" in os.environ else 1) +
          (0 if "PWD" in os.environ else 1)))
seen = good("shell script", path, ["starts", "starts-static"])
equal("shell script: processes", len({p for p, _ in seen}), 6)
code, out, err, path = record("sh", "-c", "exit 3")
check("a host's program that starts none: said", code == 1 and "started none" in err, (code, err))
code, out, err, path = record(script, name="left")
equal("nothing stays behind", [n for n in os.listdir(WORK) if ".run-" in n], [])
done()
