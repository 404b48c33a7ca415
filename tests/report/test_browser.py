"""
The page in a browser: every panel of every kind of profile is drawn, without errors, requests or
overflow; what a person does with mouse and keyboard does what it should; a range of time equals the
command that the page names for it.
"""
import base64, lzma, subprocess, tarfile, zlib
from page import *
import browser
from browser import Browser

LONG = os.environ.get("SPEX_LONG")
# Rows below 0.5% of what is measured are behind a button.
ALL_FUNCTIONS = ("[...document.querySelectorAll('#functions .more button')].filter(x => "
                 "x.textContent.startsWith('show all')).forEach(x => x.click()); ")
PANELS = ["time", "functions", "icicle", "memory", "sharing", "branches", "threads", "data"]
HOSTILE = "</script><img src onerror=alert(1)>"

if not browser.CHROMIUM:
    later("the page in a browser", "check-html")
    done()


def hostile_profile():
    """A program whose function has a name that means harm."""
    os.makedirs(DIR + "/hostile/usr/bin", exist_ok=True)
    names = [l.split()[-1]
             for l in subprocess.run(["aarch64-linux-gnu-nm", PROG], capture_output=True,
                                     text=True).stdout.splitlines()]
    args = []
    for i, n in enumerate(n for n in names if n.isidentifier()):
        args += ["--redefine-sym", f"{n}=</script><img/src/onerror{i}>"]
    subprocess.run(["aarch64-linux-gnu-objcopy", *args, PROG, DIR + "/hostile/usr/bin/prog"],
                   check=True)
    code, out, err = spex("html", profile("mixed"), "-o", "hostile.html", "--title", HOSTILE,
                          "--symfs", "hostile", cwd=DIR)
    return f"{DIR}/hostile.html"


def one_sample():
    """A latency that few have, of those the shortest time."""
    longest = max(records(profile("mixed")), key=lambda r: r.get("latency", 0))
    path = page("mixed.data", "--min-latency", str(longest["latency"]), "--tid",
                str(longest["tid"]), "--symbol", longest["symbol"], name="one.html")
    check("a page of few samples", 1 <= data_of(path)["profiles"][0]["totals"]["samples"] <= 20,
          data_of(path)["profiles"][0]["totals"]["samples"])
    return path


def guest():
    """
    Two CPUs of a Linux guest of `spex vm`: Debian 12's kernel 6.1 with its own driver, perf record
    -a in the guest (recording `wide` of boot `smp` in tests/vm/test_vm.py, kept here because a boot
    takes minutes). No program of it is at hand.
    """
    with open(f"{DIR}/guest.data", "wb") as f:
        f.write(lzma.open(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                       "guest.data.xz")).read())
    path = page("guest.data", symbols=False)
    p = data_of(path)["profiles"][0]
    check("a guest's page: two CPUs, threads of the kernel among others", len(p["cpus"]) == 2 and
          {"workload", "rcu_sched", "swapper"} <= {r.get("name") for r in p["threads"]})
    return path


def capture(*which):
    """What perf took in a guest of a program that is at hand (docs/tutorial-hardware.md)."""
    with tarfile.open(f"{SOURCE}/examples/capture.tar.xz") as tar:
        tar.extractall(f"{DIR}/capture")
    return page([f"capture/{w}/perf.data" for w in which], name=f"{'-'.join(which)}.html",
                symbols=False)


PAGES = {
    "mixed": lambda: page(profile("mixed")),
    "false sharing": lambda: page(profile("false")),
    "no timestamps": lambda: page(profile("mixed-untimed")),
    "no data source": lambda: page(profile("mixed-nosource")),
    "two processes": lambda: page(profile("mixed-shm")),
    "lost data": lambda: page(profile("mixed-loss")),
    "branches only": lambda: page("mixed.data", "--op", "branch", name="branch.html"),
    "nothing": lambda: page("mixed.data", "--tid", "99999", name="nothing.html"),
    "few samples": one_sample,
    "two profiles": lambda: page((profile("mixed"), profile("false")), name="two.html"),
    "hostile names": hostile_profile,
    "a guest": guest,
    "a capture": lambda: capture("before"),
    "a capture and one after the fix": lambda: capture("before", "after"),
    "call stacks": lambda: page(record_paths(), symbols=False),
}

