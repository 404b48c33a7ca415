"""The interfaces of the libraries as text, and what may change between two of them.

abi.py BUILD                 compares BUILD's libraries with the newest release in spec/abi
abi.py BUILD --write         writes spec/abi/MAJOR.MINOR/: once, when that version is released
abi.py --describe LIBRARY    prints the text of one library

The text has a line per function (its version node and its type), per struct (size), member (offset
in bits, type), enum and value, as abidw (Debian's abigail-tools) reads them from the debug
information. docs/api.md has the rules: within a major version nothing goes away or changes; a
struct that begins with `size`, or that only the library makes (a row of its table), may grow at
the end; a member `zero` may become others; new functions are in the node of their minor version.
"""
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as tree

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
KEPT = os.path.join(ROOT, "spec/abi")
LIBRARIES = ("libspex", "libspex-profile")


class Types:
    """What abidw calls by numbers, spelled as in C."""

    def __init__(self, corpus):
        self.by_id = {}
        for node in corpus.iter():
            if "id" in node.attrib:  # a definition comes before what only declares it
                old = self.by_id.get(node.get("id"))
                if old is None or old.get("is-declaration-only") == "yes":
                    self.by_id[node.get("id")] = node

    def name(self, number):
        node = self.by_id[number]
        kind = node.tag
        if kind == "pointer-type-def":
            to = self.by_id[node.get("type-id")]
            text = self.name(node.get("type-id"))
            return text.replace("(", "(*", 1) if to.tag == "function-type" else f"{text} *"
        if kind == "qualified-type-def":
            return ("const " if node.get("const") == "yes" else "volatile ") + self.name(
                node.get("type-id"))
        if kind == "array-type-def":
            return self.name(node.get("type-id")) + "".join(
                f"[{part.get('length')}]" for part in node.iter("subrange"))
        if kind == "function-type":
            return self.function(node, "")
        if kind in ("class-decl", "union-decl", "enum-decl"):
            word = {"class-decl": "struct", "union-decl": "union", "enum-decl": "enum"}[kind]
            if node.get("is-anonymous") == "yes":
                return word + " {" + "; ".join(f"{at} {name} {kind}" for at, name, kind in
                                               self.members(node)) + "}"
            return f"{word} {node.get('name')}"
        return node.get("name")

    def members(self, node):
        for member in node.findall("data-member"):
            var = member.find("var-decl")
            yield (int(member.get("layout-offset-in-bits", 0)), var.get("name"),
                   self.name(var.get("type-id")))

    def function(self, node, name):
        takes = ", ".join("..." if p.get("is-variadic") == "yes" else self.name(p.get("type-id"))
                          for p in node.findall("parameter")) or "void"
        return f"{self.name(node.find('return').get('type-id'))} {name}({takes})"


def describe(library):
    """The lines of a library, sorted so that equal interfaces are equal texts."""
    xml = subprocess.run(["abidw", "--drop-private-types", "--headers-dir",
                          os.path.join(ROOT, "include"), "--no-show-locs", library],
                         capture_output=True, text=True, check=True).stdout
    corpus = tree.fromstring(xml)
    types = Types(corpus)
    exported = {s.get("name"): s.get("version", "none") for s in
                corpus.find("elf-function-symbols")}
    lines = {}
    for node in corpus.iter("function-decl"):
        name = node.get("name")
        if name in exported:
            lines[f"function {name}"] = [f"{exported[name]} {types.function(node, name)}"]
    for node in corpus.iter("class-decl"):
        if node.get("name", "").startswith("spex_") and node.get("size-in-bits"):
            lines[f"struct {node.get('name')}"] = [f"size {int(node.get('size-in-bits')) // 8}"] + [
                f"{at} {name} {kind}" for at, name, kind in types.members(node)]
    for node in corpus.iter("enum-decl"):
        if node.get("name", "").startswith("spex_"):
            lines[f"enum {node.get('name')}"] = [f"{e.get('name')} {e.get('value')}"
                                                 for e in node.findall("enumerator")]
    return "".join(f"{key}\n" + "".join(f"    {line}\n" for line in lines[key])
                   for key in sorted(lines))


def parse(text):
    """{"struct spex_x": [line, ...]}"""
    found = {}
    for line in text.splitlines():
        if line.startswith("    "):
            found[key].append(line.strip())
        else:
            key = line
            found[key] = []
    return found


def library_made():
    """Structs that programs only get by pointer: the last row of the table in docs/api.md."""
    page = open(os.path.join(ROOT, "docs/api.md")).read()
    row = re.search(r"^\| what only the library makes[^|]*\|([^|]*)\|", page, re.M).group(1)
    return set(re.findall(r"spex_\w+", row))


