"""docs/model.md prints the table of src/uarch/uarch.def; --write brings it up to date."""
import os, re, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

DEF = os.path.join(SOURCE, "src/uarch/uarch.def")
DOC = os.path.join(SOURCE, "docs/model.md")
BEGIN, END = "<!-- table: tests/uarch/test_doc.py --write -->\n", "<!-- end of table -->\n"


def size(value, unit):
    for shift, letter in ((20, "M"), (10, "K")):
        if unit in ("bytes", "lines") and value >= 4 << 10 and value % (1 << shift) == 0:
            return f"{value >> shift}{letter}"
    return str(value)


def rows():
    text = re.sub(r"/\*.*?\*/", "", open(DEF).read(), flags=re.S)
    number = r"\s*(\d+)\s*,"
    for m in re.finditer(r'PARAM\(\s*\w+\s*,\s*"([^"]+)"\s*,\s*"([^"]+)"\s*,' + 6 * number +
                         r'\s*"([^"]+)"\s*,\s*"([^"]+)"\)', text):
        yield m.groups()


def table():
    out = ["| key | unit | from | to | N1 | V1 | N2 | V2 | source | meaning |\n",
           "|---|---|---|---|---|---|---|---|---|---|\n"]
    for key, unit, *numbers, source, text in rows():
        cells = [f"`{key}`", unit] + [size(int(n), unit) for n in numbers] + [source, text]
        out.append("| " + " | ".join(cells) + " |\n")
    return "".join(out)


doc = open(DOC).read()
before, rest = doc.split(BEGIN)
shown, after = rest.split(END)
if "--write" in sys.argv:
    open(DOC, "w").write(before + BEGIN + table() + END + after)
    sys.exit(0)
equal("docs/model.md has every parameter of uarch.def as it is (test_doc.py --write)", shown, table())
equal("every row of uarch.def was read", len(list(rows())), open(DEF).read().count("\nPARAM("))
code, out, err = spex("help", "model")
missing = [r[0] for r in rows() if f"  {r[0]} " not in out.decode()]
check("spex help model names every parameter", code == 0 and not missing, f"{missing} {err}")
done()