if LONG:
    def threads_page():
        """64 threads of two processes, recorded here."""
        subprocess.run(["aarch64-linux-gnu-gcc", "-O2", "-g", "-static", "-pthread",
                        os.path.join(os.path.dirname(__file__), "threads.c"), "-o",
                        DIR + "/threads"], check=True)
        code, out, err = spex("record", "-c", "1024", "-o", "threads.data", "--",
                              "./threads", cwd=DIR)
        equal("64 threads are recorded", code, 0)
        path = page("threads.data", symbols=False)
        rows = [r for r in data_of(path)["profiles"][0]["threads"] if "tid" in r]
        check("of two processes", len(rows) >= 64 and len({r["pid"] for r in rows}) == 2, len(rows))
        return path
    PAGES["64 threads"] = threads_page

    def large_page():
        path = page(profile("mixed", 16000000, name="large.data"))
        os.remove(f"{DIR}/large.data")
        samples = data_of(path)["profiles"][0]["totals"]["samples"]
        check("16 million records on one page of at most 3 MB", samples == 16000000 and
              os.path.getsize(path) <= 3 << 20, (samples, os.path.getsize(path)))
        return path
    PAGES["16 million records"] = large_page

b = Browser()
ALL_DRAWN = """[...document.querySelectorAll("canvas")].filter(c => {
    const g = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
    for (let i = 4; i < g.length; i += 4)
        if (g[i] !== g[0] || g[i + 1] !== g[1] || g[i + 3] !== g[3]) return false;
    return true;
}).map(c => c.getAttribute("aria-label"))"""

for name, make in PAGES.items():
    path = make()
    b.open(path, 1400)
    missing = [p for p in PANELS
               if not b.run(f"!!document.getElementById('{p}')?.textContent.trim()")]
    equal(f"{name}: every panel is there", missing, [])
    if name != "nothing":
        equal(f"{name}: every picture is drawn", b.run(ALL_DRAWN), [])
    equal(f"{name}: no error, no request", b.problems(), [])
    b.open(path, 360, 700)
    wide = b.run("document.documentElement.scrollWidth - innerWidth")
    check(f"{name}: no overflow at 360 pixels", wide <= 0, wide)

# ---- names are data ----
b.open(f"{DIR}/hostile.html")
check("hostile names are shown as text",
      b.run("document.body.textContent.includes('</script><img/src/onerror')"))
equal("and make no elements",
      b.run("document.querySelectorAll('img').length + document.querySelectorAll('script').length"),
      2)
equal("a hostile title is the title", b.run("document.title"), HOSTILE)
b.run("document.querySelectorAll('.open').forEach(x => x.click())")
equal("also in listings", (b.run("document.querySelectorAll('img').length"), b.problems()), (0, []))
refused = b.run("new Promise(done => { const s = document.createElement('script'); s.textContent = "
                "'window.bad = 1'; document.body.append(s);"
                "fetch('https://example.org/').then(() => done('fetched'), () => "
                "done(window.bad || 'refused')); })")
equal("the policy refuses other scripts and requests", refused, "refused")

# ---- a range of time ----
MIXED = f"{DIR}/mixed.data.html"
b.open(MIXED)
NUMBERS = ("[...document.querySelector('#chosen').textContent.matchAll(/([\\d,]+) "
           "(samples|cycles)/g)].map(m => Number(m[1].replace(/,/g, '')))")
whole = b.run(NUMBERS)
for start, end in ((0.3, 0.6), (0.8, 0.2), (0.5, 0.51)):
    b.drag("#time canvas", start, end)
    command = b.run("document.querySelector('#command')?.textContent || ''").split()
    check(f"dragging from {start} to {end} names a command", command[:2] == ["spex", "report"],
          command)
    option = command[command.index("--time") + 1]
    want = data("report", "mixed.data", "--time", option)
    samples = want["totals"]["samples"]
    waited = sum(r.get("latency", 0) for r in records("mixed.data", "--time", option))
    equal("which has the same samples and cycles", b.run(NUMBERS), [samples, waited])
    raw = data_of(MIXED)["profiles"][0]
    first, last = (int(float(t) * 1e9 + 0.5) >> raw["bins"]["shift"] for t in option.split(","))
    spent = sum(r["time_ns"] for r in want["rows"])
    work = sum(raw["at_work"][first - int(raw["bins"]["first"]):last +
                              1 - int(raw["bins"]["first"])])
    scale = {"s": 1e9, "ms": 1e6, "µs": 1e3, "ns": 1}
    said = [float(n) * scale[unit] for n, unit in re.findall(r"([\d.]+) (s|ms|µs|ns)\b", b.run(
        "document.querySelector('#chosen').textContent.split(': ')[1]"))]
    check("and the same time, beside that at work", len(said) == 2 and
          abs(said[0] / spent - 1) < 1e-3 and abs(said[1] / work - 1) < 1e-3, (said, spent, work))
    shown = b.run(ALL_FUNCTIONS +
                  "Object.fromEntries([...document.querySelectorAll('#functions tbody tr')].map(r "
                  "=> [r.querySelector('.name').textContent, "
                  "Number(r.children[4].textContent.replace(/,/g, ''))]))")
    equal("and the same functions", shown, {r["symbol"]: r["samples"] for r in want["rows"]})
