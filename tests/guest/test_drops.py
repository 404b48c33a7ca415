"""Programs that become another user, or live in another root, lose nothing of their profile: the
same records as of one that does not."""
import json
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
    for how in ("user", "root", "rights", "user-root-close", "fork-user", "fork-root-user"):
        code, err, now = threads(how, *options)
        same = len([n for n in now if n > 0.95 * min(good)]) == len(good)
        check(f"{options}: {how}: the same", code == (5 if "user" in how else 0) and same and
              "missing" not in err, (code, err, now, good))

# A process that such a program forks later has no more rights than its parent: what is lost is told
# by record, and by whoever reads the file.
code, _, err, path = record("-c", "256", program, "user-later", empty)
check("forked later: told at the end", code == 1 and "Permission denied" in err and
      "1 thread could not be profiled" in err, (code, err))
for command in ("report", "annotate", "mem"):
    code, out, err = spex(command, "-i", path)
    check(f"{command}: not all was recorded", code == 0 and
          "1 buffers truncated" in out.decode() + err, (code, out[:500], err))
done()
