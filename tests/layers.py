"""
Each module sees only the modules below it (docs/ARCHITECTURE.md has the rows), only cli prints or
exits, and the length of a packet is worked out in one place.
"""
import collections, json, os, re, subprocess, sys
sys.path.insert(0, os.path.dirname(__file__))
from support.tap import *

PAGE = open(os.path.join(SOURCE, "docs/ARCHITECTURE.md")).read()
MAY_USE = {m[0]: m[1] for m in re.findall(r"^\| `(\w+)` \|[^|\n]*\| ([\w, ]*)\|$", PAGE, re.M)}


def allowed(module):
    """The modules that one may see: those of its row, and what these see."""
    named = MAY_USE[module].replace("all", ", ".join(m for m in MAY_USE
                                                     if m != "cli")).replace(",", " ").split()
    return {module}.union(*map(allowed, named))


# The directories that a module looks for headers in hold links to modules and to public headers.
ROOMS = os.path.join(BUILD, "rooms")
OWNER = {name: module for module in MAY_USE if os.path.isdir(f"{ROOMS}/{module}/spex")
         for name in os.listdir(f"{ROOMS}/{module}/spex")}
CORE = {"base", "wire", "record", "arch", "a64", "spu"}
LIBC = set("assert ctype errno inttypes limits math stdarg stdbool stddef stdint "
           "stdio stdlib string".split())

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
        return (m.group()[0] + m.group()[-1] if m.group()[0] in "\"'"
                else "\n" * m.group().count("\n"))
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", blank, text,
                  flags=re.S)


def lines_with(pattern, text):
    return [number for number, line in enumerate(text.split("\n"), 1) if re.search(pattern, line)]


# A module finds headers in the directories of its include path, so one that it may not use does not
# build; a name with dots would get around that. (The plugin has a file of perfdata in it.)
built = collections.defaultdict(set)
for unit in json.load(open(os.path.join(BUILD, "compile_commands.json"))):
    file = os.path.relpath(os.path.join(unit["directory"], unit["file"]), SOURCE)
    if file.startswith("src/") and not unit["output"].startswith(("tests/", "bench/", "fuzz/")):
        built[file.split("/")[1]].add(
            (unit["output"], frozenset(re.findall(r"-I(?:rooms/)?(\w+|\.)(?= )", unit["command"]))))
for module in MAY_USE:
    want = allowed(module)
    wrong = [f"{output} is built with {sorted(path)}" for output, path in built[module]
             if path != want and not output.endswith("src_perfdata_jit.c.o")]
    for path, text in sources(f"src/{module}"):
        for number, line in enumerate(text.split("\n"), 1):
            m = re.match(r"\s*#\s*include\s+[<\"]([\w/.+-]+)[>\"]", line)
            if m and ".." in m.group(1):
                wrong.append(f"{path}:{number}: {line.strip()}")
            if (m and "<" in line and module in CORE - {"base"} and
                not m.group(1).startswith("spex/") and
                m.group(1)[:-2] not in LIBC | {"immintrin", "arm_neon"}):
                wrong.append(f"{path}:{number}: core is libc only: {line.strip()}")
    check(f"{module} is built with {' '.join(sorted(want))} in sight alone",
          built[module] and not wrong, "\n".join(wrong))

# What stands on analysis and perfdata is written with their public headers, so that others can do
# what it does.
wrong = [f"{path} sees {m.group(1)}" for module in ("cli", "export", "query", "report")
         for path, text in sources(f"src/{module}")
         for m in re.finditer(r'^\s*#\s*include\s+"((?:analysis|perfdata)/[^"]+)"', text, re.M)]
check("what stands on the libraries sees their public headers alone", not wrong, "\n".join(wrong))

