"""A directory with the test program and profiles of it; running commands on them."""
import atexit, json, os, shutil, subprocess, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

HERE = os.path.dirname(os.path.abspath(__file__))
MAKE = os.path.join(BUILD, "tests/analysis/make_profile")
PROG = os.path.join(BUILD, "tests/analysis/prog")
VECTORS = os.path.join(SOURCE, "tests/vectors")

DIR = tempfile.mkdtemp(prefix="spex-analysis-")
atexit.register(shutil.rmtree, DIR)
os.makedirs(DIR + "/root/usr/bin")
shutil.copy(PROG, DIR + "/root/usr/bin/prog")
with open(DIR + "/symbols-of-kernel", "w") as f:
    f.write("ffff800008010000 T _text\nffff800008011000 T do_syscall\n"
            "ffff800008012000 t copy_loop\nffff800008013000 T end\n")
SYMBOLS = ["--symfs", "root", "--kallsyms", "symbols-of-kernel"]


def profile(scenario, count=20000, seed=1, name=None):
    """Name of a profile of this scenario, made on first use."""
    path = name or f"{scenario}.data"
    if not os.path.exists(f"{DIR}/{path}"):
        subprocess.run([MAKE, scenario, f"{DIR}/{path}", PROG, str(count), str(seed)], check=True)
    return path


def on(command, file, *args, columns=None, symbols=True, **kw):
    """Runs a command on a profile; (exit code, text, stderr)."""
    env = {"COLUMNS": str(columns)} if columns else {"COLUMNS": ""}
    env["HOME"] = DIR
    files = [command, "-i", file] if not isinstance(file, tuple) else [command, *file]
    code, out, err = spex(*files, *(SYMBOLS if symbols else []), *args, cwd=DIR, env=env, **kw)
    return code, out.decode(), err


def data(command, file, *args, **kw):
    code, out, err = on(command, file, "--format", "json", *args, **kw)
    return json.loads(out)


def records(file, *args):
    """The records as script prints them."""
    code, out, err = on("script", file, "--format", "json", *args)
    return [json.loads(l) for l in out.splitlines()]
