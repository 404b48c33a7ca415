"""
Each module includes only the modules below it (the data flows one way), only cli prints or exits, and
the length of a packet is worked out in one place.
"""
import os, re, sys
sys.path.insert(0, os.path.dirname(__file__))
from support.tap import *

ALLOWED = {
    "base": "base",
    "wire": "base wire",
    "arch": "base arch",
    "record": "base wire arch record",
    "spu": "base wire arch record spu",
    "script": "base wire arch record spu script",
    "uarch": "base arch uarch",
    "guest": "base wire arch record spu uarch perfdata guest",
    "perfdata": "base perfdata",
    "native": "base perfdata native",
    "analysis": "base wire arch record perfdata analysis",
    "export": "base wire arch record perfdata analysis export",
    "query": "base wire arch record perfdata analysis export query",
    "report": "base wire arch record perfdata analysis report",
    "cli": "base wire arch record spu script uarch guest perfdata native analysis export query report cli",
}
# Public headers and the module that owns each.
OWNER = {"base": "base", "events": "base", "wire": "wire", "record": "record", "features": "arch", "op": "arch",
         "sysreg": "arch", "spu": "spu",
         "perfdata": "perfdata", "analysis": "analysis", "datasource": "analysis", "symbols": "analysis",
         "verify": "record", "generate": "record"}
CORE = {"base", "wire", "record", "arch", "spu"}
LIBC = set("assert ctype errno inttypes limits math stdarg stdbool stddef stdint stdio stdlib string".split())

SUFFIXES = (".c", ".h", ".inc", ".def")


def sources(folder):
    """(path below the project, text) of every file of C in a folder."""
    for root, _, names in os.walk(os.path.join(SOURCE, folder)):
        for name in sorted(names):
            if name.endswith(SUFFIXES):
                path = os.path.join(root, name)
                yield os.path.relpath(path, SOURCE), open(path).read()


def code_of(text):
    """The text without comments and the insides of strings; lines stay where they are."""
    def blank(m):
        return m.group()[0] + m.group()[-1] if m.group()[0] in "\"'" else "\n" * m.group().count("\n")
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", blank, text, flags=re.S)


def lines_with(pattern, text):
    return [number for number, line in enumerate(text.split("\n"), 1) if re.search(pattern, line)]


for module, allowed in ALLOWED.items():
    wrong = []
    for path, text in sources(f"src/{module}"):
        for number, line in enumerate(text.split("\n"), 1):
            m = re.match(r'\s*#\s*include\s+(?:<spex/(\w+)\.(?:h|def)>|"(\w+)/[\w/.]+")', line)
            if m:
                target = OWNER.get(m.group(1)) if m.group(1) else m.group(2)
                if target not in allowed.split():
                    wrong.append(f"{path}:{number}: {line.strip()}")
            m = re.match(r"\s*#\s*include\s+<([\w/]+)\.h>", line)
            if m and module in CORE - {"base"} and not m.group(1).startswith("spex/") \
                    and m.group(1) not in LIBC:
                if m.group(1) not in ("immintrin", "arm_neon"):
                    wrong.append(f"{path}:{number}: core is libc only: {line.strip()}")
    check(f"{module} includes only {allowed}", not wrong, "\n".join(wrong))

# Only cli prints or exits. The exceptions have nobody to whom they could return a status.
ENDS = r"\b(v?f?printf|f?puts|f?putc|putchar|perror|v?err|v?errx|v?warn|v?warnx|_*exit|_Exit|quick_exit|abort)\s*\("
MAY_END = {
    "src/base/memory.c": "abort: no memory, and no handler was set",
    "src/guest/plugin.c": "the plugin's entry: QEMU takes a number, people need the reason",
    "src/guest/user.c": "the plugin's entry for programs",
    "src/guest/system.c": "the plugin's entry for systems, and callbacks of QEMU",
    "src/guest/need.c": "where the callbacks of QEMU, which have no result, end for want of memory",
    "src/guest/engine.c": "_exit of a child that could not become QEMU",
    "src/guest/trace.c": "_exit of a child that could not become the supervisor",
    "src/native/start.c": "_exit of a child that could not become the program",
    "src/script/link.c": "_exit of a child that could not become the command",
}
wrong, unused = [], set(MAY_END)
for path, text in sources("src"):
    found = [] if path.startswith("src/cli/") else lines_with(ENDS, code_of(text))
    unused -= {path} if found else set()
    if path not in MAY_END:
        wrong += [f"{path}:{number}" for number in found]
