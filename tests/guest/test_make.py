"""make -j2 with Debian's own arm64 compiler, and very many execs: `make check-exec` fetches it
into SPEX_BUILD/exec."""
import collections
import json

from guest import *

need_engine("make")
root = os.path.join(BUILD, "exec", "root")
compiler = os.path.join(root, "usr/bin/aarch64-linux-gnu-gcc-12")
if not os.path.exists(compiler):
    skip("make", "no arm64 compiler; make check-exec fetches it")
    done()
project = os.path.join(WORK, "project")
FILES = 5


def processes(path):
    code, out, err = spex("script", "-i", path, "--format", "json")
    rows = [json.loads(l) for l in out.decode().splitlines()]
    return (collections.Counter(r["comm"] for r in rows), len({r["pid"] for r in rows}),
            [r for r in rows if "dso" not in r])


def fresh():
    shutil.rmtree(project, ignore_errors=True)
    os.mkdir(project)
    for i in range(FILES):
        open(os.path.join(project, f"f{i}.c"),
             "w").write(f"int f{i}(int n) {{ int s = {i}; for (int i = 0; i < n; i++) s += i "
                        f"* s; return s; }}\n")
    open(os.path.join(project, "main.c"),
         "w").write('#include <stdio.h>\n' + "".join(f"int f{i}(int);" for i in range(FILES)) +
                    'int main(void) { printf("%d\\n", ' +
                    " + ".join(f"f{i}(5)" for i in range(FILES)) + "); return 0; }\n")
    objects = " ".join(f"f{i}.o" for i in range(FILES)) + " main.o"
    open(os.path.join(project, "Makefile"),
         "w").write(f"prog: {objects}\n\t$(CC) $(FLAGS) -o $@ $^\n%.o: %.c\n"
                    "\t$(CC) $(FLAGS) -O1 -c $< -o $@\nbroken:\n\t$(CC) $(FLAGS) -c nothing.c\n")


def code_of(path):
    """Instructions of an object, from the cross tools."""
    return [l.split("\t", 1)[1] for l in run("aarch64-linux-gnu-objdump", "-d",
                                             path)[1].decode().splitlines() if "\t" in l]


def make(*args, tool="make"):
    return record("-c", "65536", "-L", root, "--", tool, "-C", project, "-j2", f"CC={compiler}",
                  f"FLAGS=--sysroot={root}", *args)


# ---- with this machine's make, and with an arm64 one that uses this machine's shell ----
for tool, name in (("make", "make"), (os.path.join(root, "usr/bin/make"), "arm64 make")):
    fresh()
    code, out, err, path = make(tool=tool)
    check(f"{name}: ends well", code == 0, (code, out[-300:], err[-600:]))
    seen, pids, unnamed = processes(path)
    check(f"{name}: every program of the compiler has samples",
          {"cc1", "as", "ld", "collect2"} <= set(seen), seen)
    check(f"{name}: processes", pids >= 3 * (FILES + 1) + 3, pids)
    equal(f"{name}: all samples are named", unnamed, [])
    check(f"{name}: verify", *verified(path))
    cross = os.path.join(WORK, "cross.o")
    run(CC, "-O1", "-c", os.path.join(project, "f3.c"), "-o", cross)
    equal(f"{name}: the same code as from the cross compiler",
          code_of(os.path.join(project, "f3.o")), code_of(cross))
    p = run("qemu-aarch64", "-L", root, os.path.join(project, "prog"))
    want = 0
    for i in range(FILES):
        s = i
        for k in range(5):
            s += k * s
        want += s
    equal(f"{name}: the program that it made", (p[0], p[1]), (0, b"%d\n" % want))
code, out, err, path = make("broken")
check("an error of the compiler ends make as always",
      code == 2 and "nothing.c: No such file" in err and verified(path)[0], (code, err[-300:]))

starts = build("starts")
code, out, err, path = record("-c", "4096", starts, "again", "1000", timeout=1800)
seen, pids, unnamed = processes(path)
equal("a thousand execs: one process to the end", (code, pids, unnamed), (5, 1, []))
check("a thousand execs: verify", *verified(path))
done()