b.key("Escape")
equal("Escape chooses all again", b.run(NUMBERS), whole)


def shares(what, file, *args, fields="time,time_error"):
    """The first column and its interval: on the page as in the text of report."""
    code, text, err = on("report", file, "-F", fields + ",symbol", "--percent-limit", "0", *args)
    want = {}
    for line in text.splitlines():
        row = re.match(r" *~?([\d.]+%) +([\d.]+%) +(\S+)$", line)
        if row:
            want[row[3]] = [row[1], row[2]]
    shown = b.run(ALL_FUNCTIONS +
                  "Object.fromEntries([...document.querySelectorAll('#functions tbody tr')].map(r "
                  "=> [r.querySelector('.name').textContent, [...r.children].slice(1, 3).map(c => "
                  "c.textContent.trim())]))")
    check(f"{what}: the shares and intervals of report's text", want and shown == want,
          (shown, want, text))


shares("all of the time", "mixed.data")
top = max(data("report", "mixed.data")["rows"], key=lambda r: r["time_ns"])
check("the first line names the function with most time, and how much",
      b.run("document.querySelector('.answer').textContent").startswith(
          f"{top['symbol']} takes {100 * top['time']:.1f}% ± "),
      (b.run("document.querySelector('.answer').textContent"), top))
HEAD = "document.querySelector('#head').textContent"
check("and where no code is, how time was shared",
      "time shared bylatencies alone" in b.run(HEAD), b.run(HEAD))
taken = f"{DIR}/before.html"
b.open(taken)
fit = data_of(taken)["profiles"][0]["replay"]
check("where there is, on which core, and how that fits", fit["share"] > 0.5 and
      f"time shared byreplay on {fit['core']}" in b.run(HEAD) and
      f"; fit: {fit['trust']}, issue latencies {100 * fit['issue_misfit']:.0f}% off" in
      b.run(HEAD), (fit, b.run(HEAD)))
b.open(MIXED)
few = b.run("[...document.querySelectorAll('#memory .tablebox')].slice(2).map(t => [...t."
            "querySelectorAll('tbody tr:not(.rest)')].map(r => "
            "Number(r.children[2].textContent.replace(/,/g, ''))))")
check("pages and lines that are shown have five samples or more",
      all(n >= 5 for rows in few for n in rows) and len(few) == 2, few)
b.run("document.querySelectorAll('#memory .more button').forEach(x => x.click())")
more = b.run("[...document.querySelectorAll('#memory .tablebox')].slice(2).map(t => t."
             "querySelectorAll('tbody tr').length)")
check("the others are a click away", more[1] > len(few[1]), (more, few))
b.drag("#time canvas", 0.3, 0.6)
option = b.run("document.querySelector('#command').textContent").split("--time ")[1]
shares("a range", "mixed.data", "--time", option)
b.key("Escape")
b.open(f"{DIR}/mixed-untimed.data.html")
shares("no timestamps", "mixed-untimed.data", fields="share,error")
check("which the page says",
      "time is not known, since the records" in on("report", "mixed-untimed.data")[1] and
      "not known, since the records have no timestamps" in b.run(HEAD) and
      "time shared by" not in b.run(HEAD) and
      b.run("document.querySelector('#functions th[aria-sort=descending]').textContent")
      == "samples")
b.open(MIXED)
b.run("document.querySelector('.ranges input').focus()")
for _ in range(5):
    b.key("ArrowRight")
check("sliders choose by keyboard",
      b.run("!!document.querySelector('#command')") and b.run(NUMBERS)[0] < whole[0])
b.run("document.querySelector('#all').click()")
b.frame()