# Words for people are theirs, too: no string of a library names an option of a command.
OTHERS = ("dnf --enablerepo", " --adjust-vma=", "a recording with --threads")  # of other programs
wrong = []
for module in ("analysis", "perfdata"):
    for path, text in sources(f"src/{module}"):
        strings = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
        named = re.findall(r'"(?:\\.|[^"\\\n])*--[a-z%](?:\\.|[^"\\\n])*"', strings)
        wrong += [f"{path}: {m}" for m in named if not any(o in m for o in OTHERS)]
check("no string of analysis or perfdata names an option", not wrong, "\n".join(wrong))

try_it = subprocess.run(["cc", "-fsyntax-only", "-I", f"{ROOMS}/uarch", "-I", f"{ROOMS}/arch", "-I",
                         f"{ROOMS}/base", "-x", "c", "-"],
                        input='#include "spu/config.h"\n', capture_output=True, text=True)
check("uarch cannot include the unit", try_it.returncode and "spu/config.h" in try_it.stderr,
      try_it.stderr)

# Only cli prints or exits. The exceptions have nobody to whom they could return a status.
ENDS = (r"\b(v?f?printf|f?puts|f?putc|putchar|perror|v?err|v?errx|v?warn|v?warnx|_*exit|_Exit|"
        r"quick_exit|abort)\s*\(")