def members(lines):
    """{name: (offset, type)} and the place of the first `zero`, or the struct's end."""
    rows = [line.split(" ", 2) for line in lines[1:]]
    zero = [int(at) for at, name, kind in rows if name == "zero"]
    return {name: (int(at), kind) for at, name, kind in rows if name != "zero"}, zero


def struct_changes(key, old, new, made):
    was, zero = members(old)
    now, _ = members(new)
    for name, (at, kind) in was.items():
        if name not in now:
            yield f"{key}: {name} is gone"
        elif now[name] != (at, kind):
            yield f"{key}: {name} was {kind} at bit {at}, is {now[name][1]} at {now[name][0]}"
    old_size, new_size = (int(lines[0].split()[1]) for lines in (old, new))
    end = min(zero, default=old_size * 8)
    for name, (at, kind) in now.items():
        if name not in was and at < end:
            yield f"{key}: {name} is new at bit {at}, among what there was"
    grows = key.split()[1] in made or next(iter(was), "") == "size"
    if new_size < old_size or new_size > old_size and not grows:
        yield f"{key}: has {new_size} bytes, had {old_size}"


def enum_changes(key, old, new):
    was, now = (dict(line.rsplit(" ", 1) for line in lines) for lines in (old, new))
    for name, value in was.items():
        if not name.endswith("_COUNT") and now.get(name) != value:
            yield f"{key}: {name} was {value}, is {now.get(name, 'gone')}"


def function_changes(key, old, new):
    if old != new:
        yield f"{key}: was {old[0]}; is {new[0]}"


def broken(old, new, nodes, made=()):
    """What programs built for old would miss in new, and functions in a node that was released."""
    old, new = parse(old), parse(new)
    for key, lines in old.items():
        if key not in new:
            yield f"{key} is gone"
        elif key.startswith("struct"):
            yield from struct_changes(key, lines, new[key], made)
        elif key.startswith("enum"):
            yield from enum_changes(key, lines, new[key])
        else:
            yield from function_changes(key, lines, new[key])
    for key, lines in new.items():
        if key.startswith("function") and key not in old and lines[0].split()[0] in nodes:
            yield f"{key} is new, but in {lines[0].split()[0]}, which was released without it"


def added(old, new):
    return sorted(set(parse(new)) - set(parse(old)))


def nodes_of(text):
    return {lines[0].split()[0] for key, lines in parse(text).items() if key.startswith("function")}


def released():
    """The minor versions that are described, in their order."""
    return sorted((v for v in os.listdir(KEPT) if os.path.isdir(os.path.join(KEPT, v))),
                  key=lambda v: tuple(map(int, v.split("."))))


def newest():
    return released()[-1]


def first_versions():
    """{function: the minor version it came with}, of those in a release that is described."""
    came = dict.fromkeys(open(os.path.join(KEPT, "functions-of-1.1.txt")).read().split(), "1.1")
    for number, release in enumerate(released()):
        for name in LIBRARIES:
            for key in parse(open(os.path.join(KEPT, release, f"{name}.txt")).read()):
                if key.startswith("function "):  # before the first description: 1.0, or 1.1
                    came.setdefault(key.split()[1], release if number else "1.0")
    return came


def version():
    return subprocess.run([os.path.join(ROOT, "scripts/version")], capture_output=True, text=True,
                          check=True).stdout.strip()


def write(build):
    folder = os.path.join(KEPT, ".".join(version().split(".")[:2]))
    os.makedirs(folder, exist_ok=True)
    for name in LIBRARIES:
        with open(os.path.join(folder, f"{name}.txt"), "w") as file:
            file.write(describe(os.path.join(build, f"{name}.so")))


def compare(build):
    last, is_now, bad = newest(), version(), 0
    for name in LIBRARIES:
        old = open(os.path.join(KEPT, last, f"{name}.txt")).read()
        new = describe(os.path.join(build, f"{name}.so"))
        wrong = list(broken(old, new, nodes_of(old), library_made()))
        for text in wrong:
            print(f"abi: {name}: {text}")
        more = added(old, new)
        print(f"abi: {name}: " + (f"{len(wrong)} changes that break programs built for {last}"
                                  if wrong else f"as in {last}") +
              (f", and new: {', '.join(more)}" if more else ""))
        bad |= bool(wrong) and last.split(".")[0] == is_now.split(".")[0]
    if bad:
        print("abi: take these back, or raise the major version in include/spex/base.h "
              "(docs/api.md says what may change)", file=sys.stderr)
    return bad


if __name__ == "__main__":
    if sys.argv[1] == "--describe":
        print(describe(sys.argv[2]), end="")
    elif sys.argv[2:] == ["--write"]:
        write(sys.argv[1])
    else:
        sys.exit(compare(sys.argv[1]))
