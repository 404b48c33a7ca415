#!/usr/bin/env python3
"""Every file of src and include with what it holds, by its own first comment: docs/tree.md.

Usage: tree.py [--write]. Without --write the page is printed.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("include/spex", "src/base", "src/wire", "src/arch", "src/a64", "src/record", "src/spu",
           "src/script", "src/account", "src/uarch", "src/guest", "src/micro", "src/perfdata",
           "src/native", "src/analysis", "src/export", "src/query", "src/report", "src/cli", "src")
HEAD = """# Every file

What each file of `include` and `src` holds, in the words of its first comment; a source and its
header are one row. `scripts/tree.py --write` makes this page. How the folders build on each other:
[ARCHITECTURE.md](ARCHITECTURE.md).
"""
COMMENTS = (r'\s*/\*(.*?)\*/', r'(?:#![^\n]*\n)?"""(.*?)"""', r'((?:(?://|#) ?[^\n]*\n)+)',
            r'<!DOCTYPE html>\s*<!--(.*?)-->')


def sentence(path):
    """The first sentence of the comment at the top of a file, or None."""
    with open(path, errors="replace") as f:
        text = f.read(4000)
    found = next(filter(None, (re.match(c, text, re.S) for c in COMMENTS)), None)
    if not found:
        return None
    lines = [re.sub(r"^\s*(\*|//|#) ?", "", line).strip() for line in found[1].split("\n")]
    words = " ".join("\n".join(lines).strip().split("\n\n")[0].split())
    return re.split(r"(?<=[a-z0-9)\]`\"'][.]) (?=[A-Z*])", words)[0]


def files():
    """{folder: {name: [paths]}}: a source and its header have one name."""
    tree = {folder: {} for folder in FOLDERS}
    listed = (os.path.relpath(os.path.join(at, name), ROOT) for top in ("include", "src")
              for at, _, names in os.walk(os.path.join(ROOT, top)) for name in names)
    for path in sorted(listed):
        if not path.endswith(("meson.build", ".pyc")):
            folder = next(f for f in sorted(FOLDERS, key=len, reverse=True) if path.startswith(f))
            stem = re.sub(r"\.[ch]$", "", os.path.relpath(path, folder))
            tree[folder].setdefault(stem, []).append(path)
    return tree


def page():
    out = [HEAD]
    for folder, names in files().items():
        out += [f"## {folder}\n", "| file | what it holds |", "|---|---|"]
        for name, paths in sorted(names.items()):
            said = [sentence(os.path.join(ROOT, p)) for p in sorted(paths, reverse=True)]
            said = next(filter(None, said), None)
            if not said:
                sys.exit(f"{paths[0]}: begin it with a comment that says what it holds")
            said = said.replace("|", "\\|").replace("<", "&lt;")
            ends = "".join(sorted(os.path.splitext(p)[1] for p in paths)) if len(paths) > 1 or \
                re.search(r"\.[ch]$", paths[0]) else ""
            ends = ends.replace(".c.h", ".c, .h")
            out.append(f"| `{name}{ends}` | {said} |")
        out.append("")
    return "\n".join(out)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        with open(os.path.join(ROOT, "docs", "tree.md"), "w") as f:
            f.write(page())
    else:
        print(page(), end="")
