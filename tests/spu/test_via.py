"""spex spu run --via: scripts on a unit behind the line protocol; ours as reference,
broken ones, changed ones."""
import glob, os, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

SERVE = f"'{SPEX}' spu serve"
for path in sorted(glob.glob(os.path.join(SOURCE, "tests/spu/*.spu"))):
    direct = spex("spu", "run", "--tap", "--trace", path)
    via = spex("spu", "run", "--tap", "--trace", "--via", SERVE, path)
    check(f"{os.path.basename(path)} says the same through the protocol, everything "
          "that happens included",
          via == direct and direct[0] == 0, via[2])

SCRIPT = b"boot\nwrite PMSIRR_EL1 INTERVAL=1\nread PMSIRR_EL1 expect 0x100\nexpect enabled 0\n"


def play(command, script=SCRIPT, timeout="5"):
    code, out, err = spex("spu", "run", "--timeout", timeout, "--via", command, "-", stdin=script,
                          timeout=60)
    return code, out.decode(), err


equal("a short script", play(SERVE), (0, "standard input: 3 checks hold\n", ""))
# What kind of peer, the command, what the message must say.
REPLY = 'while read line; do %s; done'
BROKEN = [
    ("is not there", "/does/not/exist", "not found"),
    ("ends at once", "exit 3", "ended with status 3 instead of answering 'new"),
    ("ends in between", "read a; echo ok; read b",
     "ended with status 0 instead of answering 'boot'"),
    ("is killed", "read a; kill -9 $$", "ended by signal 9"),
    ("closes its output", "exec >&- <&-; sleep 100", "closed the connection instead of answering"),
    ("answers wrongly", REPLY % "echo maybe", "answered 'maybe' to 'new"),
    ("says ok to everything", REPLY % "echo ok",
     "answered 'ok' to 'read PMSIRR_EL1'; expected ok VALUE"),
    ("reports an error", REPLY % "echo error no fun today",
     "the unit says to 'new protocol=1 features=max choices= seed=1 ran"),
    ("lacks a request", 'read a; echo ok; ' + REPLY % "echo unsupported",
     "does not support 'boot'"),
    ("answers with binary", REPLY % r"printf '\001\002\n'", "not text: byte 0x01"),
    ("answers with a zero byte", REPLY % r"printf 'o\000k\n'", "not text: byte 0x00"),
    ("answers without an end", "read a; head -c 70000 /dev/zero | tr '\\0' x; sleep 100",
     "a line of more than 65536 bytes"),
    ("writes without end", "yes", "answered 'y'"),
    ("calls back without end", "read a; yes '!trigger'", "no answer to 'new"),
    ("calls back with nonsense", REPLY % "echo '!jump 1'", "'!jump 1' during 'new"),
    ("writes bytes that are none", REPLY % "echo '!write address=0x1000 bytes=0g'", "cannot be"),
    ("writes too many bytes",
     REPLY % "echo '!write address=0x1000 bytes='$(head -c 5000 /dev/zero | tr '\\0' a)",
     "cannot be"),
    ("has a wrong number", REPLY % "echo '!irq 7'", "'!irq 7' during"),
    ("hangs", "sleep 100", "no answer to 'new"),
    ("hangs and holds on", "trap '' TERM HUP INT; sleep 100 & wait", "no answer to 'new"),
    ("reads nothing and hangs", "exec <&-; sleep 100", "no answer to 'new"),
]
for what, command, message in BROKEN:
    slow = "no answer" in message or "closed" in message
    code, out, err = play(command, timeout="0.3" if slow else "5")
    check(f"a unit that {what}: status 1, line and reason",
          code == 1 and "standard input:" in err and message in err, f"{code} {out} {err}")

