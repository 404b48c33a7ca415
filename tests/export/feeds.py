"""What tests of exporters share: profiles, the programs that read what we write,
where they are to be had."""
import glob, os, shutil, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../analysis"))
from common import *

EXPORT = os.path.dirname(os.path.abspath(__file__))
LONG = bool(os.environ.get("SPEX_LONG"))
# scripts/feeds-setup puts packages here; a sanitizer build uses those of the other
FEEDS = os.environ.get("SPEX_FEEDS", os.path.join(BUILD.removesuffix("-asan"), "feeds"))
NODE = shutil.which("node")


def package(name):
    """Is a package of npm at hand? Without it a test counts as skipped."""
    return NODE and os.path.isdir(f"{FEEDS}/node_modules/{name}")


def node(script, *args):
    code, out, err = run(NODE, f"{EXPORT}/{script}", *args, env={"SPEX_FEEDS": FEEDS}, cwd=DIR)
    if code:
        raise RuntimeError(f"{script} {args}: {err}")
    return out.decode()


def pandas(*args):
    """Runs the Python that scripts/feeds-setup has unpacked with pandas, by its own loader; None
    if it is not there."""
    root = f"{FEEDS}/pandas/root/usr"
    loader, program = (glob.glob(f"{root}/{p}") for p in ("lib/*/ld-linux-*.so.*", "bin/python3.*"))
    if not loader or not program:
        return None
    libraries = os.path.dirname(loader[0])
    code, out, err = run(loader[0], "--library-path", f"{libraries}:{libraries}/blas:"
                         f"{libraries}/lapack", program[0], *args, cwd=DIR,
                         env={"PYTHONHOME": root,
                              "PYTHONPATH": f"{root}/lib/python3/dist-packages"})
    if code:
        raise RuntimeError(f"pandas {args}: {err}")
    return out.decode()


def tool(name):
    """Path of a Debian program: installed, or unpacked by scripts/feeds-setup."""
    for path in (f"{FEEDS}/root/usr/bin/{name}", shutil.which(name)):
        if path and os.path.exists(path):
            return path


def use(name, *args, **kw):
    """Runs such a program with the libraries that came with it."""
    root = f"{FEEDS}/root"
    libraries = ":".join(f"{root}/{d}" for d in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu",
                                                 "usr/lib/llvm-22/lib"))
    env = kw.pop("env", {})
    path = tool(name)
    if path.startswith(FEEDS):
        env = {"LD_LIBRARY_PATH": libraries, **env}
    return run(path, *args, env=env, cwd=kw.pop("cwd", DIR), **kw)


def export(to, file, *args, out=None, symbols=True):
    """Writes DIR/out; (exit code, stderr)."""
    code, text, err = on("export", file, "--to", to, "-o", out or f"out.{to}", *args,
                         symbols=symbols)
    return code, err


def firefox(name, *command):
    """What Firefox Profiler's own importer says about a profile; None if it cannot be run here."""
    cli = f"{FEEDS}/node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js"
    home = {"HOME": DIR, "PROFILER_CLI_SESSION_DIR": DIR}
    try:
        for attempt in range(20):  # its daemon must be ready within half a second
            code, out, err = run(NODE, cli, "load", name, env=home, cwd=DIR)
            code, out, err = run(NODE, cli, *command, env=home, cwd=DIR)
            if not code:
                return out.decode()
            run(NODE, cli, "stop", "--all", env=home, cwd=DIR)
        return f"profiler-cli: {err}"
    finally:
        run(NODE, cli, "stop", "--all", env=home, cwd=DIR)