# ---- nodes ----
b.open(page(profile("mixed-nodes", count=5000)))
b.run("document.querySelectorAll('#memory .more button').forEach(x => x.click())")
check("pages name their node",
      b.run("/0x[0-9a-f]+, node [01]/.test(document.querySelector('#memory').textContent)"))
b.open(MIXED)

# ---- tables ----
rows = ("[...document.querySelectorAll('#functions tbody tr')].map(r => "
        "parseFloat(r.children[1].textContent))")
before, every = b.run(rows), b.run(ALL_FUNCTIONS + rows)
check("functions below 0.5% are behind a button", before and min(before) >= 0.5 and
      sorted(before) == sorted(x for x in every if x >= 0.5), (before, every))
b.open(MIXED)
COLUMN = ("[...document.querySelectorAll('#functions tbody tr')].map(r => "
          "Number(r.children[4].textContent.replace(/,/g, '')))")
b.run("[...document.querySelectorAll('#functions th button')].find(x => x.textContent "
      "=== 'samples').focus()")
b.key("Enter")
down = b.run(COLUMN)
equal("Enter on a heading sorts", down, sorted(down, reverse=True))
b.key("Enter")
equal("and again the other way", b.run(COLUMN), sorted(down))
equal("as the heading says",
      b.run("document.activeElement.closest('th').getAttribute('aria-sort')"), "ascending")
b.run("document.querySelector('#functions input').focus()")
b.call("Input.insertText", text="WAL")
equal("the filter finds",
      b.run("[...document.querySelectorAll('#functions tbody .name')].map(x => x.textContent)"),
      ["walk"])
b.run("document.querySelector('#functions .open').focus()")
b.key("Enter")
listing = b.run("[...document.querySelectorAll('.listing tbody tr.seen')].map(r => "
                "r.querySelector('td.text.code').textContent)")
want = [r["instruction"]
        for r in data("annotate", ("-i", "mixed.data", "walk"))["instructions"] if r["samples"]]
equal("a function opens by keyboard, with the instructions of annotate", listing, want)
check("focus stays on what was pressed",
      b.run("document.activeElement.getAttribute('aria-expanded')") == "true")

# ---- files, functions, lines ----
b.run("document.querySelector('#icicle canvas').focus()")
b.key("ArrowDown")
b.key("ArrowDown")
said = b.run("document.querySelector('#icicle [aria-live]').textContent")
check("arrow keys move through the picture, in words",
      re.match(r".+: [\d.]+%, [\d,.]+ (cycles|s|ms|µs|ns)$", said), said)
b.key("Enter")
b.key("Escape")

# ---- call paths ----
FLAME = f"{DIR}/paths.data.html"
SAID = "document.querySelector('#icicle [aria-live]').textContent"
b.open(FLAME)
p = Profile(data_of(FLAME)["profiles"][0])
b.run("document.querySelector('#icicle canvas').focus()")
for _ in range(4):
    b.key("ArrowDown")
said = b.run(SAID)
check("arrow keys go down to main", said.startswith("main: "), said)
b.key("ArrowDown")
b.key("Enter")
first = b.run(SAID)
b.key("ArrowDown")
b.key("ArrowRight")
check("and below it, and beside", first.startswith("step_") and b.run(SAID) != first,
      (first, b.run(SAID)))
b.key("Escape")
check("Escape goes back to its caller", b.run(SAID).startswith("main: "), b.run(SAID))
b.run("document.querySelector('#icicle .outline').open = true")
b.frame()
for _ in range(5):
    b.run("document.querySelector('#icicle .tree details:not([open])').open = true")
    b.frame()
TEXT = "[...document.querySelectorAll('#icicle .tree summary')].map(x => x.textContent)"
lines = b.run(TEXT)
check("the same as text opens level by level", lines[0].startswith("_start: 100.0%") and
      any(l.startswith("step_") for l in lines), lines[:8])


def below(name, bins=None):
    """What is in calls of a function and below them."""
    nodes, out, inside = p.raw["stacks"]["nodes"], 0, []
    for n in nodes:
        inside.append(n.get("name") == name or n["parent"] >= 0 and inside[n["parent"]])
        if inside[-1]:
            out += p.vector(n, bins)["samples"]
    return out


b.run("(s => { s.value = 'samples'; s.dispatchEvent(new Event('change')); "
      "})(document.querySelector('#measure'))")
b.frame()
b.run("(i => { i.value = 'step_3'; i.dispatchEvent(new Event('input')); "
      "})(document.querySelector('#icicle input'))")