with tempfile.TemporaryDirectory() as d:
    pid = os.path.join(d, "pid")
    play(f"echo $$ > {pid}; sleep 100", timeout="0.3")
    number = int(open(pid).read())
    def alive():
        try:
            return open(f"/proc/{number}/stat").read().split(")")[1].split()[0] != "Z"
        except OSError:
            return False
    check("a unit that hangs is ended", not alive())
    # Somebody in between changes one answer: the scripts notice.
    relay = os.path.join(d, "relay.py")
    open(relay, "w").write('''
import subprocess, sys
request, old, new = sys.argv[2:5]
p = subprocess.Popen([sys.argv[1], "spu", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                     text=True, bufsize=1)
for line in sys.stdin:
    p.stdin.write(line); p.stdin.flush()
    while True:
        answer = p.stdout.readline()
        changed = line.startswith(request) or answer.startswith(request)
        sys.stdout.write(answer.replace(old, new) if changed else answer)
        sys.stdout.flush()
        if not answer.startswith("!"):
            break
        if answer.split()[0] in ("!write", "!counter", "!random"):
            p.stdin.write(sys.stdin.readline()); p.stdin.flush()
''')
    for name, script, args in (
            ("an undefined access that is trapped", "registers", ("read", "undefined", "trap-el2")),
            ("a bit of a record", "collect", ("!write", "62", "63")),
            ("an interrupt that is not told", "report", ("status", "irq=0x1", "irq=0x0")),
            ("a sample too many", "sampling", ("!pmu", "0x4001 1", "0x4001 2")),
            ("no filter", "filter", ("!pmu", "0x4002 1", "0x4002 0"))):
        code, out, err = spex("spu", "run", "--via",
                              f"python3 {relay} {SPEX} '{args[0]}' '{args[1]}' '{args[2]}'",
                              os.path.join(SOURCE, f"tests/spu/{script}.spu"))
        check(f"{name} is noticed", code == 1 and "expected" in err,
              f"{code} {out[-200:]} {err[-300:]}")


def serve(*lines):
    code, out, err = spex("spu", "serve", stdin="".join(l + "\n" for l in lines).encode())
    return code, out.decode().splitlines(), err


NEW = "new protocol=1 features=max choices= seed=1 random=0"
equal("serve: before new", serve("boot"), (0, ["error no unit yet; begin with 'new'"], ""))
equal("serve: another protocol", serve("new protocol=2"),
      (0, ["error new protocol=1 features=LIST choices=LIST seed=N random=0|1"], ""))
equal("serve: a request that is none", serve(NEW, "dance"), (0, ["ok", "unsupported"], ""))
equal("serve: features that cannot be", serve("new protocol=1 features=unicorn")[1][0][:28],
      "error unknown feature 'unico")
for line in ("read", "read NOREG", "write PMSCR_EL1", "set PMSCR_EL1 x", "op", "op 0x10 kind=dance",
             "op 0 kind=ldst a2.va=1", "begin", "complete 0 kind=ldst", "abandon 70", "pass x",
             "exception 4", "frozen", "late-abort", "impdef-event 0x10000 0",
             "state el=9", "state pm=2", "restore", "op 0 parts=65", "branch kind=branch colour=1"):
    code, out, err = serve(NEW, line)
    check(f"serve: '{line}' is an error, not an end", code == 0 and out[-1].startswith("error "),
          f"{out} {err}")
code, out, err = serve(NEW, "boot", "x" * 70000)
check("serve: a line without bound", code == 1 and "65536" in err, err)
code, out, err = spex("spu", "serve", stdin=b"new\0\x01\n")
check("serve: bytes that are no text", code == 1 and "not text" in err, err)

page = open(os.path.join(SOURCE, "docs/spu-protocol.md")).read()
example = page[page.index("```session\n") + 11:]
example = example[:example.index("```")].splitlines()
sent = [l[2:] for l in example if l.startswith("> ")]
code, out, err = serve(*sent)
equal("the session of docs/spu-protocol.md is as it is", out,
      [l[2:] for l in example if l.startswith("< ")])
code, out, err = spex("spu", "run", "--timeout", "-1", "--via", "x", "-", stdin=b"")
check("a time that is none", code == 2 and "--timeout" in err, err)
done()
