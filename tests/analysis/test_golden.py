"""Exact output of every command at 80 and 140 columns, and the same in a real terminal.
SPEX_UPDATE_GOLDEN=1 writes the files anew."""
import re, shlex, time
from common import *

CASES = [
    ("report", "mixed", []),
    ("report-lines", "mixed", ["--sort", "srcline,op"]),
    ("annotate", "mixed", ["walk"]),
    ("mem", "mixed", []),
    ("c2c", "false", []),
    ("c2c-true", "true", []),
    ("c2c-nosource", "false-nosource", []),
    ("c2c-padded", "padded", []),
    ("branch", "mixed", []),
    ("script", "mixed", ["-n", "40"]),
    ("report-loss", "mixed-loss", []),
    ("report-untimed", "mixed-untimed", ["--op", "load", "--min-latency", "100"]),
]


def tidy(text):
    return re.sub(r"by LLVM \d+|by \S*objdump", "by LLVM", text)


def golden(name, text):
    path = f"{HERE}/golden/{name}.txt"
    if os.environ.get("SPEX_UPDATE_GOLDEN"):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").write(text)
    want = open(path).read() if os.path.exists(path) else ""
    diff = "" if text == want else run("diff", "-u", path, "-", stdin=text.encode())[1].decode()
    check(f"{name} as recorded", text == want, diff)


for name, scenario, args in CASES:
    command = name.split("-")[0]
    for columns in (80, 140):
        code, out, err = on(command, profile(scenario, 4000), *args, columns=columns)
        out = tidy(out)
        golden(f"{name}.{columns}", out)
        widest = max(map(len, out.splitlines()))
        if command != "script":
            check(f"{name} fits {columns} columns", widest <= columns, f"{widest}\n{out}")
        check(f"{name} ends well", code == 0 and "\033" not in out, err)

for columns in (80, 140):
    a, b = profile("mixed", 4000), profile("branches", 4000)
    code, out, err = on("diff", (a, b), columns=columns)
    golden(f"diff.{columns}", out)
    check(f"diff fits {columns} columns", max(map(len, out.splitlines())) <= columns, out)

# ---- a real terminal ----
if shutil.which("tmux"):
    for columns in (80, 140):
        for name, scenario, args in [c for c in CASES if c[0] in ("report", "annotate", "c2c")]:
            session = f"spex-{os.getpid()}-{name}-{columns}"
            tmux = ["tmux", "-L", session]
            line = " ".join(map(shlex.quote, [SPEX, name, "-i", profile(scenario, 4000), *SYMBOLS, *args]))
            env = {**os.environ, "HOME": DIR, "TERM": "xterm-256color"}
            env.pop("COLUMNS", None), env.pop("NO_COLOR", None)
            subprocess.run(tmux + ["-f", "/dev/null", "new-session", "-d", "-s", "t", "-x", str(columns), "-y",
                                   "60", f"cd {DIR}; unset COLUMNS; {line}; tput civis; echo END; sleep 30"], env=env, check=True)
            for _ in range(100):
                shown = subprocess.run(tmux + ["capture-pane", "-p", "-t", "t"], capture_output=True, text=True).stdout
                if "END" in shown:
                    break
                time.sleep(0.05)
            colour = subprocess.run(tmux + ["capture-pane", "-p", "-e", "-t", "t"], capture_output=True, text=True).stdout
            subprocess.run(tmux + ["kill-server"], capture_output=True)
            text = tidy(shown.split("END")[0])
            want = open(f"{HERE}/golden/{name}.{columns}.txt").read()
            check(f"terminal of {columns} columns shows {name} as it is in a pipe", text == want,
                  f"{text}\n-- want\n{want}")
            check(f"{name} has colour on a terminal of {columns}", "\033[" in colour, colour)
else:
    skip("tmux", "tmux is not installed")

code, out, err = on("report", profile("mixed", 4000), columns=80)
code, plain, err = run("script", "-qec", f"cd {DIR}; stty cols 80; unset COLUMNS; NO_COLOR=1 SPEX_PAGER= {SPEX} report -i mixed.data {' '.join(SYMBOLS)}",
                       "/dev/null")
check("NO_COLOR is honoured", b"\033[" not in plain, plain)
done()
