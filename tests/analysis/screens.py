"""Pages that show commands with what they print: runs each command line, in order, and compares.

Threads never meet in quite the same way twice, so the words are compared, not the numbers.
SPEX_UPDATE_TUTORIAL=1 writes the output into the page."""
import re
from common import *


def can_play():
    """Reports why the commands of a page cannot be run here; true if they can."""
    if not shutil.which("aarch64-linux-gnu-gcc") or not shutil.which("qemu-aarch64") \
            or b"__asan_init" in open(SPEX, "rb").read():
        skip("the page", "needs the cross compiler, qemu-aarch64 and a build without sanitizer")
        return False
    return True


def told_anywhere(finding):
    """What takes little of the time may be told on one machine and not on another."""
    shares = re.findall(r"(\d+)%\s+of\s+the\s+time", finding[0])
    return finding[0] if shares and int(shares[-1]) >= 20 else ""


def large(text):
    """Without findings of little time."""
    return re.sub(r"^\d+\. .*\n(^   .*\n)*", told_anywhere, text, flags=re.M)


def words(text):
    """(words, those of lines that are not remarks)"""
    text = re.sub(r"LLVM \d+|\S*objdump", "", large(text))
    return [set(re.findall(r"[A-Za-z_]{3,}", re.sub(left_out, "", text, flags=re.M)))
            for left_out in ("^# ~:.*\n(#   .*\n)*", "^#.*\n")]


def compare(command, shown, got):
    """Of the page's words at most one in seven is missing; outside the remarks, which one sample
    more or less may bring, at most one in seven is new."""
    (a, lines_a), (b, lines_b) = words(shown), words(got)
    check(f"{command.strip()} prints what the page shows",
          len(a - b) <= len(a) / 7 and len(lines_b - lines_a) <= max(3, len(lines_b) / 7),
          f"missing {a - b}, new {b - a}\ngot:\n{got}\npage:\n{shown}")


def play(page):
    """Runs `$ ...` of the page's plain fences in DIR; `...` in the output stands for what is left
    out. Returns what each command printed."""
    env = {**os.environ, "COLUMNS": "100", "HOME": DIR, "PATH": f"{DIR}:{os.environ['PATH']}"}
    new, printed = [], []
    fence = command = None
    for line in open(page).read().splitlines(keepends=True) + ["```\n"]:
        if command and (line.startswith("```") or line.startswith("$ ")):
            # the command and the output that the page shows are complete: run it
            p = subprocess.run(["sh", "-c", command[2:]], cwd=DIR, env=env,
                               stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            check(f"{command.strip()} succeeds", p.returncode == 0, p.stdout)
            printed.append(p.stdout)
            if not os.environ.get("SPEX_UPDATE_TUTORIAL"):
                compare(command, shown, p.stdout)
            new += [command, p.stdout]
            command = None
        if line.startswith("```"):
            fence = None if fence else line.strip()
            new.append(line)
        elif fence == "```" and line.startswith("$ "):
            command, shown = line, ""
        elif command:
            shown += line
        else:
            new.append(line)
    if os.environ.get("SPEX_UPDATE_TUTORIAL"):
        open(page, "w").write("".join(new[:-1]))
    return printed
