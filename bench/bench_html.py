"""spex html: records a second, and what the page costs a browser. Times are CPU
times: machines are shared."""
import glob, os, subprocess, sys, tempfile

from measure import cost, longest

BUILD, SOURCE = os.environ["SPEX_BUILD"], os.environ["SPEX_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "tests/report"))
import browser

RECORDS, BRUSHES = 4000000, 20


def drawing(b):
    """CPU time of the processes that draw pages, in ms."""
    ticks = 0
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            command = open(path).read()
            if "--type=renderer" in command and b.directory in command:
                fields = open(path.replace("cmdline", "stat")).read().rsplit(")", 1)[1].split()
                ticks += int(fields[11]) + int(fields[12])
        except OSError:
            pass  # it has ended
    return 1000 * ticks / os.sysconf("SC_CLK_TCK")


with tempfile.TemporaryDirectory(prefix="spex-bench-") as work:
    data, page = f"{work}/mixed.data", f"{work}/page.html"
    os.makedirs(f"{work}/root/usr/bin")
    os.symlink(f"{BUILD}/tests/analysis/prog", f"{work}/root/usr/bin/prog")
    subprocess.run([f"{BUILD}/tests/analysis/make_profile", "mixed-near", data,
                    f"{BUILD}/tests/analysis/prog", str(RECORDS), "1"], check=True)
    words = ["--symfs", f"{work}/root", "-i", data, "--threads"]
    make = [f"{BUILD}/spex", "html", "-o", page, *words]
    report, html = cost([f"{BUILD}/spex", "report", *words, "1"], work,
                        3)[0], cost([*make, "1"], work, 3)[0]
    print(f"html\t{RECORDS / html / 1e6:.1f}\tM records/s\t{report / html:.2f}\tspex report")
    print(f"html, two threads\t{RECORDS / longest([*make, '2'], work, 5) / 1e6:.1f}\tM records/s "
          "of the thread that takes longer")
    print(f"html page size\t{os.path.getsize(page) / 1e6:.1f}\tMB")
    if browser.CHROMIUM:
        b = browser.Browser()
        before = drawing(b)
        b.open(page)
        opened = drawing(b)
        b.run("""new Promise(async done => {
            const input = document.querySelector(".ranges input");
            for (let k = 1; k <= %d; k++) {
                input.value = 3 * k;
                input.dispatchEvent(new Event("input"));
                await new Promise(drawn =>
                    requestAnimationFrame(() => requestAnimationFrame(drawn)));
            }
            done();
        })""" % BRUSHES)
        print(f"html first paint\t{opened - before:.0f}\tms")
        print(f"html brush\t{(drawing(b) - opened) / BRUSHES:.1f}\tms")
        b.close()
