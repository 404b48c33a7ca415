import fcntl, os, pty, re, select, shutil, struct, subprocess, sys, tempfile, termios
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *



def lint(name, page):
    """The text of a man page; groff must find no mistake in it."""
    if not shutil.which("man"):
        return skip(f"man page {name}", "man is not installed")
    code, text, err = run("man", "--warnings", "--nh", "--nj", "-l", "-", stdin=page,
                          env={"MANROFFSEQ": "", "LC_ALL": "C.UTF-8", "MANWIDTH": "80"})
    check(f"man page {name} has no mistakes, and a name that apropos finds",
          code == 0 and not err and re.search(rb"^\.SH NAME\nspex", page, re.M), err)
    return text


def same_words(name, text):
    """Help and man page of a command: the same words, but for headings and places of breaks."""
    def words(text):
        return set(re.findall(r"[\w.]+", re.sub(r".\x08", "", text.decode())))
    page = lint(f"spex-{name}", spex("help", "--man", name)[1])
    if page:
        missing = words(text) - words(page) - {"Usage", "Options", name}
        check(f"man spex-{name} says what spex help {name} says", not missing, sorted(missing))


code, out, err = spex("--version")
check("version", code == 0 and out.startswith(b"spex "), out)
code, out, err = spex("halp")
check("unknown command names the nearest", code == 2 and "did you mean 'help'" in err, err)
code, out, err = spex("help", "--mann")
check("unknown option names the nearest", code == 2 and "did you mean '--man'" in err, err)
code, out, err = spex()
check("no command is a usage error", code == 2 and out == b"", err)
code, out, err = spex("help")
check("help goes to stdout", code == 0 and b"Usage: spex" in out and err == "", out)
code, man, err = spex("help", "--man")
code, comp, err = spex("help", "--completion", "bash")
code, zsh, err = spex("help", "--completion", "zsh")
code, fish, err = spex("help", "--completion", "fish")
code, names, err = spex("help")
for line in names.decode().partition("Topics:")[0].splitlines():
    if line.startswith("  ") and line[2] != " ":
        name = line.split()[0]
        check(f"the man page of spex and completion know {name}",
              f".BR spex\\-{name} (1)".encode() in man and f"    {name}) options".encode() in comp
              and f"    {name}) _arguments".encode() in zsh and f"-a {name} -d".encode() in fish)
        code, out, err = spex(name, "--help")
        same_words(name, out)
        check(f"{name} --help", code == 0 and out.startswith(f"spex {name} - ".encode()), out)
        check(f"{name} help fits 80 columns", max(len(l) for l in out.decode().splitlines()) <= 80,
              out)
for line in names.decode().partition("Topics:")[2].splitlines():
    if line.startswith("  "):
        code, out, err = spex("help", line.split()[0])
        check(f"help topic {line.split()[0]}", code == 0 and len(out.splitlines()) > 5, err)
code, out, err = run("bash", "-n", "-c", comp.decode())
check("completion is valid bash", code == 0, err)
words = run("bash", "-c", comp.decode() + """
COMP_WORDS=(spex rep) COMP_CWORD=1; _spex; echo "${COMPREPLY[*]}"
COMP_WORDS=(spex dump --style '') COMP_CWORD=3; _spex; echo "${COMPREPLY[*]}"
COMP_WORDS=(spex report --so) COMP_CWORD=2; _spex; echo "${COMPREPLY[*]}" """)[1].decode().split(
    "\n")
check("bash completes commands, values and options",
      words[0] == "report" and "perf" in words[1].split() and words[2] == "--sort --source", words)
for shell, text in (("zsh", zsh), ("fish", fish)):
    if shutil.which(shell):
        with tempfile.NamedTemporaryFile(suffix=shell) as f:
            f.write(text)
            f.flush()
            code, out, err = run(shell, "-n", f.name)
        check(f"completion is valid {shell}", code == 0, err)
    else:
        skip(f"completion is valid {shell}", f"{shell} is not installed")
code, out, err = spex("help", "--completion", "csh")
check("completion for an unknown shell is refused", code == 2 and "bash, zsh, fish" in err, err)
for page in ((), ("formats",)):
    lint("spex" + "".join("-" + name for name in page), spex("help", "--man", *page)[1])

code, out, err = spex("rep")
check("the beginning of a command names it", code == 2 and "did you mean 'report'" in err, err)
for words in (["report", "-h"], ["mem", "report", "--help"], ["record", "-h"]):
    code, out, err = spex(*words)
    check(f"{' '.join(words)} is help",
          code == 0 and out.startswith(f"spex {words[0]} - ".encode()), err)
for words in (["report", "--stdio", "-i", "nowhere"], ["mem", "report", "-i", "nowhere"],
              ["c2c", "report", "--stdio", "-i", "nowhere"]):
    code, out, err = spex(*words)
    check(f"{' '.join(words)} is understood as in perf", code == 1 and "nowhere" in err, err)