MAY_END = {
    "src/guest/plugin.c": "the plugin's entry: QEMU takes a number, people need the reason",
    "src/guest/user.c": "the plugin's entry for programs",
    "src/guest/system.c": "the plugin's entry for systems, and callbacks of QEMU",
    "src/guest/need.c": "where the callbacks of QEMU, which have no result, end for want of memory",
    "src/guest/engine.c": "_exit of a child that could not become QEMU",
    "src/guest/trace.c": "_exit of a child that could not become the supervisor",
    "src/native/start.c": "_exit of a child that could not become the program",
    "src/micro/micro.c": "a program of its own, which spex calibrate runs",
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
LENGTHS = [r">>\s*4\s*\)?\s*&\s*(3|0x3)\b", r"\b\w+\s*/\s*16\s*%\s*4\b",
           r"bits_get\([^,]+,\s*5,\s*4\)", r"&\s*0x30\b",
           r"\?\s*9u?\s*:\s*1u?\b", r"\{\s*1,\s*2,\s*4,\s*8\s*\}", r"\b2,\s*3,\s*5,\s*9\b"]
HEADERS = r"\b0x(71|42|43|64|65|48|49|4a|b0|b1|b2|b3|b4|98|99|9a|9c)\b"
wrong = []
for path, text in sources("src"):
    code = code_of(text)
    module = path.split("/")[1]
    patterns = LENGTHS + ([HEADERS] if module in ("wire", "record") else [])
    if path != ONE_PLACE and module in ("wire", "record", "spu", "script", "analysis", "cli"):
        wrong += [f"{path}:{n}: {code.split(chr(10))[n - 1].strip()}" for p in patterns
                  for n in lines_with(p, code)]
check(f"the length of a packet is worked out in {ONE_PLACE} alone", not wrong, "\n".join(wrong))

# A library exports the functions of its headers, by name, under its major
# version: an accident is noticed.
LIBRARIES = {"libspex": ("SPEX", ["base", "wire", "arch", "a64", "record", "spu"]),
             "libspex-profile": ("SPEX_PROFILE", ["perfdata", "analysis"])}


def functions(header):
    """The names of the functions that a header declares, but for those it defines itself."""
    code = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", code_of(header), flags=re.M)
    code = re.sub(r'extern "" \{', "", code)
    while re.search(r"\{[^{}]*\}", code):  # bodies of structs and of inline functions
        code = re.sub(r"\{[^{}]*\}", "@", code)
    return set(re.findall(r"^(?!static|typedef)[a-z][^;@()]*?\b(spex_\w+)\s*\([^;@]*;", code, re.M))


major = re.search(r"define SPEX_VERSION_MAJOR (\d+)",
                  open(os.path.join(SOURCE, "include/spex/base.h")).read()).group(1)
exported = set()
for name, (node, modules) in LIBRARIES.items():
    text = open(os.path.join(SOURCE, f"src/{name}.map")).read()
    named = set(re.findall(r"^\s+(spex_\w+);", text, re.M))
    declared = set().union(*(functions(text) for path, text in sources("include/spex")
                             if path.endswith(".h") and
                             OWNER.get(os.path.basename(path)) in modules))
    exported |= named
    check(f"src/{name}.map names the functions of its headers", declared and named == declared,
          f"only there: {sorted(named - declared)}; only in headers: {sorted(declared - named)}")
    check(f"its first node is {node}_{major}, as the major version",
          re.search(r"^(\w+) \{", text, re.M).group(1) == f"{node}_{major}")
    check("and no wildcard but local", re.findall(r"\S*\*;", text) == ["*;"])

# A public function states what it needs of its arguments before it does anything: it has an
# assert. These take NULL for each of their pointers.
TAKE_NULL = set("""
    spex_analysis_close spex_aux_close spex_cpu_event_name spex_cpu_has_sources spex_cpu_name
    spex_disassembler_free spex_elapsed_at spex_elapsed_free spex_features_describe
    spex_filter_name spex_finding_free
    spex_findings_at spex_findings_free spex_findings_timed spex_generator_free spex_group_free
    spex_perf_stream spex_perfdata_close spex_reader_free spex_shapes_free spex_sharing_free
    spex_source_of_value spex_spu_config_check spex_spu_fini spex_spu_free spex_symbols_free
    spex_verifier_free
    """.split())
wrong, defined = [], set()
for path, text in sources("src"):
    for m in re.finditer(r"^(?!static)[a-z][^;{}()\n=]*?\b(spex_\w+)\(([^;{}]*?)\)\n"
                         r"\{\n(.*?)^\}", text, re.M | re.S):
        if m[1] in exported:
            defined.add(m[1])
            states = "assert(" in m[3]
            if ("*" in m[2] or "[" in m[2]) and states == (m[1] in TAKE_NULL):
                wrong.append(f"{path}: {m[1]}")
check("each public function states its contract", not wrong and defined == exported,
      "\n".join(wrong + sorted(exported ^ defined)))

# Where memory ends without a status of its own, base/memory.h wants a guard: each public function
# that calls what ends so, by whatever way, is under one. (Function pointers are not followed:
# threads that they start have guards of their own, which tests/analysis/test_memory.c sees.)
ENDS = {f"memory_{name}" for name in ("checked", "get", "resize", "aligned", "copy", "grow")}
calls = {}  # (file, or "" if others may call it; function) -> (file, functions that it calls)
for module in ("base", "account", "record", "perfdata", "analysis"):
    for path, text in sources(f"src/{module}"):
        for m in re.finditer(r"^(static )?(?:inline )?[a-z][^;{}()\n=]*?\b(\w+)\(([^;{}]*?)\)\n"
                             r"\{\n(.*?)^\}", code_of(text), re.M | re.S):
            calls[path if m[1] else "", m[2]] = (
                path, set(re.findall(r"(?<![.>])\b([a-z]\w+)\(", m[4])))


def unguarded(function):
    """The calls from a function to one that ends without a status; None: there is a guard."""
    todo, seen = [(("", function), (function,))], set()
    while todo:
        key, way = todo.pop()
        if way[-1] in ENDS:
            return " calls ".join(way)
        if key in calls and key not in seen:
            seen.add(key)
            path, names = calls[key]
            todo += [((path if (path, n) in calls else "", n), (*way, n)) for n in sorted(names)
                     if "memory_guarded" not in names]


wrong = [way for way in map(unguarded, sorted(exported)) if way]
check("each public function has its guard against want of memory", len(calls) > 1000 and not wrong,
      "\n".join(wrong))

leaks = []
for name in os.listdir(os.path.join(SOURCE, "include/spex")):
    if name not in OWNER:
        leaks.append(name)
check("every public header has an owner", not leaks, leaks)
done()
