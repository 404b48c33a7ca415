"""Programs that do what is near to their recorder: filters of system calls, tracing, closing,
replacing and spoiling all descriptors, many processes at once. Their profile is as without it."""
import json
import shutil
from guest import *

need_engine("programs that do odd things")
program = build("odd", "-pthread", "-static")


def play(how):
    """Exit code, messages, samples of each task, the largest first."""
    code, _, err, path = record("-c", "1024", program, how, cwd=WORK)
    rows = json.loads(spex("report", "-i", path, "--sort", "tid", "--format", "json")[1])["rows"]
    return code, err, sorted((r["samples"] for r in rows), reverse=True)


code, err, good = play("nothing")
check("a program that does nothing odd: main, a thread, a process", code == 0 and len(good) == 3,
      (code, err, good))
for how in ("seccomp", "ptrace", "close", "close-range", "replace", "spoil", "undumpable", "few"):
    code, err, now = play(how)
    check(f"{how}: the same", code == 0 and len(now) == 3 and "missing" not in err and
          all(abs(a - b) < 0.1 * b + 20 for a, b in zip(now[1:], good[1:])), (code, err, now, good))
code, err, now = play("bomb")
check("32 processes: all are there", code == 0 and len(now) == 32 and "missing" not in err and
      now[-1] > 0.8 * good[-1], (code, err, now, good))
# A file whose set-user-ID bit is on, of another user where we may make one: QEMU runs it as ours.
shutil.copy(program, program + "-suid")
if os.geteuid() == 0:
    os.chown(program + "-suid", 65534, 65534)
os.chmod(program + "-suid", 0o6755)
program += "-suid"
code, err, now = play("nothing")
check("set-user-ID: the same", code == 0 and len(now) == 3 and "missing" not in err and
      all(abs(a - b) < 0.1 * b + 20 for a, b in zip(now[1:], good[1:])), (code, err, now, good))
done()