want = below("step_3") / sum(p.vector(n)["samples"] for n in p.raw["stacks"]["nodes"])
equal("a search says how much is in what it finds", b.run(SAID),
      f"“step_3”: {100 * want:.1f}% of all")
b.drag("#time canvas", 0.3, 0.6)
check("a range changes what is below",
      b.run(TEXT) != lines and b.run(SAID).startswith("“step_3”: "), b.run(SAID))
check("and says that it is coarse here",
      "in steps of" in b.run("document.querySelector('#icicle').textContent"))
b.key("Escape")
b.run("document.querySelector('#tree-files').click()")
b.frame()
check("files, functions and lines are a click away",
      b.run("document.querySelector('#icicle .tree summary').textContent").startswith(
          "paths: 100.0%"))
b.run("document.querySelector('#tree-calls').click()")
b.run("URL.createObjectURL = blob => { blob.text().then(t => { window.saved = t; }); return '#'; }")
b.run("[...document.querySelectorAll('#data button')].find(x => "
      "x.textContent.startsWith('call paths')).click()")
b.frame()
saved = sum(int(l.rsplit(" ", 1)[1]) for l in b.run("window.saved").splitlines() if ";step_3" in l)
equal("call paths are taken along as flame graph tools read them", saved, below("step_3"))
equal("no error", b.problems(), [])

# ---- the rest ----
b.open(MIXED)
b.run("(s => { s.value = 'samples'; s.dispatchEvent(new Event('change')); "
      "})(document.querySelector('#measure'))")
b.frame()
check("another measure changes the first column",
      b.run("document.querySelector('#functions th[aria-sort] button').textContent").startswith(
          "samples"))
b.run("document.querySelector('.theme').click()")
b.frame()
equal("the theme changes", b.run("document.documentElement.dataset.theme"), "dark")
b.open(f"{DIR}/two.html")
b.run("document.querySelector('#profile-1').click()")
b.frame()
equal("the other profile is shown",
      (b.run("document.querySelector('#head dd').textContent"), b.problems()), ("false.data", []))
diff = {r["key"]: f"{100 * r['time_low']:+.1f} to {100 * r['time_high']:+.1f}"
        for r in data("diff", ("mixed.data", "false.data"))["rows"]}
shown = b.run("Object.fromEntries([...document.querySelectorAll('#compare tbody tr')].map(r => "
              "[r.querySelector('.name').textContent, r.children[2].textContent]))")
equal("and the differences with the intervals of diff",
      {k: v.replace("+0.0", "0.0").replace("-0.0", "0.0") for k, v in shown.items()},
      {k: v.replace("+0.0", "0.0").replace("-0.0", "0.0") for k, v in diff.items()})
b.open(MIXED)
pdf = b.call("Page.printToPDF")
check("the page prints", len(pdf["data"]) > 10000, len(pdf["data"]))

# ---- what it looks like: small pictures of the pictures, and of whole pages, against
# those of an earlier run ----
GOLDEN = os.path.join(os.path.dirname(__file__), "pictures.json")
STEPS = """function steps(s, g) {
    const d = g.getImageData(0, 0, s.width, s.height).data;
    const grey = i => (2 * d[4 * i] + 5 * d[4 * i + 1] + d[4 * i + 2]) / 8;
    const step = (_, i) => Math.round(grey(i) / 17).toString(16);
    return Array.from({length: s.width * s.height}, step).join("");
}"""
SMALL = ("(() => {" + STEPS +
         """return Object.fromEntries([...document.querySelectorAll("canvas")].map(c => {
    const s = new OffscreenCanvas(24, 12), g = s.getContext("2d", {willReadFrequently: true});
    g.fillStyle = getComputedStyle(document.body).backgroundColor;
    g.fillRect(0, 0, 24, 12);
    g.imageSmoothingQuality = "high";
    g.drawImage(c, 0, 0, 24, 12);
    return [c.getAttribute("aria-label"), steps(s, g)];
})); })()""")
FONTS = """(() => {
    const g = new OffscreenCanvas(9, 9).getContext("2d");
    return ["15px system-ui, sans-serif", "14px ui-monospace, monospace"].map(f => {
        g.font = f;
        return Math.round(g.measureText("The quick brown fox 0123").width);
    }).join();
})()"""
golden, seen = json.load(open(GOLDEN)) if os.path.exists(GOLDEN) else {}, {}


