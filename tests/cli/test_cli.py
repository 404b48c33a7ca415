import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

code, out, err = spex("--version")
check("version", code == 0 and out.startswith(b"spex "), out)
code, out, err = spex("halp")
check("unknown command names the nearest", code == 2 and "did you mean 'help'" in err, err)
code, out, err = spex("help", "--mann")
check("unknown option names the nearest", code == 2 and "did you mean '--man'" in err, err)
code, out, err = spex()
check("no command is a usage error", code == 2 and out == b"", err)
code, out, err = spex("help")
check("help goes to stdout", code == 0 and b"Usage: spex" in out and err == "", out)
code, man, err = spex("help", "--man")
code, comp, err = spex("help", "--completion")
code, names, err = spex("help")
for line in names.decode().partition("Topics:")[0].splitlines():
    if line.startswith("  ") and line[2] != " ":
        name = line.split()[0]
        check(f"man page and completion know {name}",
              f".SS {name}".encode() in man and f"    {name}) options".encode() in comp)
        code, out, err = spex(name, "--help")
        check(f"{name} --help", code == 0 and out.startswith(f"spex {name} - ".encode()), out)
        check(f"{name} help fits 80 columns", max(len(l) for l in out.decode().splitlines()) <= 80, out)
for line in names.decode().partition("Topics:")[2].splitlines():
    if line.startswith("  "):
        code, out, err = spex("help", line.split()[0])
        check(f"help topic {line.split()[0]}", code == 0 and len(out.splitlines()) > 5, err)
code, out, err = run("bash", "-n", "-c", comp.decode())
check("completion is valid bash", code == 0, err)
done()
