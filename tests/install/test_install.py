"""`meson install` into an empty directory: strangers' programs build against
both libraries there."""
import glob, json, os, re, shutil, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *

HERE = os.path.dirname(os.path.abspath(__file__))
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
LANGUAGES = {"C11": ["cc", "-std=c11"], "C++11": ["c++", "-std=c++11", "-x", "c++"]}
if not shutil.which("c++"):
    del LANGUAGES["C++11"]
    skip("programs in C++", "no C++ compiler")
# A library of an ASan build wants its runtime.
ASAN = ["-fsanitize=address,undefined"] if os.path.basename(BUILD).endswith("-asan") else []
if ASAN:
    LANGUAGES = {"C11": ["clang", "-std=c11"] + ASAN}


def build(name, source, language, flags, *more):
    exe = os.path.join(root, re.sub(r"\W", "", name))
    code, out, err = run(*LANGUAGES[language], *STRICT, *more, os.path.join(HERE, source), "-x",
                         "none", "-o", exe, *flags)
    return exe if check(f"{name} builds", code == 0, err) else None


def public(names):
    return [n for n in names if not n.startswith("spex_")]


with tempfile.TemporaryDirectory() as root:
    code, out, err = run("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", root,
                         "--quiet")
    check("meson install", code == 0, out.decode() + err)
    pc = glob.glob(root + "/**/pkgconfig/spex.pc", recursive=True)
    lib = os.path.dirname(glob.glob(root + "/**/libspex.so", recursive=True)[0])
    include = os.path.dirname(glob.glob(root + "/**/include/spex", recursive=True)[0])
    # The paths of a pkg-config file lie under the destination; those of other packages do not.
    for path in glob.glob(os.path.join(os.path.dirname(pc[0]), "*.pc")):
        text = open(path).read()
        open(path, "w").write(re.sub(r"^prefix=", f"prefix={root}", text, flags=re.M))
    env = {"PKG_CONFIG_PATH": os.path.dirname(pc[0])}

    def flags(package, static):
        code, out, err = run("pkg-config", "--cflags", "--libs", *(["--static"] if static else []),
                             package, env=env)
        check(f"pkg-config {package}{' --static' if static else ''}", code == 0, err)
        words = out.decode().split()
        if static:  # our archives, everybody else's shared libraries
            words = [os.path.join(lib, f"lib{w[2:]}.a") if w in ("-lspex", "-lspex-profile") else w
                     for w in words]
        return words

    programs = {"spex": ("core.c", "libspex"), "spex-profile": ("profile.c", "libspex-profile")}
    for package, (source, says) in programs.items():
        for static in (False, True):
            words = flags(package, static)
            for language in LANGUAGES:
                exe = build(f"{source} in {language}, {package} {'static' if static else 'shared'}",
                            source, language, words)
                if exe:
                    code, out, err = run(exe, env={"LD_LIBRARY_PATH": lib}, cwd=root)
                    check("and runs", code == 0 and says.encode() in out, f"{code} {out} {err}")

    # A program whose headers are older or newer than the library.
    header = os.path.join(include, "spex/spu.h")
    text = open(header).read()
    shared = flags("spex", False)
    last = re.search(r"    uint64_t seed;.*\n", text)
    for name, struct, define, good in (
        ("older headers", "", [], True),
        ("newer headers, nothing new used", last.group(0) + "    uint64_t newer;\n",
         ["-DNEWER_VALUE=0"], True),
        ("newer headers, something new used", last.group(0) + "    uint64_t newer;\n",
         ["-DNEWER_VALUE=1"], False)):
        open(header, "w").write(text[:last.start()] + struct + text[last.end():])
        exe = build(name, "core.c", "C11", shared, *define)
        if exe:
            code, out, err = run(exe, env={"LD_LIBRARY_PATH": lib})
            check(f"{name}: {'works' if good else 'is refused by name'}",
                  code == 0 if good else code == 2 and "spex_spu_config" in err and "newer" in err,
                  f"{code} {out} {err}")
    open(header, "w").write(text)

    for language in LANGUAGES:
        exe = build(f"a host with macros FIELD, REG and END in {language}", "macros.c", language,
                    ["-I", include])
        if exe:
            check("it keeps its macros", run(exe)[0] == 0)
    for header in sorted(glob.glob(include + "/spex/*.h")):
        for language, compiler in LANGUAGES.items():
            code, out, err = run(*compiler, "-x", "c++" if "++" in language else "c", *STRICT,
                                 "-fsyntax-only", "-I", include, header)
            check(f"{os.path.basename(header)} stands alone in {language}", code == 0, err)
        macros = re.findall(r"^\s*#\s*define\s+(\w+)", open(header).read(), re.M)
        check(f"{os.path.basename(header)} defines SPEX_* alone",
              not [m for m in macros if not m.startswith("SPEX_")], macros)
    check("every header of the tree is installed", set(os.listdir(include + "/spex")) ==
          set(os.listdir(os.path.join(SOURCE, "include/spex"))))

    spex, = glob.glob(root + "/**/bin/spex", recursive=True)
    pages, = glob.glob(root + "/**/share/man", recursive=True)
    commands = re.findall(r"^  (\w+) ", run(spex, "help")[1].decode().split("\nTopics:")[0], re.M)
    if shutil.which("man") and not ASAN:
        missing = [c for c in commands if run("man", "-M", pages, "-w", f"spex-{c}")[0]]
        check("man -w finds the page of each command, and those of spex and the formats",
              len(commands) > 20 and not missing and not run("man", "-M", pages, "-w", "spex")[0]
              and not run("man", "-M", pages, "-w", "7", "spex-formats")[0], missing)
        run("mandb", "-c", "-q", pages)
        found = run("apropos", "-M", pages, "-l", "spex")[1].decode()
        missing = [c for c in commands if f"spex-{c} (1)" not in found]
        check("apropos finds them", not missing, (missing, found))

    exported = {}
    for name in ("libspex", "libspex-profile"):
        out = run("nm", "-D", "--defined-only", os.path.join(lib, name + ".so"))[1].decode()
        names = [l.split()[-1] for l in out.splitlines() if " A " not in l]
        plain = exported[name] = {n.split("@")[0] for n in names}
        check(f"{name}.so exports spex_* alone", names and (ASAN or not public(plain)),
              public(plain)[:9])
        check(f"{name}.so: every symbol has a version", all("@@SPEX_" in n for n in names) or ASAN,
              names[:3])
        out = run("nm", "-g", "--defined-only", os.path.join(lib, name + ".a"))[1].decode()
        static = {l.split()[-1] for l in out.splitlines() if len(l.split()) == 3}
        check(f"{name}.a exports spex_* alone", static and (ASAN or not public(static)),
              public(static)[:9])
        check(f"{name}: the same, shared and static", plain - static == set() or ASAN,
              sorted(plain ^ static)[:9])
    check("no function is in both libraries", not exported["libspex"] & exported["libspex-profile"])
    declared = set()
    for header in glob.glob(include + "/spex/*.h"):
        code = re.sub(r"/\*.*?\*/", "", open(header).read(), flags=re.S)
        code = re.sub(r"static inline[^;{]*\{.*?\n\}", "", code, flags=re.S)
        code = re.sub(r"typedef[^;]*;", "", code)
        declared |= set(re.findall(r"^[a-z][\w \*]*?\b(spex_\w+)\(", code, re.M))
        declared |= set(re.findall(r"^(spex_\w+)\(", code, re.M))
    every = exported["libspex"] | exported["libspex-profile"]
    check("what headers declare is exported", declared - every == set(), sorted(declared - every))
    check("what is exported is declared", ASAN or every - declared == set(),
          sorted(every - declared))
    needed = [l.split("[")[1].rstrip("]") for l in run(
        "readelf", "-d", os.path.join(lib, "libspex.so"))[1].decode().splitlines() if "NEEDED" in l]
    own = ("libc.", "libm.", "ld-linux")  # the loader is libc's too
    check("libspex needs libc alone", ASAN or all(n.startswith(own) for n in needed), needed)

    vectors = glob.glob(root + "/**/share/spex/vectors/*.json", recursive=True)
    check("vectors for other decoders",
          len(vectors) == 2 and all(json.load(open(v)) for v in vectors), vectors)
    scripts = glob.glob(root + "/**/share/spex/scripts/*.spu", recursive=True)
    check("scripts for other units", {os.path.basename(s) for s in scripts} ==
          {os.path.basename(s) for s in glob.glob(os.path.join(SOURCE, "tests/spu/*.spu"))},
          scripts)
done()
