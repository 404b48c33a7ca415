"""
Puts the page together: embed.py OUT page.html style.css MODULE.js...

Modules become functions of one script, in the order given, which is that of their imports: a page
that is opened from a file cannot import. A policy in the page allows this script and this style by
their hashes, and nothing else: no other code, no request.
"""
import base64, hashlib, os, re, sys

out, page, style, *modules = sys.argv[1:]


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def joined(paths):
    texts = []
    for path in paths:
        name = os.path.splitext(os.path.basename(path))[0]
        text = re.sub(r'^import (\{[^}]*\}) from "\./(\w+)\.js";', r"const \1 = \2Module;",
                      read(path), flags=re.M)
        exported = re.findall(r"^export (?:function|const|class) (\w+)", text, re.M)
        text = re.sub(r"^export ", "", text, flags=re.M)
        texts.append(f"const {name}Module = (() => {{\n{text}\n"
                     f"return {{{', '.join(exported)}}};\n}})();")
    text = '"use strict";\n' + "\n".join(texts)
    if "</script" in text or "<!--" in text or re.search(r"^(import|export)\b", text, re.M):
        sys.exit("embed.py: a module has text that would end its script element, or words of "
                 "import or export that this does not know")
    return text


def digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


css, script = read(style), joined(modules)
policy = (f"default-src 'none'; script-src {digest(script)}; style-src {digest(css)}; "
          "base-uri 'none'; form-action 'none'")
text = read(page)
for name, value in (("policy", policy), ("style", css), ("script", script)):
    text = text.replace("{{" + name + "}}", value)
head, rest = text.split("{{title}}")
body, tail = rest.split("{{data}}")
with open(out, "w", encoding="ascii") as f:
    for name, part in (("head", head), ("body", body), ("tail", tail)):
        f.write(f"static const char page_{name}[] =\n")
        for line in part.splitlines(keepends=True) or [""]:
            plain = " !#$%&'()*+,-./:;<=>@[]^_`{|}~"
            quoted = "".join(c if c in plain or c.isalnum() and c.isascii()
                             else "".join(f"\\{b:03o}" for b in c.encode()) for c in line)
            f.write(f'    "{quoted}"\n')
        f.write("    ;\n")
