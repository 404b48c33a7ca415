"""Source in a page or a listing: only of files that lie where sources are, whatever a line table
says, and never a secret."""
import re
import stat

from common import *
sys.path.insert(0, os.path.join(HERE, "../perfdata"))
import pd

HOLDS = "the page holds source of"
SECRET = "int secret_marker_c0ffee = 1; /* line */\n" * 200
work = os.path.join(DIR, "work")
lib = os.path.join(work, "project")
elsewhere = os.path.join(DIR, "elsewhere")
for d in (lib, elsewhere, os.path.join(work, ".hidden")):
    os.makedirs(d)


def build(name, source):
    """A program in project/ whose line table names this file; its profile."""
    asm = os.path.join(DIR, "secret.s")
    program = os.path.join(lib, name)
    with open(asm, "w") as f:
        f.write(f'''.file 1 "{source}"
.text
.global _start
.type _start, %function
_start:
.loc 1 5
''' + "nop\n" * 20 + ".loc 1 6\n" + "nop\n" * 20 + '''ret
.size _start, . - _start
.section .debug_info,"",%progbits
.4byte 2f - 1f
1: .2byte 4
.4byte .Labbrev
.byte 8
.uleb128 1
.4byte .Lline
.8byte .text
.8byte .text + 164
.asciz "''' + source + '''"
2:
.section .debug_abbrev,"",%progbits
.Labbrev:
.uleb128 1, 0x11
.byte 0
.uleb128 0x10, 0x17, 0x11, 1, 0x12, 1, 3, 8, 0, 0, 0
.section .debug_line,"",%progbits
.Lline:
''')
    obj = os.path.join(DIR, "secret.o")
    for command in (["aarch64-linux-gnu-as", "-o", obj, asm],
                    ["aarch64-linux-gnu-ld", "-o", program, obj]):
        code, out, err = run(*command)
        assert not code, err
    out = run("aarch64-linux-gnu-nm", program)[1].decode()
    start = int(re.search(r"^(\w+) T _start$", out, re.M).group(1), 16)
    f = pd.File()
    f.comm(100, 100, name)
    f.mmap2(100, 100, start & ~0xfff, 0x1000, program)
    f.trace(b"".join(pd.record(start + 4 * (i % 40), ctx=100, ts=1000 + i) for i in range(400)),
            pid=100, tid=100)
    data = os.path.join(work, f"{name}.data")
    with open(data, "wb") as out_file:
        out_file.write(f.bytes())
    return data


def look(data, *args, cwd=None):
    """What the page and the listing show of the secret; the page's list; what is said."""
    env = {"HOME": DIR, "DEBUGINFOD_URLS": ""}
    cwd = cwd or elsewhere
    code, out, err = spex("html", data, "-o", "page.html", *args, cwd=cwd, env=env)
    text = open(os.path.join(cwd, "page.html"), encoding="utf-8").read() if not code else ""
    again, listing, said = spex("annotate", "-i", data, *args, cwd=cwd, env=env)
    return dict(page="secret_marker" in text, listing=b"secret_marker" in listing, err=err + said,
                code=(code, again), listed=HOLDS in err and '"source_files":[' in text)


def write(path, text=SECRET):
    with open(path, "w") as f:
        f.write(text)
    return path


def shown(name, got, want):
    check(name, got["page"] == got["listing"] == got["listed"] == want, got)


inside = write(os.path.join(lib, "inside.c"))
outside = write(os.path.join(DIR, "outside.c"))
shown("below the program's directory: shown", look(build("a", inside)), True)
data = build("b", outside)
got = look(data)
shown("elsewhere: not shown", got, False)
check("and the listing says why", "--source-dir" in got["err"], got["err"])
shown("below the current directory: shown", look(data, cwd=DIR), True)
shown("--source-dir allows it", look(data, "--source-dir", DIR), True)
shown("--no-source leaves it out", look(data, "--source-dir", DIR, "--no-source"), False)
shown("--symfs allows what is below it", look(build("c", "/outside.c"), "--symfs", DIR), True)
shown("--source-dir with fewer and fewer directories",
      look(build("d", "/build/machine/x/inside.c"), "--source-dir", lib), True)
os.symlink(outside, os.path.join(lib, "link.c"))
shown("a link out of it: not shown", look(build("e", os.path.join(lib, "link.c"))), False)
os.symlink(DIR, os.path.join(lib, "up"))
shown("nor through a linked directory",
      look(build("f", os.path.join(lib, "up/outside.c"))), False)
shown("nor by ..", look(build("g", os.path.join(lib, "../../outside.c"))), False)
write(os.path.join(lib, ".env"))
shown("nothing hidden", look(build("h", os.path.join(lib, ".env"))), False)
os.makedirs(os.path.join(lib, ".ssh"), exist_ok=True)
write(os.path.join(lib, ".ssh/id"))
shown("nor below what is hidden", look(build("i", os.path.join(lib, ".ssh/id"))), False)
shown("unless --source-dir names it",
      look(build("j", os.path.join(lib, ".ssh/id")), "--source-dir", os.path.join(lib, ".ssh")),
      True)
os.mkfifo(os.path.join(lib, "fifo.c"))
shown("a FIFO: not shown, not waited for", look(build("k", os.path.join(lib, "fifo.c"))), False)
for path in ("/proc/self/environ", "/proc/self/cmdline", "/etc/passwd", "/sys/kernel/notes",
             "/dev/stdin", "/dev/zero", "/etc/hostname"):
    data = build("l", path)
    for args in ((), ("--source-dir", "/"), ("--source-dir", os.path.dirname(path))):
        code, out, err = spex("html", data, "-o", "page.html", *args, cwd=elsewhere,
                              env={"HOME": DIR})
        check(f"never {path} {' '.join(args)}", code == 0 and HOLDS not in err, err)
os.symlink("/etc/passwd", os.path.join(lib, "passwd.c"))
shown("nor a link to one", look(build("m", os.path.join(lib, "passwd.c"))), False)
page = os.path.join(elsewhere, "page.html")
os.chmod(inside, 0o600)
data = build("n", inside)
os.chmod(data, 0o644)
os.umask(0o022)
os.path.exists(page) and os.unlink(page)
look(data)
equal("a page with a private source is private", oct(stat.S_IMODE(os.stat(page).st_mode)), "0o600")
code, out, err = spex("html", data, "-o", inside, cwd=elsewhere)
check("a page does not replace a source that it shows",
      code == 2 and "would replace" in err and open(inside).read() == SECRET, err)
done()
