"""
Ten of Debian's programs, recorded: their pages have no overflow, no errors, text that can be read
in both themes, and no panel with nothing to say; their tables fit each terminal, and colours change
nothing but colours. Part of `make check-html`.
"""
import pty, subprocess
from page import *
import browser

if not os.environ.get("SPEX_LONG"):
    done()
ARM64 = os.path.join(BUILD, "arm64")
code, _, err = run("sh", f"{SOURCE}/scripts/fetch-debs", ARM64, "sqlite3", "python3", "perl",
                   "gawk", "bzip2", "zstd", "xz-utils", "openssl", "coreutils", "cpp-12",
                   timeout=900)
if code:
    skip("Debian's arm64 programs", "cannot be fetched: " + err.strip().splitlines()[-1])
    done()
ROOT = f"{ARM64}/root"
BIN = f"{ROOT}/usr/bin"
with open(f"{DIR}/text", "wb") as f:
    f.write(open(f"{BIN}/sqlite3", "rb").read()[:300000])
with open(f"{DIR}/words", "w") as f:
    f.writelines(f"{i * 2654435761 % 2**32:08x}\n" for i in range(20000))
with open(f"{DIR}/part.c", "w") as f:
    f.writelines(f"int f{i}(int *a, int n) {{ int s = {i}; while (n--) s += a[n] * {i}; "
                 "return s; }\n" for i in range(60))
SQL = ("create table t(a integer primary key, b text);"
       "with recursive c(x) as (select 1 union all select x + 1 from c where x < 20000) "
       "insert into t select x, 'row ' || x * 7919 % 1000 from c; create index i on t(b);")
PROGRAMS = {
    "sqlite3": [f"{BIN}/sqlite3", ":memory:", SQL],
    "python3": [f"{BIN}/python3", "-S", "-c", "print(sum(i * i % 7 for i in range(60000)))"],
    "perl": [f"{BIN}/perl", "-e", 'my %h; for my $i (1..20000) { $h{$i % 977} .= "x$i"; }'],
    "gawk": [f"{BIN}/gawk", "BEGIN { for (i = 0; i < 9000; i++) { s = s i % 7; n[i % 97]++ } }"],
    "bzip2": [f"{ROOT}/bin/bzip2", "-c", "text"],
    "zstd": [f"{BIN}/zstd", "-T2", "-9", "-c", "text"],
    "xz": [f"{BIN}/xz", "-T2", "--block-size=100000", "-3", "-c", "text"],
    "openssl": [f"{BIN}/openssl", "genrsa", "512"],
    "sort": [f"{BIN}/sort", "words"],
    "cc1": [f"{ROOT}/usr/lib/gcc/aarch64-linux-gnu/12/cc1", "-quiet", "-O2", "part.c", "-o",
            "part.s"],
}
STACKS = {"python3", "cc1"}  # recorded with call stacks


def on_terminal(columns, *args):
    """What a command prints on a terminal of this width."""
    ours, theirs = pty.openpty()
    p = subprocess.Popen([SPEX, *args], cwd=DIR, stdin=subprocess.DEVNULL, stdout=theirs,
                         stderr=subprocess.DEVNULL, text=True,
                         env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm",
                              "PAGER": "cat", "HOME": DIR})
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    p.wait()
    return b"".join(parts).decode().replace("\r\n", "\n")


def terminal(name, top):
    for command in (["report"], ["mem"], ["c2c"], ["branch"], ["annotate", top]):
        args = [command[0], "-i", f"{name}.data", *command[1:]]
        for columns in (80, 120, 200):
            title = f"{name}: {command[0]} at {columns} columns"
            code, text, err = run(SPEX, *args, cwd=DIR, env={"COLUMNS": str(columns), "HOME": DIR})
            text = text.decode()
            long = [line for line in text.splitlines() if len(line) > columns]
            check(f"{title}: succeeds, nothing is wider or ends in spaces", code == 0 and text and
                  not long and not re.search(r" $|\t|\x1b", text, re.M), (code, err, long[:3]))
            if columns == 120:
                shown = on_terminal(columns, *args)
                equal(f"{title}: colours change nothing else",
                      re.sub(r"\x1b\[[\d;]*m", "", shown), text)
                check(f"{title}: there are some", command[0] == "c2c" or "\x1b[" in shown)
    table = spex("branch", "-i", f"{name}.data", cwd=DIR)[1].decode()
    rows = re.search(r"most mispredicted first\n.*\n((?: +\d.*\n)*)", table)
    check(f"{name}: branches are of three mispredicts or more",
          all(int(r.split()[0].replace(",", "")) >= 3 for r in rows[1].splitlines()) if rows else
          "No branch has 3 mispredicted samples" in table, table)
    table = spex("mem", "-i", f"{name}.data", cwd=DIR)[1].decode()
    for title in ("Pages", "Cache lines"):
        rows = re.search(rf"^{title}, by time\n.*\n((?: .*%.* 0x\w+\n)*)", table, re.M)
        few = [r for r in rows[1].splitlines() if int(r.split()[1].replace(",", "")) < 5] \
            if rows else []
        check(f"{name}: {title.lower()} have five samples or more", not few and
              (rows or f"{title}, by time: none of" in table), (few, table))


