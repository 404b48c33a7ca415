"""
Words: no misspelling (codespell; tests/base/words.txt has what it may not know), what a prose
linter finds in the documents (proselint), and turns of phrase of our own that need a second
reading, in documents, headers and comments.
"""
import os, re, shutil, subprocess, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

GENERATED = {"docs/conformance.md", "docs/validation.md"}  # from words of the source
SPELLED = ("include", "src", "docs", "bench", "examples", "scripts", "share", "spec", "debian")
# Of proselint: characters beyond ASCII, which a terminal may lack; "multiply-add".
ACCEPTED = ("typography.", "leonard.", "garner.phrasal_adjectives")

# What not to write, and what to write instead.
HOUSE = [
    (r"\bthe same of\b", "say it again in full"),
    (r"\b(is|are) (said|told) (to|by|of|from)\b", "say who does what"),
    (r"/\* (?!(?:\w+\W+)*(?:as|how|what|where|which|that|whose)\b)[^*;:]{0,40}\b"
     r"(is|are|has|was|were|does) \*/",
     "a comment that finishes its identifier as a sentence: rename instead"),
    (r"\bso many of (so|as) many\b", "name the numbers"),
    (r"\b(utilize|leverage|in order to|please note)\b", "a plainer word, or none"),
]


def files(*folders):
    for folder in folders:
        for root, _, names in os.walk(os.path.join(SOURCE, folder)):
            for name in sorted(names):
                yield os.path.join(root, name)


def documents():
    pages = [p for p in files("docs", "bench") if p.endswith(".md")]
    pages += [os.path.join(SOURCE, n) for n in sorted(os.listdir(SOURCE)) if n.endswith(".md")]
    return [p for p in pages if os.path.relpath(p, SOURCE) not in GENERATED]


def prose(path):
    """The page with its fenced blocks and code spans emptied, line for line."""
    text = re.sub(r"^```.*?^```", lambda m: "\n" * m[0].count("\n"), open(path).read(),
                  flags=re.M | re.S)
    return re.sub(r"`[^`]*`", lambda m: "code" + "\n" * m[0].count("\n"), text)


def spelling():
    text = [p for p in [*files(*SPELLED), *documents()]
            if p.endswith((".md", ".c", ".h", ".def", ".py", ".js", ".css", ".html", ".tsv", ".1"))]
    p = subprocess.run(["codespell", "-I", f"{SOURCE}/tests/base/words.txt", *sorted(set(text))],
                       capture_output=True, text=True)
    check("nothing is misspelt", not p.stdout, p.stdout.replace(SOURCE + "/", ""))


def linter():
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as home:
        for path in documents():
            with open(f"{folder}/{os.path.relpath(path, SOURCE).replace('/', '_')}", "w") as f:
                f.write(prose(path))
        # its cache is for one process alone
        p = subprocess.run(["proselint", *sorted(os.listdir(folder))], cwd=folder, text=True,
                           capture_output=True, env=dict(os.environ, HOME=home,
                                                         XDG_CACHE_HOME=f"{home}/.cache"))
    found = [l for l in p.stdout.splitlines()
             if not re.match(rf"\S+:\d+:\d+: ({'|'.join(map(re.escape, ACCEPTED))})", l)]
    check("proselint has nothing to say about the documents", not found and not p.stderr,
          "\n".join(found) + p.stderr)


def house():
    wrong = []
    source = [p for p in files("include", "src") if p.endswith((".c", ".h", ".def", ".js"))]
    for path in source + documents():
        text = prose(path) if path.endswith(".md") else open(path).read()
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, instead in HOUSE:
                m = re.search(pattern, line, re.I)
                if m:
                    where = f"{os.path.relpath(path, SOURCE)}:{number}"
                    wrong.append(f"{where}: {m[0]}: {instead}")
    check("nothing needs a second reading, as far as rules can tell", not wrong, "\n".join(wrong))


house()
for tool, judge in (("codespell", spelling), ("proselint", linter)):
    if shutil.which(tool):
        judge()
    else:
        skip(tool, "is not installed")
done()
