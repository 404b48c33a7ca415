"""Programs that become another user, or live in another root, lose nothing of their profile: the
same records as of one that does not, nor do the processes that they start then."""
import json
import socket
import struct
import subprocess
from guest import *

need_engine("programs that give up rights")
if os.geteuid():
    skip("programs that give up rights", "not root: nothing to give up", machine=True)
    done()
program = build("drops", "-pthread", "-static")
os.chmod(WORK, 0o755)
empty = os.path.join(WORK, "empty")
os.mkdir(empty)


def threads(how, *options):
    """Exit code, messages, samples of each thread that has many."""
    code, _, err, path = record("-c", "256", *options, program, how, empty)
    rows = json.loads(spex("report", "-i", path, "--sort", "tid", "--format", "json")[1])["rows"]
    return code, err, sorted(r["samples"] for r in rows if r["samples"] > 50)


for options in ([], ["--stacks"], ["--model", "full"]):
    code, err, good = threads("nothing", *options)
    check(f"{options}: five threads of a program that keeps its rights",
          code == 0 and len(good) == 5, (code, err, good))
    for how in ("user", "root", "rights", "user-root-close", "fork-user", "fork-root-user",
                "user-later", "root-user-close-later", "rights-later", "user-later-exec",
                "fork-user-close-later-exec"):
        code, err, now = threads(how, *options)
        same = len([n for n in now if n > 0.95 * min(good)]) == len(good)
        check(f"{options}: {how}: the same", code == (5 if "user" in how else 0) and same and
              "missing" not in err, (code, err, now, good))

# What the host does not let QEMU keep is told by record, and by whoever reads the file.
code, _, err, path = record("-c", "256", program, "small-later", empty)
check("files of no size: told at the end", code == 1 and "File too large" in err and
      "3 threads could not be profiled" in err, (code, err))
for command in (["report"], ["report", "--format", "csv"], ["annotate"], ["annotate", "work"],
                ["mem"], ["c2c"], ["branch"], ["script"], ["script", "--format", "json"],
                ["export", "--to", "collapsed", "-o", "-"], ["archive", "-o", path + ".tar"]):
    code, out, err = spex(*command, "-i", path)
    check(f"{' '.join(command)}: not all was recorded", code == 0 and
          "1 buffers truncated" in out.decode() + err, (code, out[:500], err))

for command in ("dump", "verify"):
    code, out, err = spex(command, path)
    check(f"{command}: not all was recorded", code == 0 and "1 buffers truncated" in err, err)

# The socket that hands out the files has nothing for who does not know the pass, and whoever says
# nothing keeps nobody out.
run_ = subprocess.Popen([SPEX, "record", *ENGINE, "-c", "256", "-o", os.path.join(WORK, "asked"),
                         "--", program, "user-later-wait", empty], stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
run_.stdout.read(1)  # it has given up its rights
with open("/proc/net/unix") as f:
    doors = [w for w in f.read().split() if re.fullmatch("@[0-9a-f]{38}", w)]
answers, silent = [], []
for door in doors:  # some are of other runs, which may end meanwhile
    try:
        for ask in (b"", b"x", bytes(16) + struct.pack("<i28s", os.O_RDWR, b"control"),
                    bytes(16) + struct.pack("<i28s", -1, b"data"), bytes(100)):
            for s in [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                      for _ in range(1 if ask else 40)]:
                s.connect("\0" + door[1:])
                silent.append(s)
            if ask:
                s.send(ask)
                answers.append(s.recv(100))
    except OSError:
        pass
out, err = run_.communicate(b"go on")
rows = json.loads(spex("report", "-i", os.path.join(WORK, "asked"), "--sort", "tid", "--format",
                       "json")[1])["rows"]
check("strangers get no file, and keep nobody from theirs",
      len(answers) >= 4 and set(answers) == {b""} and run_.returncode == 5 and
      len([r for r in rows if r["samples"] > 50]) == 5 and b"missing" not in err,
      (doors, set(answers), run_.returncode, err, rows))
done()
