"""What a person sees of five profiles at 80, 120 and 200 columns, and the same in a real terminal.

A file of golden/ has one screen per width; a width at which nothing changes has none of its own.
`make screens` writes them anew: read what changed by eye."""
import re, shlex, time
from common import *

WIDTHS = (80, 120, 200)
# Two were captured on a Kunpeng 920 (tests/vectors), whose programs are not
# at hand; three are made.
CAPTURES = {"kunpeng-a": "kunpeng920_branch_a.v2.perf.data",
            "kunpeng-b": "kunpeng920_branch_b.v1.perf.data"}
PROFILES = ("mixed", "lock", "branches", "kunpeng-a", "kunpeng-b")
# Commands of every profile: name of the screen, command, arguments; does the width matter?
SCREENS = [
    ("report", "report", [], True),
    ("annotate", "annotate", [], True),
    ("mem", "mem", [], True),
    ("c2c", "c2c", [], True),
    ("branch", "branch", [], True),
    ("diff", "diff", [], True),
    ("script", "script", ["-n", "12"], False),
    ("dump", "dump", [], False),
    ("verify", "verify", [], False),
]
# And some that one profile shows.
MORE = [
    ("mixed", "report-lines", "report", ["--sort", "srcline,op"], True),
    ("mixed", "report-slices", "report", ["--slices", "4"], True),
    ("mixed", "report-fields", "report", ["-F", "samples,l1_miss"], True),
    ("mixed", "annotate-walk", "annotate", ["walk"], True),
    ("mixed-loss", "report", "report", [], True),
    ("mixed-untimed", "report", "report", ["--op", "load", "--min-latency", "100"], True),
    ("false", "c2c", "c2c", [], True),
    ("false-nosource", "c2c", "c2c", [], True),
    ("objects", "c2c", "c2c", [], True),
    ("true", "c2c", "c2c", [], True),
    ("padded", "c2c", "c2c", [], True),
]
LINES = 12  # of what is long


def file_of(name):
    if name not in CAPTURES:
        return profile(name, 4000)
    path = f"{DIR}/{name}.data"
    if not os.path.exists(path):
        shutil.copy(f"{VECTORS}/{CAPTURES[name]}", path)
    return f"{name}.data"


def tidy(text):
    return re.sub(r"by LLVM \d+|by \S*objdump", "by LLVM", text)


def screen(name, command, args, columns):
    if command in ("dump", "verify"):
        code, out, err = spex(command, file_of(name), *args, cwd=DIR,
                              env={"COLUMNS": str(columns), "HOME": DIR})
        out = "".join(out.decode().splitlines(keepends=True)[:LINES]) + err
    elif command == "diff":
        code, out, err = on("diff",
                            (file_of("mixed" if name != "mixed" else "branches"), file_of(name)),
                            *args, columns=columns)
    else:
        code, out, err = on(command, file_of(name), *args, columns=columns)
    return code, tidy(out), err


def golden(name, text):
    path = f"{HERE}/golden/{name}.txt"
    if os.environ.get("SPEX_UPDATE_GOLDEN"):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").write(text)
    want = open(path).read() if os.path.exists(path) else ""
    diff = "" if text == want else run("diff", "-u", path, "-", stdin=text.encode())[1].decode()
    check(f"{name} as recorded", text == want, diff)


def screens(name, title, command, args, wide):
    shown, last = [], None
    for columns in WIDTHS if wide else WIDTHS[:1]:
        code, out, err = screen(name, command, args, columns)
        check(f"{title} of {name} ends well",
              code == (1 if command == "verify" and "violation" in out and
                       " 0 violations" not in out else 0) and "\033" not in out, f"{code} {err}")
        if wide:
            widest = max(map(len, out.splitlines()))
            check(f"{title} of {name} fits {columns} columns", widest <= columns,
                  f"{widest}\n{out}")
        if out != last:
            shown.append((f"===== {columns} columns\n" if wide else "") + out)
        last = out
    golden(f"{name}-{title}", "".join(shown))


for name in PROFILES:
    for title, command, args, wide in SCREENS:
        screens(name, title, command, args, wide)
for name, title, command, args, wide in MORE:
    screens(name, title, command, args, wide)

# ---- a real terminal ----
if shutil.which("tmux"):
    for columns in (80, 120):
        for name, command, args in (("mixed", "report", []), ("mixed", "annotate", ["walk"]),
                                    ("false", "c2c", [])):
            session = f"spex-{os.getpid()}-{command}-{columns}"
            tmux = ["tmux", "-L", session]
            line = " ".join(map(shlex.quote, [SPEX, command, "-i", file_of(name), *SYMBOLS, *args]))
            env = {**os.environ, "HOME": DIR, "TERM": "xterm-256color"}
            env.pop("COLUMNS", None), env.pop("NO_COLOR", None)
            subprocess.run(
                tmux + ["-f", "/dev/null", "new-session", "-d", "-s", "t", "-x", str(columns), "-y",
                        "60", f"cd {DIR}; unset COLUMNS; {line}; tput civis; echo END; sleep 600"],
                env=env, check=True)
            while True:
                shown = subprocess.run(tmux + ["capture-pane", "-p", "-t", "t"],
                                       capture_output=True, text=True).stdout
                if "END" in shown:
                    break
                time.sleep(0.05)
            colour = subprocess.run(tmux + ["capture-pane", "-p", "-e", "-t", "t"],
                                    capture_output=True, text=True).stdout
            subprocess.run(tmux + ["kill-server"], capture_output=True)
            text = tidy(shown.split("END")[0])
            want = screen(name, command, args, columns)[1]
            check(f"terminal of {columns} columns shows {command} as it is in a pipe", text == want,
                  f"{text}\n-- want\n{want}")
            check(f"{command} has colour on a terminal of {columns}", "\033[" in colour, colour)
else:
    skip("tmux", "tmux is not installed")

# ---- off a terminal: a width that a person can read, and whole names for those who search ----
code, out, err = on("report", file_of("mixed"))
check("off a terminal lines are readable", max(map(len, out.splitlines())) <= 120, out)
code, out, err = on("report", file_of("mixed"), "--sort",
                    ",".join(["srcline", "symbol", "dso", "comm", "op"]))
check("and names are whole", ".." not in out, out)
code, plain, err = run("script", "-qec", f"cd {DIR}; stty cols 80; unset COLUMNS; NO_COLOR=1 "
                       f"SPEX_PAGER= {SPEX} report -i mixed.data {' '.join(SYMBOLS)}",
                       "/dev/null")
check("NO_COLOR is honoured", b"\033[" not in plain, plain)
done()