# Text that is paler than 4.5 to 1 on what lies behind it.
PALE = """[...document.querySelectorAll("main *, #head *, #bar *")].filter(e =>
    e.offsetParent && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).map(e => {
    const parse = c => c.match(/[\\d.]+/g).map(Number), light = c => {
        const [r, g, b] = c.map(v => (v /= 255) <= 0.03928 ? v / 12.92
                                                           : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    let back = e, colour = [0, 0, 0, 0];
    for (; back && !(colour[3] ?? 1); back = back.parentElement)
        colour = parse(getComputedStyle(back).backgroundColor);
    const a = light(parse(getComputedStyle(e).color)), b = light(colour);
    return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.textContent.slice(0, 40)];
}).filter(([x]) => x < 4.5)"""


def on_page(b, name):
    path = page(f"{name}.data", symbols=False)
    profile = data_of(path)["profiles"][0]
    for width in (360, 1200, 1920):
        b.open(path, width, 900)
        wide = b.run("document.documentElement.scrollWidth - innerWidth")
        check(f"{name}: no overflow at {width} pixels, no error, no request",
              wide <= 0 and not b.problems(), (wide, b.problems()))
        if width > 360:
            equal(f"{name}: the functions fit at {width} pixels",
                  b.run("(e => e.scrollWidth - e.clientWidth)"
                        "(document.querySelector('#functions .scroll'))"), 0)
    alone = len(profile["threads"]) == 1 and len(profile["cpus"]) == 1
    text = lambda panel: b.run(f"document.querySelector('#{panel}').innerText.trim()"
                               ".split('\\n').filter(x => x.trim()).length")
    if alone:
        equal(f"{name}: threads of one thread are a heading and a line", text("threads"), 2)
    if not profile["sharing"]["lines"]:
        check(f"{name}: sharing without shared lines, too", text("sharing") <= 3, text("sharing"))
    check(f"{name}: no row is of a page or line that always hits",
          not b.run("[...document.querySelectorAll('#memory .pair tbody tr:not(.rest)')].some(r => "
                    "!r.closest('.scroll').hidden && r.children[4].textContent === '0.0%' && "
                    "r.children[5].textContent === '0.0%')"))
    equal(f"{name}: no column of text is empty",
          b.run("[...document.querySelectorAll('#branches table')].flatMap(t => "
                "[...t.tHead.rows[0].cells].filter((c, i) => !c.hidden && t.tBodies[0].rows.length"
                " && [...t.tBodies[0].rows].every(r => !r.cells[i].textContent)))"
                ".map(c => c.textContent)"), [])
    for dark in (False, True):
        b.open(path, 1200, 900, dark=dark)
        equal(f"{name}: text stands out, {'dark' if dark else 'light'}", b.run(PALE), [])


b = browser.Browser() if browser.CHROMIUM else None
for name, argv in PROGRAMS.items():
    code, out, err = run(SPEX, "record", *(["-g"] if name in STACKS else []), "-o", f"{name}.data",
                         "-L", ROOT, "--", *argv, cwd=DIR, timeout=600)
    if not check(f"{name}: recorded", code == 0, err):
        continue
    top = data("report", f"{name}.data")["rows"][0]["symbol"]
    terminal(name, top)
    if b:
        on_page(b, name)
if b:
    b.close()
else:
    skip("pages", "no chromium")
done()
