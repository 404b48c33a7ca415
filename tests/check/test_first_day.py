"""The commands of the first day: run, open, doctor; stat's data, diff --fail-over, progress."""
import pty
import shutil

from check import *

need_engine("the commands of the first day")
TEMPORARY = os.path.join(WORK, "tmp")
os.mkdir(TEMPORARY)
HERE = {"TMPDIR": TEMPORARY, "DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""}
work = compile_c("work.c", "-static")


def left():
    names = sorted(os.listdir(TEMPORARY))
    for name in names:
        os.unlink(os.path.join(TEMPORARY, name))
    return names


# ---- run ----
code, out, err = spex("run", "-c", "256", "--", work, env=HERE)
match = re.search(r"stays in (\S+);", err)
check("run: the program's output, the report, and where the profile is",
      code == 0 and re.search(r"^[0-9a-f]{16}\n", out.decode()) and b"polish" in out and match and
      os.path.exists(match[1]), out.decode() + err)
equal("run: the profile alone stays", [n[:10] for n in left()], ["spex-work-"])
for view, part in (("--mem", b"source"), ("--c2c", b""), ("--branch", b"branch")):
    code, out, err = spex("run", view, "-c", "256", "--", work, env=HERE)
    check(f"run {view}", code == 0 and part in out, out.decode() + err)
left()
code, out, err = spex("run", "--html", "-c", "256", "--", work, env=HERE)
check("run --html: the page is written, and said where", code == 0 and
      [n[-5:] for n in left()] == [".data", ".html"] and "open it in a browser" in err, err)
slow = compile_c("slow.c")
code, out, err = spex("run", "-c", "65536", "--", slow, "say", "fail", env=HERE)
check("run: the exit status is the program's", code == 3 and b"work" in out, (code, err))
left()
code, out, err = spex("run", "--", os.path.join(WORK, "nothing"), env=HERE)
check("run: no such program, and nothing stays", code == 2 and "nothing" in err and not left(), err)
check("run: usage", spex("run")[0] == 2 and spex("run", "--mem", "--c2c", "--", work)[0] == 2)

# ---- open ----
profile = os.path.join(WORK, "perf.data")
spex("record", "-c", "256", "-o", profile, "--", work)
code, out, err = spex("open", profile, env=HERE)
check("open without a desktop: the report, and why", code == 0 and b"polish" in out and
      "no browser" in err and not left(), err)
browser = os.path.join(WORK, "browser")
with open(browser, "w") as f:
    f.write("#!/bin/sh\necho \"$1\" > $0.shown\nhead -c 15 \"$1\" >> $0.shown\n")
os.chmod(browser, 0o755)
code, out, err = spex("open", profile, env={**HERE, "BROWSER": browser})
shown = open(browser + ".shown").read() if os.path.exists(browser + ".shown") else ""
check("open: the page, in the browser", code == 0 and
      shown.startswith(TEMPORARY) and "<!DOCTYPE html>" in shown, shown + err)
left()
code, out, err = spex("open", "-t", profile, env={**HERE, "BROWSER": browser})
check("open -t: the report", code == 0 and b"polish" in out and not left(), err)
code, out, err = spex("open", "-o", os.path.join(WORK, "page.html"), profile, env=HERE)
check("open -o: the page stays there", code == 0 and
      os.path.exists(os.path.join(WORK, "page.html")), err)
code, out, err = spex("open", os.path.join(WORK, "nothing"), env={**HERE, "BROWSER": browser})
check("open: no such file, and nothing stays", code == 1 and not left(), err)

# ---- doctor ----
code, out, err = spex("doctor", env=HERE)
check("doctor: what can be done", code == 0 and b"Programs can be recorded" in out, out)
code, out, err = spex("doctor", "--format", "json", env=HERE)
pieces = {p["name"]: p for p in json.loads(out)["pieces"]}
check("doctor: QEMU, plugin, compiler are here, SPE is not, and why",
      all(pieces[n]["here"] for n in ("qemu", "plugin", "sysroot", "compiler", "disassembler")) and
      not pieces["spe"]["here"] and "Arm machine" in pieces["spe"]["found"], pieces)
check("doctor: what is missing says what that costs, and how to get it",
      not pieces["browser"]["here"] and pieces["browser"]["without"] and pieces["browser"]["get"])
check("doctor: names of pieces, for scripts", spex("doctor", "qemu", "plugin")[0] == 0 and
      spex("doctor", "qemu", "browser", env=HERE)[0] == 1)
check("doctor: DuckDB by its library", spex("doctor", "duckdb",
                                            env={"SPEX_DUCKDB": "/nowhere"})[0] == 1)
code, out, err = spex("doctor", env={**HERE, "PATH": "/nowhere", "HOME": WORK,
                                     "XDG_DATA_HOME": WORK})
check("doctor: without QEMU nothing can be recorded", code == 1 and
      b"Nothing can be recorded" in out and b"apt install qemu-user" in out, out)
code, out, err = spex("doctor", "qmu")
check("doctor: a name that is none", code == 2 and "did you mean 'qemu'" in err, err)

# ---- stat ----
code, out, err = spex("stat", "--format", "json", "--", work)
stat = json.loads(err)
values = {c["name"]: c["value"] for c in stat["counters"]}
check("stat --format json", code == 0 and stat["schema"] == "spex.stat.1" and
      values["operations"] > 1000000 and values["SAMPLE_POP"] == values["operations"], err)
code, out, err = spex("stat", "--format", "csv", "--", work)
lines = err.splitlines()
check("stat --format csv", lines[0] == "name,value,interval,text" and
      f"operations,{values['operations']}," in err, err)
code, out, err = spex("stat", "-x", ";", "--", work)
check("stat -x: the fields of perf", f"{values['operations']};;operations;" in err and
      all(len(l.split(";")) == 7 for l in err.splitlines()), err)
code, out, err = spex("stat", "-i", profile, "--format", "json")
check("stat -i --format json: on standard output", code == 0 and
      {"time"} < {c["name"] for c in json.loads(out)["counters"]} <=
      set(values) | {"time", "samples", "loads", "stores", "branches"}, err + out.decode())

# ---- diff --fail-over ----
more = compile_c("work.c", "-static", f"-DEXTRA={300 * ONE_TENTH}", directory="more")
other = os.path.join(WORK, "other.data")
spex("record", "-c", "256", "-o", other, "--", more)
for percent, want in (("1%", 1), ("90%", 0)):
    code, out, err = spex("diff", "--fail-over", percent, profile, other)
    check(f"diff --fail-over {percent}: exit status {want}", code == want and b"polish" in out and
          (f"beyond noise and --fail-over {percent}" in err) == (want == 1), (code, err))
check("diff --fail-over: the same and less are no failure",
      spex("diff", "--fail-over", "0", profile, profile)[0] == 0 and
      spex("diff", "--fail-over", "0", other, profile)[0] == 0)
check("diff --fail-over: usage", spex("diff", "--fail-over", "x", profile, other)[0] == 2)


# ---- progress ----
def on_terminal(*args, output=None):
    """What a terminal shows; output: standard output goes there."""
    pid, fd = pty.fork()
    if pid == 0:
        if output:
            os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT), 1)
        os.execv(SPEX, [SPEX, *args])
    text = b""
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:
            piece = b""
        if not piece:
            break
        text += piece
    os.close(fd)
    os.waitpid(pid, 0)
    return text.decode(errors="replace")