def whole_page(name, width, dark):
    """The page as 48 x 160 steps of grey: small enough to keep."""
    b.open(f"{DIR}/{name}.html", width, 900, dark)
    shot = b.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                  clip={"x": 0, "y": 0, "width": width,
                        "height": b.run("document.documentElement.scrollHeight"),
                        "scale": 480 / width})
    b.open("/dev/null", 800, 600) # the page's own policy allows no picture
    return b.run("(async () => {" + STEPS + f"""
        const i = new Image(), s = new OffscreenCanvas(48, 160);
        const g = s.getContext("2d", {{willReadFrequently: true}});
        i.src = "data:image/png;base64,{shot['data']}";
        await i.decode();
        g.imageSmoothingQuality = "high";
        g.drawImage(i, 0, 0, 48, 160);
        return steps(s, g);
    }})()""")


def far(want, got):
    """None if alike: of 16 steps from black to white one on average, few
    places by more than four."""
    steps = [abs(int(x, 16) - int(y, 16)) for x, y in zip(want, got or "0" * len(want))]
    if sum(steps) > len(steps) or sum(s > 4 for s in steps) > len(steps) // 24:
        return (f"{sum(steps) / len(steps):.2f} steps on average, {sum(s > 4 for s in steps)} "
                "places by more than four")


for name, width, dark in (("mixed.data", 1400, False), ("mixed.data", 1400, True),
                          ("false.data", 700, False), ("paths.data", 1400, False),
                          ("guest.data", 1280, False), ("before", 1280, False),
                          ("before-after", 1280, True)):
    b.open(f"{DIR}/{name}.html", width, 900, dark)
    key = f"{name} {width} {'dark' if dark else 'light'}"
    seen[key] = {l: t for l, t in b.run(SMALL).items() if name != "paths.data" or
                 l.startswith("Call paths")}  # where its stack lies is not always the same
    equal(f"{key}: the same pictures", sorted(seen[key]), sorted(golden.get(key, {})))
    wrong = {label: far(text, seen[key].get(label)) for label, text in golden.get(key, {}).items()}
    equal(f"{key}: they look as they did", {l: w for l, w in wrong.items() if w}, {})
fonts = b.run(FONTS)
pages = golden.get("pages", {})
RENEW = os.environ.get("SPEX_PICTURES")
if (LONG and fonts == pages.get("fonts")) or RENEW:
    seen["pages"] = {"fonts": fonts}
    for width in (360, 1280, 2560):
        for dark in (False, True):
            key, now = (f"mixed.data {width} {'dark' if dark else 'light'}",
                        whole_page("mixed.data", width, dark))
            seen["pages"][key] = base64.b64encode(zlib.compress(now.encode(), 9)).decode()
            equal(f"the whole page of {key} looks as it did",
                  far(zlib.decompress(base64.b64decode(pages[key])).decode(), now) if key in pages
                  else "not seen before", None)
else:
    later("whole pages look as they did", "check-html")
    seen["pages"] = pages
if RENEW:
    with open(GOLDEN, "w") as f:
        json.dump(seen, f, indent=1)

# ---- labels ----
equal("every control and picture has a name", b.run("""
    [...document.querySelectorAll(
        "button, input, select, canvas, svg[role=img], [role=region]")].filter(e =>
        !e.getAttribute("aria-label") && !e.textContent.trim() && !e.closest("label") &&
        !document.querySelector(`label[for="${e.id}"]`)).map(e => e.outerHTML.slice(0, 80))"""), [])
axe = os.path.join(BUILD, "html/axe.min.js")
if os.path.exists(axe):
    for path, dark in ((MIXED, False), (MIXED, True), (FLAME, False), (FLAME, True)):
        b.open(path, dark=dark)
        b.run("document.querySelectorAll('#functions .open')[0].click(); "
              "document.querySelector('#icicle .outline').open = true")
        b.run(open(axe).read() + ";0")
        found = b.run("axe.run(document).then(r => r.violations.filter(v => ['serious', "
                      "'critical'].includes(v.impact)).map(v => `${v.id}: ${v.nodes.length} "
                      "${v.nodes[0].html.slice(0, 120)} ${v.nodes[0].failureSummary}`))")
        equal(f"axe-core finds nothing serious, {os.path.basename(path)}, "
              f"{'dark' if dark else 'light'}", found, [])
elif LONG:
    check("axe-core is there", False, "make check-html fetches it")
b.close()
done()
