"""
The documents hold together: each link has a target, each file that a page names is there, and
docs/README.md lists every page, docs/tree.md every file of the source.
"""
import glob, os, re, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

PAGES = sorted(glob.glob(f"{SOURCE}/*.md") + glob.glob(f"{SOURCE}/docs/*.md") +
               glob.glob(f"{SOURCE}/bench/*.md"))


def prose(page):
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", open(page).read(), flags=re.M | re.S)


def anchors(page):
    """The anchors of a page's headings, as code hosts make them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)", prose(page), re.M):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-"))
    return found


def dead_links(page):
    for text, link in re.findall(r"\[([^]]*)\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(target):
            yield f"[{text}]({link}): there is no {path}"
        elif anchor and target.endswith(".md") and anchor not in anchors(target):
            yield f"[{text}]({link}): {path or 'the page'} has no heading for #{anchor}"


def missing_files(page):
    """Paths in code spans that begin with a folder of the tree; not those of an installed spex, nor
    what a run makes."""
    folders = "bench|debian|docs|examples|fuzz|include|scripts|share|spec|src|tests"
    for path in re.findall(rf"`((?:{folders})/[\w./-]+)`", prose(page)):
        if not path.startswith(("share/spex/", "bench/results")) and \
                not glob.glob(f"{SOURCE}/{path}*"):
            yield path


for page in PAGES:
    name = os.path.relpath(page, SOURCE)
    wrong = list(dead_links(page))
    check(f"{name}: every link has a target", not wrong, "\n".join(wrong))
    wrong = list(missing_files(page))
    check(f"{name}: every file that it names is there", not wrong, "\n".join(wrong))

index = open(f"{SOURCE}/docs/README.md").read().partition("## All pages")[2]
listed = re.findall(r"^\| \[([\w-]+\.md)\]", index, re.M)
there = sorted((os.path.basename(p) for p in PAGES if os.path.dirname(p).endswith("/docs") and
                not p.endswith("/README.md")), key=str.lower)
equal("docs/README.md lists every page, by name", listed, there)
tree = subprocess.run([f"{SOURCE}/scripts/tree.py"], capture_output=True, text=True)
check("docs/tree.md is what the files say (scripts/tree.py --write makes it)",
      tree.returncode == 0 and tree.stdout == open(f"{SOURCE}/docs/tree.md").read(), tree.stderr)
done()
