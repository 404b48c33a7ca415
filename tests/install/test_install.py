"""`meson install` into an empty directory: a stranger's program builds against libspex there."""
import glob, json, os, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *

HERE = os.path.dirname(os.path.abspath(__file__))
with tempfile.TemporaryDirectory() as root:
    code, out, err = run("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", root, "--quiet")
    check("meson install", code == 0, out.decode() + err)
    pc = glob.glob(root + "/**/pkgconfig/spex.pc", recursive=True)
    if check("a pkg-config file", len(pc) == 1, pc):
        env = {"PKG_CONFIG_PATH": os.path.dirname(pc[0]), "PKG_CONFIG_SYSROOT_DIR": root}
        code, flags, err = run("pkg-config", "--cflags", "--libs", "spex", env=env)
        lib = os.path.dirname(glob.glob(root + "/**/libspex.so", recursive=True)[0])
        for name, extra, libs in (("shared", [], flags.decode().split()),
                                  ("static", [], [f for f in flags.decode().split() if not f.startswith("-l")]
                                   + [os.path.join(lib, "libspex.a"), "-lm"])):
            exe = os.path.join(root, name)
            code, out, err = run("cc", "-std=c11", "-Wall", "-Werror", os.path.join(HERE, "user.c"), *libs, "-o", exe)
            if check(f"a program builds against the {name} library", code == 0, err):
                code, out, err = run(exe, env={"LD_LIBRARY_PATH": lib})
                check(f"and runs with it", code == 0 and b"libspex works" in out, err)
        code, out, err = run("nm", "-D", "--defined-only", os.path.join(lib, "libspex.so"))
        names = [l.split()[-1].split("@")[0] for l in out.decode().splitlines()]
        check("exports spex_* alone", names and all(n.startswith("spex_") for n in names), names[:5])
        code, out, err = run("readelf", "-d", os.path.join(lib, "libspex.so"))
        needed = [l.split("[")[1].rstrip("]") for l in out.decode().splitlines() if "NEEDED" in l]
        check("needs libc alone", set(needed) <= {"libc.so.6", "libm.so.6"}, needed)
    for header in glob.glob(root + "/**/include/spex/*.h", recursive=True):
        code, out, err = run("cc", "-std=c11", "-Wall", "-Werror", "-fsyntax-only", "-x", "c",
                             "-I", os.path.dirname(os.path.dirname(header)), header)
        check(f"{os.path.basename(header)} stands alone", code == 0, err)
    vectors = glob.glob(root + "/**/share/spex/vectors/*.json", recursive=True)
    check("vectors for other decoders", len(vectors) == 2 and all(json.load(open(v)) for v in vectors), vectors)
done()
