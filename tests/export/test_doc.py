"""docs/schema.md prints the tables of src/export/schema.def and tables.def; --write
brings it up to date."""
import os, re, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

DEF = os.path.join(SOURCE, "src/export/schema.def")
EVENTS = os.path.join(SOURCE, "include/spex/events.def")
DOC = os.path.join(SOURCE, "docs/schema.md")
BEGIN, END = "<!-- table: tests/export/test_doc.py --write -->\n", "<!-- end of table -->\n"
BESIDE, BESIDE_END = ("<!-- tables: tests/export/test_doc.py --write -->\n",
                      "<!-- end of tables -->\n")
TYPES = {"STRING": "string", "NUMBER": "integer", "ADDRESS": "hex", "BOOL": "boolean",
         "LIST": "array of string"}
STORED = {"STRING": "string", "NUMBER": "uint{}", "ADDRESS": "uint{}", "BOOL": "boolean",
          "LIST": "-"}


def columns():
    """The rows of schema.def as dictionaries."""
    text = re.sub(r"/\*.*?\*/", "", open(DEF).read(), flags=re.S)
    string = r'"((?:[^"\\]|\\.)*)"'
    for m in re.finditer(rf'COLUMN\(\s*(\w+),\s*{string},\s*(\w+),\s*(\d+),\s*{string},\s*{string},'
                         rf'\s*{string},\s*(\w+),'
                         rf'\s*{string},\s*{string},\s*{string}\)', text):
        keys = "id name type bits unit packet null from shown label meaning".split()
        yield dict(zip(keys, (re.sub(r"\\(.)", r"\1", g) for g in m.groups())))


def table():
    out = ["| member | type | stored as | unit | packet | absent where | shown | meaning |\n",
           "|---" * 8 + "|\n"]
    for c in columns():
        null = c["null"] != "-"
        shown = ", ".join(word for letter, word in (("t", "text"), ("j", "JSON, CSV"),
                                                    ("p", "Parquet")) if letter in c["shown"])
        out.append(f"| `{c['name']}` | {TYPES[c['type']]}{', optional' if null else ''} | "
                   f"{STORED[c['type']].format(c['bits'])} | {c['unit']} "
                   f"| {c['packet']} | {c['null'] if null else ''} | {shown or 'by `-F`'} "
                   f"| {c['meaning']} |\n")
    return "".join(out)


def beside():
    """The tables beside samples."""
    out = []
    for kind, args in re.findall(r"^(TABLE|COLUMN)\((.*)\)$",
                                 open(os.path.join(SOURCE, "src/export/tables.def")).read(), re.M):
        words = re.findall(r'"((?:[^"\\]|\\.)*)"|(\w+)', args)
        words = [a or b for a, b in words]
        if kind == "TABLE":
            out.append(f"\n`{words[1]}`: {words[2]}.\n\n| column | stored as | absent where | "
                       "meaning |\n|---|---|---|---|\n")
        else:
            name, type_, bits, null, meaning = words
            out.append(f"| `{name}` | {STORED[type_].format(bits)} | "
                       f"{'' if null == '-' else null} | {meaning} |\n")
    return "".join(out).lstrip("\n")


text = open(DOC).read()
if "--write" in sys.argv:
    for first, last, made in ((BEGIN, END, table()), (BESIDE, BESIDE_END, beside())):
        text = text[:text.index(first) + len(first)] + made + text[text.index(last):]
    open(DOC, "w").write(text)
    sys.exit()
begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
equal("and the tables of src/export/tables.def",
      text[text.index(BESIDE) + len(BESIDE):text.index(BESIDE_END)], beside())
equal("docs/schema.md has the columns of src/export/schema.def (tests/export/test_doc.py --write)",
      text[begin:end], table())
names = [c["name"] for c in columns()]
equal("a row of the file is a row here", len(names),
      len(re.findall(r"^COLUMN\(", open(DEF).read(), re.M)))
equal("a name stands once", len(set(names)), len(names))
check("names need no quotes in SQL", all(re.fullmatch(r"[a-z][a-z0-9_]*", n) for n in names), names)
events = {"ev_" + n.replace("-", "_"): bit
          for bit, n in re.findall(r'SPEX_EVENT\((\d+),\s*\w+,\s*"([^"]+)"', open(EVENTS).read())}
equal("each event of the manual is a column, and its bit is said",
      {c["name"]: re.search(r"bit (\d+)", c["meaning"]).group(1)
       for c in columns() if c["type"] == "BOOL"}, events)

# What version 1 began with: none of these goes or changes its type.
FIRST = open(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                          "schema-1.txt")).read().split("\n")
now = [f"{c['name']} {STORED[c['type']].format(c['bits'])} {c['unit']}".strip() for c in columns()]
equal("version 1 keeps its columns, and new ones come behind them", now[:len(FIRST) - 1],
      FIRST[:-1])
done()
