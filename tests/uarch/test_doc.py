"""docs/model.md prints the table of src/account/numbers.def and share/cpus; --write
brings it up to date."""
import glob, os, re, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

DEF = os.path.join(SOURCE, "src/account/numbers.def")
CPUS = sorted(glob.glob(os.path.join(SOURCE, "share/cpus/*.cpu")))
DOC = os.path.join(SOURCE, "docs/model.md")
BEGIN, END = "<!-- table: tests/uarch/test_doc.py --write -->\n", "<!-- end of table -->\n"


def rows():
    text = re.sub(r"/\*.*?\*/", "", open(DEF).read(), flags=re.S)
    for m in re.finditer(r'PARAM\(\s*\w+\s*,\s*"([^"]+)"\s*,\s*"([^"]+)"\s*,\s*(\d+)\s*,'
                         r'\s*(\d+)\s*,\s*"([^"]+)"\)',
                         text):
        yield m.groups()


def values(path):
    """{key: (value, source)}"""
    return {w[0]: (w[1], " ".join(w[2:])) for w in map(str.split, open(path)) if w and
            w[0][0] != "#"}


def table():
    cpus = [(os.path.basename(p)[:-4].replace("neoverse-", "").upper(), values(p)) for p in CPUS]
    out = ["| key | unit | from | to | " + " | ".join(name for name, _ in cpus) +
           " | sources | meaning |\n", "|---" * (len(cpus) + 6) + "|\n"]
    for key, unit, low, high, text in rows():
        sources = dict.fromkeys(v[key][1].split(":")[0] for _, v in cpus)
        cells = ([f"`{key}`", unit, low, high] + [v[key][0] for _, v in cpus] +
                 [", ".join(sources), text])
        out.append("| " + " | ".join(cells) + " |\n")
    return "".join(out)


doc = open(DOC).read()
before, rest = doc.split(BEGIN)
shown, after = rest.split(END)
if "--write" in sys.argv:
    open(DOC, "w").write(before + BEGIN + table() + END + after)
    sys.exit(0)
equal("docs/model.md has every parameter of numbers.def as it is (test_doc.py --write)", shown,
      table())
for path in CPUS:
    check(f"{os.path.basename(path)}: every value has a source",
          all(s for _, s in values(path).values()))
equal("every row of numbers.def was read", len(list(rows())), open(DEF).read().count("\nPARAM("))
code, out, err = spex("help", "model")
missing = [r[0] for r in rows() if f"  {r[0]} " not in out.decode()]
check("spex help model names every parameter", code == 0 and not missing, f"{missing} {err}")
done()
