"""Each installed header compiles alone, strictly, in each language that programs are written in."""
import os, re, shutil, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *
sys.path.insert(0, os.path.join(SOURCE, "scripts"))
import abi

HEADERS = sorted(n for n in os.listdir(os.path.join(SOURCE, "include/spex")) if n.endswith(".h"))
LANGUAGES = [("cc", "c", "c11"), ("cc", "c", "c17"), ("c++", "c++", "c++11"),
             ("c++", "c++", "c++20")]
STRICT = "-pedantic -Wall -Wextra -Wconversion -Wsign-conversion -Werror -fsyntax-only".split()

for compiler, language, standard in LANGUAGES:
    if not shutil.which(compiler):
        skip(f"headers in {standard}", f"no {compiler}")
        continue
    wrong = []
    for header in HEADERS:
        code, out, err = run(compiler, "-x", language, f"-std={standard}", *STRICT, "-I",
                             os.path.join(SOURCE, "include"), "-",
                             stdin=f"#include <spex/{header}>\n#include <spex/{header}>\n".encode())
        wrong += [f"{header}: {err}"] if code else []
    check(f"{len(HEADERS)} headers alone in {standard}", HEADERS and not wrong, "".join(wrong))

# bindgen makes every function for Rust, and tests that the layouts are those of C.
if shutil.which("bindgen"):
    with tempfile.TemporaryDirectory(prefix="spex-bindgen-") as here:
        rust = os.path.join(here, "spex.rs")
        with open(os.path.join(here, "all.h"), "w") as f:
            f.writelines(f"#include <spex/{header}>\n" for header in HEADERS)
        code, out, err = run("bindgen", f.name, "--raw-line", "#![allow(warnings)]",
                             "--allowlist-function", "spex_.*", "--allowlist-type", "spex_.*",
                             "--allowlist-var", "SPEX_.*", "-o", rust, "--", "-I",
                             os.path.join(SOURCE, "include"))
        made = set() if code else set(re.findall(r"pub fn (spex_\w+)", open(rust).read()))
        wanted = {name for library in abi.LIBRARIES for name in re.findall(
            r"\b(spex_\w+);", open(os.path.join(SOURCE, f"src/{library}.map")).read())}
        equal("bindgen: every function", (code, sorted(wanted - made)), (0, []))
        if shutil.which("rustc"):  # a large package, which nothing else needs
            program = os.path.join(here, "layouts")
            code, out, err = run("rustc", "--test", "-o", program, rust)
            ran, out, more = (code, b"", err) if code else run(program)
            passed = re.search(rb"ok\. (\d+) passed", out)
            check("bindgen: layouts in Rust are those in C",
                  not ran and passed and int(passed[1]) > 50, (err, out, more))
else:
    skip("bindgen", "no bindgen")

# The pages about the API name headers and functions that there are, and all headers.
pages = {n: open(os.path.join(SOURCE, "docs", n)).read() for n in ("api.md", "profile.md")}
listed = re.findall(r"^\| `libspex[^|]*\|[^|]*\| `([^`]*)` \|", pages["api.md"], re.M)
equal("docs/api.md lists the headers", sorted(f"{n}.h" for row in listed for n in row.split()),
      HEADERS)
declared = "".join(open(os.path.join(SOURCE, "include/spex", n)).read() for n in HEADERS)
for page, text in pages.items():
    names = set(re.findall(r"\b(?:spex_[a-z]\w+|SPEX_[A-Z]\w+)", text)) - {
        "spex_x_new", "spex_x_free", "spex_x_open", "spex_x_close", "spex_x_size", "spex_x_init",
        "SPEX_1", "SPEX_1_4"}  # patterns of names, and nodes of versions
    gone = {n for n in names if not re.search(rf"\b{n}\b", declared)}
    check(f"docs/{page} names what the headers have", names and not gone, gone)

# The header says beside each function since when there is one: after its declaration, or in the
# comment before it. Those of no release yet are of the version that their node is named after.
came = abi.first_versions()
for name in abi.LIBRARIES:
    for node, body in re.findall(r"^(SPEX_\w+) \{(.*?)^\}", open(os.path.join(
            SOURCE, f"src/{name}.map")).read(), re.M | re.S):
        numbers = ".".join(re.findall(r"\d+", node))
        for function in re.findall(r"\b(spex_\w+);", body):
            came.setdefault(function, numbers)
            if "." in numbers and came[function] != numbers:
                came[function] = f"{came[function]}, but its node is {node}"
said = {}
for before, function, after in re.findall(
        r"(?:/\*((?:(?!\*/).)*)\*/\n)?^(?!static|typedef)\w[^;{}()\n]*?\b(spex_\w+)\([^;{}]*?\);"
        r"(?: +/\*(.*?)\*/)?", declared, re.M | re.S):
    versions = re.findall(r"[Ss]ince(?:\s|\*)+(\d+\.\d+)", f"{before} {after}")
    said[function] = " and ".join(versions)
wrong = sorted(f"{f}: the header says {said.get(f)}, it is {came.get(f)}"
               for f in {*said, *came} if said.get(f) != came.get(f))
check(f"{len(came)} functions say since when they are there", len(came) > 200 and not wrong,
      "\n".join(wrong))
missing = [n for n in HEADERS if f"<spex/{n}>" not in pages["profile.md"] and
           n in ("perfdata.h", "symbols.h", "datasource.h", "arrow.h", "stacks.h", "sinks.h",
                 "findings.h", "elapsed.h", "data.h")]
check("docs/profile.md says what the headers of libspex-profile are for", not missing, missing)
done()