for words in (["mem", "record", "--", "ls"], ["c2c", "record"]):
    code, out, err = spex(*words)
    check(f"{' '.join(words)}: what records", code == 2 and "'spex record -- PROGRAM'" in err, err)
with tempfile.TemporaryDirectory() as empty:
    code, out, err = spex("report", cwd=empty)
    check("no profile: what makes one",
          code == 1 and "cannot read perf.data" in err and "spex record -- PROGRAM" in err, err)
    code, out, err = spex("report", "-i", "perf.data2", cwd=empty)
    check("unless one was named", code == 1 and "spex record" not in err, err)
code, out, err = spex("record", "--cpu", "neoverse-n9", "--", "ls")
check("a CPU that is not there: where they stand", code == 2 and "spex help cpus" in err, err)


def on_terminal(*args, **env):
    """What a terminal of 70 columns shows."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(env)
        os.environ.pop("COLUMNS", None)
        os.execv(SPEX, [SPEX, *args])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 70, 0, 0))
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
    return os.waitpid(pid, 0)[1], text.decode()


status, text = on_terminal("help", SPEX_PAGER="tr a-z A-Z")
check("a terminal gets its text through the pager", status == 0 and "USAGE: SPEX" in text, text)
status, text = on_terminal("--no-pager", "help", SPEX_PAGER="tr a-z A-Z")
check("--no-pager", status == 0 and "Usage: spex" in text, text)
status, text = on_terminal("help", SPEX_PAGER="/nonexistent/pager -x")
check("without the pager that is named, the text comes, and why",
      status == 0 and "Usage: spex" in text and "/nonexistent/pager" in text, text)
status, text = on_terminal("help", SPEX_PAGER="true")
check("a pager that leaves at once does no harm", status in (0, 13) and "write" not in text,
      (status, text))
with tempfile.TemporaryDirectory() as programs:
    less = os.path.join(programs, "less")
    with open(less, "w") as f:
        f.write("#!/bin/sh\nexec tr a-z A-Z\n")
    os.chmod(less, 0o755)
    for name in ("PAGER", "SPEX_PAGER"):
        os.environ.pop(name, None)
    path = programs + ":" + os.environ["PATH"]
    for term, want in (("xterm", "USAGE: SPEX"), ("dumb", "Usage: spex")):
        status, text = on_terminal("help", TERM=term, PATH=path)
        check(f"less on a terminal that is {term}", status == 0 and want in text, text)


def slowly(*args):
    """What stands on a terminal's stderr while stdout is read slowly, until a line of progress
    comes; the lines of stdout."""
    master, slave = pty.openpty()
    p = subprocess.Popen([SPEX, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=slave)
    os.close(slave)
    shown, lines, piece = b"", 0, b"."
    while piece and b"% of" not in shown:
        piece = os.read(p.stdout.fileno(), 1 << 16)
        lines += piece.count(b"\n")
        if piece and select.select([master], [], [], 0.05)[0]:
            shown += os.read(master, 65536)
    lines += p.stdout.read().count(b"\n")
    try:
        while piece := os.read(master, 65536):
            shown += piece
    except OSError:
        pass  # its other end is closed
    os.close(master)
    return p.wait(), shown.decode(), lines


def trickled(stream, *args):
    """The same while a pipe brings the stream over and over, until it shows how much came."""
    master, slave = pty.openpty()
    p = subprocess.Popen([SPEX, *args], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                         stderr=slave)
    os.close(slave)
    shown = b""
    while b"MB of" not in shown and p.poll() is None:
        p.stdin.write(stream)
        if select.select([master], [], [], 0.02)[0]:
            shown += os.read(master, 65536)
    p.stdin.close()
    try:
        while piece := os.read(master, 65536):
            shown += piece
    except OSError:
        pass
    os.close(master)
    return p.wait(), shown.decode()


with tempfile.TemporaryDirectory() as d:
    stream = os.path.join(d, "stream")
    spex("generate", "-n", "300000", "-o", stream)
    code, shown, lines = slowly("script", "--raw", "-F", "pc,op,events,latency", "-i", stream)
    check("what takes long shows how far it is",
          code == 0 and re.search(r"\r *\d+% of .*stream", shown), shown)
    check("and takes that line away", re.search(r"\r\x1b\[K[^%]*$", shown), shown)
    equal("all records come", lines, 300000)
    code, out, err = spex("script", "--raw", "-F", "pc", "-i", stream)
    check("no progress where stderr is no terminal",
          code == 0 and "% of" not in err and "\r" not in err, err)
    spex("generate", "-n", "2000", "-o", stream)
    with open(stream, "rb") as f:
        pieces = f.read()
    for args in (["report", "--raw", "-i", "-"], ["verify", "--raw", "-"]):
        code, shown = trickled(pieces, *args)
        check(f"spex {args[0]} of a pipe shows how much has come",
              code == 0 and re.search(r"\r\d+\.\d MB of standard input", shown), (code, shown))
        check("and takes that line away, too", re.search(r"\r\x1b\[K[^\x1b]*$", shown), shown)
done()
