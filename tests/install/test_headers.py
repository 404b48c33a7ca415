"""Each installed header compiles alone, strictly, in each language that programs are written in."""
import os, shutil, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *

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
done()
