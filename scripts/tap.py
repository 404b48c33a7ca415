"""Reads TAP results and SPEC marks: of one program, or of the last `make check`
in a build directory."""
import json
import os
import re


class Test:
    """One TAP line: program, name, ok, why it was skipped or "", the requirement ids it marks, and
    what it says below of its failure."""

    def __init__(self, program, name, ok, skipped=""):
        self.program, self.name, self.ok, self.skipped = program, name, ok, skipped
        self.marks, self.why = set(), []


def parse(program, stdout, result):
    """The tests in what a program printed; result is meson's word for how it
    ended (OK, SKIP, ...)."""
    found, here, marks = [], {}, []
    for text in stdout.splitlines():
        m = re.match(r"(not )?ok\b\s*\d*\s*-?\s*(.*)", text)
        if m:
            name, _, directive = m.group(2).partition(" # ")
            test = Test(program, name.strip(), not m.group(1),
                        directive if directive.upper().startswith("SKIP") else "")
            here[test.name] = test
            found.append(test)
            continue
        m = re.match(r"# SPEC (.+) ([A-Z]{3}-\d+)$", text)
        if m:
            marks.append(m.groups())
        elif text.startswith("# ") and found and not found[-1].ok:
            found[-1].why.append(text[2:])
    for name, ident in marks:
        # A mark without a result of its own: the test did not finish.
        test = here.get(name.strip()) or here.setdefault(name, Test(program, name, False))
        test.marks.add(ident)
        if test not in found:
            found.append(test)
    if result not in ("OK", "SKIP") and all(t.ok for t in here.values()):
        found.append(Test(program, f"{program}: {result.lower()}", False))
    elif not here and "1..0" not in stdout:  # that is one of a longer target, with nothing to do
        found.append(Test(program, program, True, "SKIP" if result == "SKIP" else ""))
    return found


def tests(build, log="check"):
    """Of the log of that name: `make check` has its own, so that a test that somebody runs by hand
    meanwhile, or later, does not overwrite it."""
    path = os.path.join(build, "meson-logs", log + ".json")
    found = []
    for line in open(path) if os.path.exists(path) else ():
        entry = json.loads(line)
        found += parse(entry["name"].split(" / ")[-1], entry.get("stdout", ""), entry["result"])
    return found
