"""The site that scripts/site.py makes of the documents: links have targets, the pages render."""
import html, os, re, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *
from browser import Browser
from page import page
from common import profile

DIR = tempfile.mkdtemp()
code, out, err = run(sys.executable, f"{SOURCE}/scripts/site.py", SOURCE,
                     page(profile("mixed", 2000)), DIR)
equal("the site is made", (code, err), (0, ""))
pages = {name: open(f"{DIR}/{name}").read() for name in sorted(os.listdir(DIR))
         if name.endswith(".html") and name != "demo.html"}
targets = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in pages.items()}
dead = []
for name, text in pages.items():
    for link in re.findall(r'(?:href|src)="([^"]+)"', text):
        file, _, anchor = html.unescape(link).partition("#")
        file = file or name
        if re.match(r"[a-z]+:", link):
            continue
        if not os.path.exists(f"{DIR}/{file}") or anchor and file in targets and \
                anchor not in targets[file]:
            dead.append(f"{name}: {link}")
check("every link has a target", len(pages) > 25 and not dead, "\n".join(dead))
b = Browser()
wide = []
for name in ("index.html", "docs.html", "time.html", "schema.html", "demo.html"):
    b.open(f"{DIR}/{name}", 400, 700)
    if b.run("document.documentElement.scrollWidth - innerWidth") > 0:
        wide.append(name)
    equal(f"{name} renders without an error, and asks for nothing that is not beside it",
          [p for p in b.problems() if not p.startswith(f"request: file://{DIR}/")], [])
equal("no page is wider than a phone", wide, [])
b.close()
done()
