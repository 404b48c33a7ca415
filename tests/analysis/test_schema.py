"""JSON of every command against docs/schema.md: members, types, nothing undocumented."""
import re
from common import *

# ---- the document ----
tables = {}
command = section = None
for line in open(f"{SOURCE}/docs/schema.md"):
    if m := re.match(r"## (?:spex )?(.+)", line):
        command, section = m.group(1).strip(), None
    elif m := re.match(r"### (.+)", line):
        section = m.group(1).strip()
    elif m := re.match(r"\| `(\w+)` \| ([^|]+) \|", line):
        tables.setdefault(section or command, {})[m.group(1)] = m.group(2).strip()
        if (section or command) == "script" and "JSON" in line:
            tables.setdefault("script without -F", {})[m.group(1)] = m.group(2).strip()
COMMON = tables["Common members"]


def wrong(value, kind, path):
    """What is wrong with a value of a type as the document writes it; a list of texts."""
    kinds = kind.replace(", optional", "").split(" or ")
    errors = []
    for k in kinds:
        if k == "null" and value is None:
            return []
        if k == "integer" and isinstance(value, int) and not isinstance(value, bool):
            return []
        if k == "number" and isinstance(value, (int, float)) and not isinstance(value, bool):
            return []
        if k == "string" and isinstance(value, str):
            return []
        if k == "boolean" and isinstance(value, bool):
            return []
        if k == "hex" and isinstance(value, str) and re.fullmatch(r"0x[0-9a-f]+", value):
            return []
        if k == "object" and isinstance(value, dict):
            return []
        if k.startswith("array of ") and isinstance(value, list):
            of = k[len("array of "):]
            for i, item in enumerate(value):
                if of in tables:
                    errors += members(item, tables[of], f"{path}[{i}]", extra=of in ("row", "jump"))
                else:
                    errors += wrong(item, of, f"{path}[{i}]")
            return errors[:5]
    return [f"{path}: {value!r} is not {kind}"]


def members(value, table, path, extra=False):
    errors = []
    for name, kind in table.items():
        if name not in value:
            if "optional" not in kind:
                errors.append(f"{path}: no {name}")
        else:
            errors += wrong(value[name], kind, f"{path}.{name}")
    for name, v in value.items():
        if name not in table and not (extra and isinstance(v, str)):
            errors.append(f"{path}: {name} is not documented")
    return errors


def validate(name, value, of, with_common=True):
    errors = members(value, {**tables[of], **(COMMON if with_common else {})}, of)
    if with_common:
        errors += members(value["sampling"], tables["sampling"], "sampling")
        errors += members(value["totals"], tables["totals"], "totals")
    check(f"{name} is what docs/schema.md says", not errors, "\n".join(errors[:20]))


FILES = [profile("mixed", 3000), profile("mixed-loss", 3000), profile("false-nosource", 3000),
         profile("branches-untimed", 3000), profile("padded-nocontext", 3000)]
for file in FILES:
    for command in ("report", "mem", "c2c", "branch", "annotate"):
        validate(f"{command} of {file}", data(command, file), command)
    validate(f"report by four keys of {file}",
             data("report", file, "--sort", "dso,srcline,comm,op"), "report")
    validate(f"mem --sort of {file}", data("mem", file, "--sort", "page"), "report")
    d = data("diff", (FILES[0], file))
    validate(f"diff of {file}", d, "diff", with_common=False)
    for side in "ab":
        errors = members(d[side], {**COMMON, "role": "string", "findings": "array of finding"},
                         side)
        check(f"diff of {file} describes {side}", not errors, errors)
    for table, args in (("script without -F", []), ("script", ["-F", ",".join(tables["script"])])):
        for r in records(file, *args)[:300]:
            errors = members(r, tables[table], "record")
            if errors:
                break
        check(f"{table} of {file} is what docs/schema.md says", not errors, errors)

# every documented field of script can be had, and CSV has the same names
names = list(tables["script"])
code, out, err = on("script", FILES[0], "--format", "csv", "-F", ",".join(names), "-n", "1")
equal("csv has the fields asked for", out.splitlines()[0].split(","), names)
code, out, err = on("report", FILES[0], "--format", "csv")
equal("report's csv has the columns of its rows", out.splitlines()[0].split(","),
      list(data("report", FILES[0])["rows"][0]))

# raw streams and hardware captures too
for vector in sorted(os.listdir(VECTORS)) if os.path.isdir(VECTORS) else []:
    path = f"{VECTORS}/{vector}"
    if vector.endswith(".perf.data"):
        for command in ("report", "mem", "c2c", "branch"):
            validate(f"{command} of {vector}", data(command, path), command)
    elif vector.endswith(".spe"):
        validate(f"report of {vector}", data("report", path, "--raw"), "report")
done()
