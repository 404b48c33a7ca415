"""Arrow arrays say what spex script says, as a reader that knows only the interface sees them."""
import collections
from common import *
sys.path.insert(0, os.path.join(SOURCE, "examples"))
import arrow

LIBRARY = os.path.join(BUILD, "libspex-profile.so")
file = os.path.join(DIR, profile("mixed", 20000))
got = list(arrow.rows(file, "samples", LIBRARY))
columns = list(got[0])
code, out, err = spex("script", file, "--format", "json", "-F", ",".join(columns), cwd=DIR)
check("spex script", code == 0, err)
NUMBERS = {"time", "pc", "target", "va", "pa", "event_bits", "address", "estimated_time"}


def number(value):
    return int(value, 16) if isinstance(value, str) else value


want = [{c: number(row.get(c)) if c in NUMBERS else row.get(c) for c in columns}
        for row in map(json.loads, out.decode().splitlines())]


def key(row):
    return tuple((row[c] is not None, row[c]) if row[c] is not None else (False,) for c in columns)


check("more rows than an array has", len(got) == 20000 and len(columns) == 21, (len(got), columns))
wrong = [pair for pair in zip(sorted(got, key=key), sorted(want, key=key)) if pair[0] != pair[1]]
check("each sample in all columns", len(got) == len(want) and not wrong, wrong[:1])
check("some columns have rows without a value", all(any(r[c] is None for r in got)
                                                    for c in ("va", "target", "source")))
threads = sorted((r["tid"], r["comm"], r["samples"]) for r in arrow.rows(file, "threads", LIBRARY))
counts = collections.Counter((r["tid"], r["comm"]) for r in want)
equal("threads", threads, sorted((tid, comm, n) for (tid, comm), n in counts.items()))
files = {r["path"]: r["samples"] for r in arrow.rows(file, "files", LIBRARY)}
equal("files", files, dict(collections.Counter(r["path"] for r in want if r["path"])))
try:
    list(arrow.rows("none.data", "samples", LIBRARY))
    check("a file that is not there", False)
except OSError as e:
    check("a file that is not there", "none.data" in str(e), e)
reader = arrow.rows(file, "samples", LIBRARY)  # one that is not read to its end
next(reader)
reader.close()
code, out, err = run(sys.executable, os.path.join(SOURCE, "examples/arrow.py"), file, LIBRARY)
total = sum(int(line.split()[0]) for line in out.decode().splitlines())
equal("the example", (code, total), (0, 20000))
done()