check("only cli prints or exits", not wrong, "\n".join(wrong))
check("every exception from that is used", not unused, sorted(unused))

# The length of a packet comes from its header, and headers from packets.def, in one place.
ONE_PLACE = "src/wire/headers.h"
LENGTHS = [r">>\s*4\s*\)?\s*&\s*(3|0x3)\b", r"\b\w+\s*/\s*16\s*%\s*4\b", r"bits_get\([^,]+,\s*5,\s*4\)", r"&\s*0x30\b",
           r"\?\s*9u?\s*:\s*1u?\b", r"\{\s*1,\s*2,\s*4,\s*8\s*\}", r"\b2,\s*3,\s*5,\s*9\b"]
HEADERS = r"\b0x(71|42|43|64|65|48|49|4a|b0|b1|b2|b3|b4|98|99|9a|9c)\b"
wrong = []
for path, text in sources("src"):
    code = code_of(text)
    module = path.split("/")[1]
    patterns = LENGTHS + ([HEADERS] if module in ("wire", "record") else [])
    if path != ONE_PLACE and module in ("wire", "record", "spu", "script", "analysis", "cli"):
        wrong += [f"{path}:{n}: {code.split(chr(10))[n - 1].strip()}" for p in patterns for n in lines_with(p, code)]
check(f"the length of a packet is worked out in {ONE_PLACE} alone", not wrong, "\n".join(wrong))

# A library exports the functions of its headers, by name, under its major version: an accident is noticed.
LIBRARIES = {"libspex": ("SPEX", ["base", "wire", "arch", "record", "spu"]),
             "libspex-profile": ("SPEX_PROFILE", ["perfdata", "analysis"])}


def functions(header):
    """The names of the functions that a header declares, but for those it defines itself."""
    code = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", code_of(header), flags=re.M)
    code = re.sub(r'extern "" \{', "", code)
    while re.search(r"\{[^{}]*\}", code):  # bodies of structs and of inline functions
        code = re.sub(r"\{[^{}]*\}", "@", code)
    return set(re.findall(r"^(?!static|typedef)[a-z][^;@()]*?\b(spex_\w+)\s*\([^;@]*;", code, re.M))


major = re.search(r"define SPEX_VERSION_MAJOR (\d+)", open(os.path.join(SOURCE, "include/spex/base.h")).read()).group(1)
for name, (node, modules) in LIBRARIES.items():
    text = open(os.path.join(SOURCE, f"src/{name}.map")).read()
    named = set(re.findall(r"^\s+(spex_\w+);", text, re.M))
    declared = set().union(*(functions(text) for path, text in sources("include/spex")
                             if path.endswith(".h") and OWNER.get(os.path.basename(path)[:-2]) in modules))
    check(f"src/{name}.map names the functions of its headers", declared and named == declared,
          f"only there: {sorted(named - declared)}; only in headers: {sorted(declared - named)}")
    check(f"its first node is {node}_{major}, as the major version", re.search(r"^(\w+) \{", text, re.M).group(1) == f"{node}_{major}")
    check("and no wildcard but local", re.findall(r"\S*\*;", text) == ["*;"])

leaks = []
for name in os.listdir(os.path.join(SOURCE, "include/spex")):
    if name.endswith(".h") and name[:-2] not in OWNER:
        leaks.append(name)
check("every public header has an owner", not leaks, leaks)
done()