SHOWN = r"\r[\d.]+ m?s modelled, [\d,]+ samples, [\d.]+[kM]? a second"
how = ["record", "--model", "full", "-c", "4096", "-o", os.path.join(WORK, "p.data"), "--", slow]
text = on_terminal(*how)
check("record on a terminal: modelled time, samples, rate, and nothing of it stays",
      re.search(SHOWN, text) and re.search(r"\r\x1b\[Kspex: ", text), text[:500])
text = on_terminal(*how, "say")
check("record: none after the program has written, whose words stay",
      re.search(r"halfway(\r\n)?spex: |halfwayspex", text) and
      not re.search(SHOWN, text[text.index("halfway"):]), repr(text[-300:]))
code, out, err = spex(*how)
check("record in a pipe: nothing", "modelled" not in err, err)
base = os.path.join(WORK, "p.json")
text = on_terminal("check", "--baseline", base, "--update", "--repeat", "2", "-j", "1", "--", slow)
check("check on a terminal: which of how many, and time left",
      re.search(r"\rruns: 1 of 2, about \d+ s left", text), text[:500])
text = on_terminal("whatif", "--cpu", "neoverse-n1,neoverse-n2", "-j", "1", "--", slow,
                   output=os.path.join(WORK, "out"))
check("whatif on a terminal: the same", re.search(r"\rvariants: 1 of 2, about \d+ s left", text),
      text[:500])
done()
