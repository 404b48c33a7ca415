"""The documents as a static site: every page of docs/ with an index on the left, and the demo page.

Usage: site.py SOURCE DEMO.html OUTPUT. Needs pandoc (Debian). The order of pages is that of
docs/README.md; links between pages are kept, links to other files of the tree become plain text.
"""
import html
import os
import re
import shutil
import subprocess
import sys

STYLE = """
:root { color-scheme: light dark; --line: #8884; --dim: #888; --accent: #0a5ec2; }
@media (prefers-color-scheme: dark) { :root { --accent: #74b3ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 0 1.2rem 4rem;
  font: 16px/1.55 system-ui, sans-serif; display: grid; gap: 0 2.5rem;
  grid-template-columns: 13rem minmax(0, 1fr); }
nav { font-size: 0.9rem; padding-top: 1.6rem; }
nav ul { list-style: none; padding: 0; margin: 0.5rem 0; position: sticky; top: 1rem; }
nav li { margin: 0.15rem 0; }
a { color: var(--accent); text-decoration: none; }
a:hover { text-decoration: underline; }
nav a[aria-current] { font-weight: 700; color: inherit; }
pre { overflow-x: auto; padding: 0.7rem 1rem; border: 1px solid var(--line); border-radius: 6px;
  line-height: 1.35; }
code { font: 0.88em ui-monospace, monospace; overflow-wrap: anywhere; }
pre code { overflow-wrap: normal; }
table { border-collapse: collapse; display: block; overflow-x: auto; font-size: 0.93em; }
th, td { border-bottom: 1px solid var(--line); padding: 0.3rem 0.7rem 0.3rem 0; text-align: left;
  vertical-align: top; }
img { max-width: 100%; }
@media (max-width: 50rem) { body { display: block; } nav ul { position: static; columns: 2; } }
"""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<nav aria-label="Pages"><ul>{index}</ul></nav>
<main>{body}</main>
</body>
</html>
"""


def pages(source):
    """(path in the tree, name in the site), the front page first."""
    index = open(os.path.join(source, "docs/README.md")).read().partition("## All pages")[2]
    names = re.findall(r"^\| \[([\w-]+)\.md\]", index, re.M)
    return ([("README.md", "index"), ("docs/README.md", "docs"), ("CHANGELOG.md", "changelog"),
             ("CONTRIBUTING.md", "contributing")] +
            [(f"docs/{name}.md", name) for name in names])


def link(target, page, known, source, output):
    """What a link of a page becomes in the site; None: it leads out of it."""
    if re.match(r"[a-z]+:|#", target):
        return target
    path, _, anchor = target.partition("#")
    path = os.path.normpath(os.path.join(os.path.dirname(page), path))
    if path in known:
        return f"{known[path]}.html" + (f"#{anchor}" if anchor else "")
    if path.endswith((".png", ".svg")):
        shutil.copy(os.path.join(source, path), os.path.join(output, os.path.basename(path)))
        return os.path.basename(path)
    return None


def render(source, page, known, output):
    text = subprocess.run(["pandoc", "--from", "gfm", "--to", "html5", "--wrap", "none",
                           os.path.join(source, page)],
                          capture_output=True, text=True, check=True).stdout

    def anchor(m):
        new = link(html.unescape(m[1]), page, known, source, output)
        return f'<a href="{html.escape(new)}">{m[2]}</a>' if new else m[2]

    def image(m):
        new = link(m[1], page, known, source, output)
        return f'<img src="{new}"'

    text = re.sub(r'<a href="([^"]*)"[^>]*>(.*?)</a>', anchor, text, flags=re.S)
    return re.sub(r'<img src="([^"]*)"', image, text)


def main():
    source, demo, output = sys.argv[1:]
    if not shutil.which("pandoc"):
        sys.exit("site: needs pandoc: apt-get install pandoc")
    os.makedirs(output, exist_ok=True)
    known = dict(pages(source))
    shutil.copy(demo, os.path.join(output, "demo.html"))
    for page, name in known.items():
        body = render(source, page, known, output)
        title = re.search(r"<h1[^>]*>(.*?)</h1>", body, re.S)
        index = "".join(
            f'<li><a href="{other}.html"{" aria-current=page" if other == name else ""}>'
            f'{"spex" if other == "index" else other}</a></li>' for other in known.values())
        index += '<li><a href="demo.html">demo page</a></li>'
        with open(os.path.join(output, f"{name}.html"), "w") as f:
            f.write(PAGE.format(title=re.sub(r"<[^>]*>", "", title[1]) if title else name,
                                style=STYLE, index=index, body=body))
    print(f"{output}/index.html: {len(known)} pages")


if __name__ == "__main__":
    main()
