"""What the model says of microbenchmarks, beside what is published:
docs/validation.md and its plots.

Usage: validate.py BUILD [--write DIR] [--cpu NAME ...] [--only PART ...] [--row TEXT] [--quick]
                   [--minutes N] [--single]

Each row runs src/micro/micro.c under `spex record --truth` and divides the exact cycles of its
kernel by what the kernel did. A row is *fitted* if a number of the preset was set from it, else
*predicted*. Predicted rows must lie within 15%, or spec/published-why.tsv says why not; fitted ones
within 3%. A row whose benchmark is "is KEY" has no run: the published number is that of the file.
"reach LEVEL" looks for the number of pages that a level of TLB holds.

What was measured is kept in BUILD/validate.json until the program, the model or the benchmark
changes, so that a long run can be made in parts: --minutes ends one; what is left out says so.
--only makes some parts of the page anew ("table", or the name of a plot) and keeps the others as
they stand. --single leaves out what has several threads: on a busy host, where a thread may wait
for a processor for longer than the model waits for it, that measures the host.
"""
import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
CROSS = "aarch64-linux-gnu-"


PAGE = 4096 + 64  # a line of each page, not all in the same set
STEADY = ("read ", "taken", "code", "near")  # what comes first takes longer
THREADS = ("loaded", "pingpong", "readers")  # benchmarks with several threads


def with_symbols(path):
    """The benchmarks, made anew if they changed; the spex-micro that is installed is stripped."""
    source = os.path.join(ROOT, "src/micro")
    newest = max(os.path.getmtime(os.path.join(source, name)) for name in os.listdir(source))
    if not os.path.exists(path) or os.path.getmtime(path) < newest:
        subprocess.run([CROSS + "gcc", "-D_GNU_SOURCE", "-O2", "-static", "-pthread", "-o", path,
                        os.path.join(source, "micro.c")], check=True)
    return path


class NotRun(Exception):
    """There is no time left for this one."""


class Bench:
    def __init__(self, build, folder, end, single):
        build = os.path.realpath(build)
        self.spex, self.folder, self.number = os.path.join(build, "spex"), folder, 0
        self.end, self.single, self.path = end, single, os.path.join(build, "validate.json")
        self.micro = with_symbols(os.path.join(build, "micro"))
        parts = [self.spex, os.path.join(build, "libspex-qemu.so"), self.micro]
        self.made_of = hashlib.sha256(b"".join(open(p, "rb").read() for p in parts)).hexdigest()
        self.known = json.load(open(self.path)) if os.path.exists(self.path) else {}
        if self.known.get("made of") != self.made_of:
            self.known = {"made of": self.made_of}
        self.kernels = []  # (start, end, name)
        for line in subprocess.check_output([CROSS + "nm", "-S", self.micro],
                                            text=True).splitlines():
            word = line.split()
            if len(word) == 4 and word[3].startswith("kernel_"):
                self.kernels.append((int(word[0], 16), int(word[0], 16) + int(word[1], 16),
                                     word[3][7:]))
        if not self.kernels:
            sys.exit(f"validate: {self.micro} has no symbols: remove it")

    def run(self, cpu, micro, model=""):
        """({kernel: {column: sum}}, what the kernel did), from the last run if it is known."""
        key = f"{cpu} {micro} {model}"
        if self.single and micro.startswith(THREADS):
            raise NotRun
        if key not in self.known:
            if time.time() > self.end:
                raise NotRun
            self.known[key] = self.run_now(cpu, micro, model)
            with open(self.path + ".new", "w") as f:
                json.dump(self.known, f)
            os.replace(self.path + ".new", self.path)
        return self.known[key]

    def run_now(self, cpu, micro, model):
        self.number += 1
        out = os.path.join(self.folder, f"{self.number}.data")
        command = [self.spex, "record", "--model", "full", "--truth", "-c", "1048576", "--cpu", cpu,
                   "-o", out]
        if model:
            command += ["--model", model]
        p = subprocess.run(command + ["--", self.micro, *micro.split()], capture_output=True,
                           text=True)
        if p.returncode:
            sys.exit(f"validate: {' '.join(command)} -- micro {micro}: {p.stderr}")
        units = int(p.stdout.split()[1])
        sums, names = {}, []
        for line in open(out + ".truth"):
            if line.startswith("# pid"):
                names = line[2:].split()
            if line.startswith("#"):
                continue
            row = dict(zip(names, line.split()))
            pc = int(row["pc"], 16)
            for start, end, name in self.kernels:
                if start <= pc < end:
                    kernel = sums.setdefault(name, {})
                    for column, value in row.items():
                        if column not in ("pid", "pc"):
                            kernel[column] = kernel.get(column, 0) + float(value)
        for suffix in ("", ".truth"):
            os.unlink(out + suffix)
        return sums, units

    def per_unit(self, cpu, micro, model="", kernel=None):
        sums, units = self.run(cpu, micro, model)
        return sums[kernel or name_of(micro)]["cycles"] / units

    def steady(self, cpu, micro, model):
        """The same without what only the first rounds have: of the second half of the rounds."""
        *word, count = micro.split()
        number = int(count.rstrip("KM")) << {"K": 10, "M": 20}.get(count[-1], 0)
        twice, half = " ".join(word + [str(2 * number)]), " ".join(word + [str(number)])
        (a, m), (b, n) = self.run(cpu, twice, model), self.run(cpu, half, model)
        return (a[word[0]]["cycles"] - b[word[0]]["cycles"]) / (m - n)

    def translation(self, cpu, pages, model):
        """What 4 KB pages add to a load, by a chase through a line of each of so many."""
        micro = f"chase {pages * PAGE} {PAGE} 20000"
        large = ",".join(filter(None, [model, "page.size=2M"]))
        return self.per_unit(cpu, micro, model) - self.per_unit(cpu, micro, large)

    def reach(self, cpu, level, model):
        """Pages that a level of TLB holds: with more a load takes a cycle longer than with few."""
        low, high = (8, 512) if level == 1 else (512, 8192)
        limit = self.translation(cpu, low, model) + 1
        return most(lambda pages: self.translation(cpu, pages, model) >= limit, low, high)

    def stack(self, cpu, model):
        """How deep calls may be without a return that is mispredicted each time."""
        def more(depth):
            sums, rounds = self.run(cpu, f"calls {depth} 100", model)
            return sums["calls"]["mispredict"] >= rounds / 2
        return most(more, 1, 65)

    def near_stack(self, cpu, model):
        """How deep calls may be before one more costs more than the first ones did."""
        cost = lambda depth: self.steady(cpu, f"calls {depth} 200", model)
        each = (cost(8) - cost(4)) / 4
        return next((d for d in range(8, 64) if cost(d + 1) - cost(d) > each + 0.9), 64)

    def longest(self, cpu, micro, low, high, model):
        """How many there may be in a row before each takes a twentieth longer than few do."""
        cost = lambda count: self.steady(cpu, micro.replace("N", str(count)), model)
        limit = 1.05 * cost(low)
        return most(lambda count: cost(count) > limit, low, high)

    def queue(self, cpu, kind, model):
        """How many loads or stores may be between two misses that overlap. The misses are loads."""
        cost = lambda count: self.per_unit(cpu, f"window {count} {kind} 500", model,
                                           f"window_{kind}")
        limit = 1.7 * cost(4)
        return most(lambda count: cost(count) > limit, 4, 256) + 2 * (kind == "loads")

    def targets(self, cpu, model):
        """How many targets of 64 indirect branches, each to so many in turn, are predicted."""
        def more(each):
            once, twice = (self.run(cpu, f"targets {each} {count * each}", model)
                           for count in (40, 80))
            return (twice[0]["targets"]["mispredict"] - once[0]["targets"]["mispredict"] >
                    (twice[1] - once[1]) / 2)
        return 64 * most(more, 1, 65)

    def measure(self, cpu, row):
        micro, unit = row["micro"], row["unit"]
        if micro.startswith("is "):
            return number_of(cpu, micro[3:])
        if micro.startswith("reach "):
            return self.reach(cpu, int(micro[6:]), row["model"])
        if micro.startswith("translation "):
            return self.translation(cpu, int(micro[12:]), row["model"])
        if micro == "mispredict":  # random against constant branches: the difference is the price
            wrong, n = self.run(cpu, "guess 1 20000", row["model"])
            right, n = self.run(cpu, "guess 0 20000", row["model"])
            return ((wrong["guess"]["cycles"] - right["guess"]["cycles"]) /
                    (wrong["guess"]["mispredict"] - right["guess"]["mispredict"]))
        if micro in SEARCHES:
            return SEARCHES[micro](self, cpu, row["model"])
        if micro.startswith("longest "):  # longest KERNEL LOW HIGH
            word = micro.split()
            value = self.longest(cpu, f"{word[1]} N 20", int(word[2]), int(word[3]), row["model"])
            return value * 4 if unit == "bytes" else value  # of instructions
        if micro.startswith("queue "):
            return self.queue(cpu, micro[6:], row["model"])
        if micro.startswith("readers"):  # all at a time
            return int(micro.split()[1]) / self.per_unit(cpu, micro, row["model"], "read")
        if micro.startswith("pingpong"):  # both threads wait for the same transfers
            return self.per_unit(cpu, micro, row["model"]) / 2
        if micro.startswith(STEADY):
            value = self.steady(cpu, micro, row["model"])
        else:
            value = self.per_unit(cpu, micro, row["model"])
        return 1 / value if unit in ("ops/cycle", "bytes/cycle") else value


SEARCHES = {"stack": Bench.stack, "near stack": Bench.near_stack, "targets": Bench.targets}


def most(more, low, high):
    """The largest number from low to below high for which there is not more to pay."""
    while high - low > 1:
        middle = (low + high) // 2
        if more(middle):
            high = middle
        else:
            low = middle
    return low


def number_of(cpu, key):
    """A number of the preset's file."""
    for line in open(os.path.join(ROOT, "share", "cpus", cpu + ".cpu")):
        word = line.split()
        if word and word[0] == key:
            return int(word[1].rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(word[1][-1], 0)
    sys.exit(f"validate: {cpu}.cpu has no {key}")


def name_of(micro):
    word = micro.split()
    return {"loaded": "lone"}.get(word[0], word[0] + word[1] if word[0] == "gather" else word[0])


def table(name):
    path = os.path.join(ROOT, "spec", name)
    if not os.path.exists(path):
        return []
    lines = [line.rstrip("\n").split("\t") for line in open(path) if line.strip()]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


# ---- plots ----

def svg(title, x_label, y_label, series, log_x=True, log_y=True):
    """A line plot by hand: series is {name: [(x, y), ...]}."""
    import math
    width, height, left, bottom, top, right = 640, 360, 60, 46, 30, 150
    fx, fy = (math.log2 if log_x else float), (math.log10 if log_y else float)
    xs = [fx(x) for s in series.values() for x, _ in s]
    ys = [fy(y) for s in series.values() for _, y in s]
    x0, x1, y0, y1 = min(xs), max(xs), min(ys) if log_y else 0, max(ys)
    x1, y1 = (x1 if x1 > x0 else x0 + 1), (y1 if y1 > y0 else y0 + 1)
    px = lambda x: left + (fx(x) - x0) / (x1 - x0) * (width - left - right)
    py = lambda y: height - bottom - (fy(y) - y0) / (y1 - y0) * (height - bottom - top)
    colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
               "#999999"]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           'font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="{left}" y="18" font-size="13">{title}</text>',
           f'<text x="{(left + width - right) / 2}" y="{height - 8}" '
           f'text-anchor="middle">{x_label}</text>',
           f'<text x="14" y="{(top + height - bottom) / 2}" text-anchor="middle" '
           f'transform="rotate(-90 14 {(top + height - bottom) / 2})">{y_label}</text>']
    ticks = sorted({x for s in series.values() for x, _ in s})
    for x in ticks[::max(1, len(ticks) // 8)]:
        label = (f"{x // 2**20}M" if x >= 2**20 else f"{x // 1024}K" if x >= 1024 and log_x
                 else f"{x:g}")
        out.append(f'<line x1="{px(x):.1f}" x2="{px(x):.1f}" y1="{top}" '
                   f'y2="{height - bottom}" stroke="#ddd"/>'
                   f'<text x="{px(x):.1f}" y="{height - bottom + 14}" '
                   f'text-anchor="middle">{label}</text>')
    if log_y:
        marks = [10 ** e * m for e in range(-2, 5) for m in (1, 2, 5)]
    else:
        step = 10 ** math.floor(math.log10(y1)) / 2
        marks = [step * i for i in range(int(y1 / step) + 1)]
    for y in marks:
        if y0 - 1e-9 <= (fy(y) if y > 0 or not log_y else -9) <= y1 + 1e-9:
            out.append(f'<line x1="{left}" x2="{width - right}" y1="{py(y):.1f}" '
                       f'y2="{py(y):.1f}" stroke="#ddd"/>'
                       f'<text x="{left - 5}" y="{py(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for i, (name, points) in enumerate(series.items()):
        colour = colours[i % len(colours)]
        path = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        out.append(f'<text x="{width - right + 10}" y="{top + 16 + 16 * i}" '
                   f'fill="{colour}">{name}</text>')
    return "\n".join(out + ["</svg>\n"])


# readers need little to miss it
LOAD = "l1d.size=32K,l2.size=128K,page.size=2M,llc.size=2304K,llc.ways=18"
SIZES = [32 << 10, 128 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20,
         64 << 20, 96 << 20]
# memory begins early: what is measured stays the same
FAR = "page.size=2M,llc.size=2304K,llc.ways=18"


def curves(bench, quick):
    """(file, title, x, y, log x, log y, what to run at x, points, value from sums)"""
    sizes = SIZES[0:6:2] if quick else SIZES
    n = 20000
    yield ("latency", "Load latency of a random chase, 4 KB pages", "bytes", "cycles", True, True,
           sizes, lambda c, x: bench.per_unit(c, f"chase {x} 64 {n}"))
    yield ("gather", "Random loads from memory, chains at a time", "chains", "cycles a load", True,
           True,
           [1, 2, 4, 8], lambda c, x: bench.per_unit(c, f"gather {x} 16M {n}", FAR))
    yield ("bandwidth", "Reading in order", "bytes", "bytes a cycle", True, True, sizes,
           lambda c, x: 1 / bench.per_unit(c, f"read {x} {max(x, 1 << 20)}", "page.size=2M"))
    yield ("write", "Writing in order", "bytes", "bytes a cycle", True, True, sizes,
           lambda c, x: 1 / bench.per_unit(c, f"write {x} {max(x, 1 << 20)}", "page.size=2M"))
    yield ("branch", "Branches by a random pattern that repeats", "period", "mispredicted, percent",
           True, False,
           [2 << i for i in range(2 if quick else 0, 15, 4 if quick else 2)],
           lambda c, x: 100 * mispredicts(bench, c, x, n))
    yield ("load", "Memory latency while others read", "threads that read", "cycles", False, False,
           [0, 1] if quick else [0, 1, 2, 4, 8, 12],
           lambda c, x: bench.per_unit(c, f"loaded {x} 512K 2000", LOAD))
    yield ("stride", "A load each stride, in order, 16 MB", "bytes", "cycles a load", True, True,
           [64, 256] if quick else [8, 64, 256, 1024, 4096],
           lambda c, x: bench.per_unit(c, f"stride 16M {x} {n}"))
    yield ("pages", "One line in each 4 KB page: reach of the TLBs", "pages", "cycles", True, True,
           [32, 128] if quick else [32, 48, 64, 96, 128, 512, 1024, 1536, 2048, 4096],
           lambda c, x: bench.per_unit(c, f"chase {x * PAGE} {PAGE} {n}"))


def mispredicts(bench, cpu, period, count):
    sums, units = bench.run(cpu, f"branch {period} {count}")
    return sums["branch"]["mispredict"] / units


# ---- the page ----

def judge(bench, row, why):
    """A line of the table, and whether it is good."""
    published = float(row["published"])
    show = lambda n: f"{n / 1024:g}K" if row["unit"] == "bytes" else f"{n:.4g}"
    reason = why.get((row["cpu"], row["what"]), "")
    source = row["source"] + ("; " + reason if reason else "")
    head = f"| {row['cpu']} | {row['what']} | {show(published)} {row['unit']} |"
    try:
        value = bench.measure(row["cpu"], row)
    except NotRun:
        return f"{head} not run | | {row['kind']} | {source} |\n", False
    off = value / published - 1
    limit = 0.03 if row["kind"] == "fitted" else 0.15
    return (f"{head} {show(value)} | {off:+.1%} | {row['kind']} | {source} |\n",
            abs(off) <= limit or bool(reason))


def draw(bench, cpus, quick, wanted):
    """{name: (title, picture, CPUs that are not in it)}; None for a plot that is not wanted"""
    plots = {}
    for name, title, x, y, log_x, log_y, points, value in curves(bench, quick):
        series, left = {}, []
        if not wanted(name):
            plots[name] = title, None, None
            continue
        for c in cpus:
            try:
                series[c] = [(p, value(c, p)) for p in points]
            except NotRun:
                left.append(c)
        if series:
            plots[name] = title, svg(title, x, y, series, log_x, log_y), left
            print(name, {c: [f"{v:.3g}" for _, v in s] for c, s in series.items()}, flush=True)
        else:
            plots[name] = title, None, left
    return plots


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--write", metavar="DIR", help="write validation.md and plots there")
    parser.add_argument("--cpu", action="append", help="these presets only")
    parser.add_argument("--row", metavar="TEXT", help="rows of the table with this in their name")
    parts = ["table"] + [curve[0] for curve in curves(None, False)]
    parser.add_argument("--only", action="append", metavar="PART", choices=parts,
                        help="these parts only: " + ", ".join(parts))
    parser.add_argument("--quick", action="store_true", help="few points: does it work at all")
    parser.add_argument("--minutes", type=float, default=1e6,
                        help="start nothing more after so many")
    parser.add_argument("--single", action="store_true", help="leave out what has several threads")
    args = parser.parse_args()
    rows = [r for r in table("published.tsv") if not args.cpu or r["cpu"] in args.cpu]
    rows = [r for r in rows if not args.row or args.row in r["what"]]
    cpus = list(dict.fromkeys(r["cpu"] for r in rows))
    wanted = lambda part: not args.only or part in args.only
    text, bad = "", 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args.build, folder, time.time() + 60 * args.minutes, args.single)
        if wanted("table"):
            text, bad = compare(bench, rows)
            print(f"{len(rows) - bad} of {len(rows)} published numbers are met or explained")
        plots = draw(bench, cpus, args.quick, wanted)
    if args.write:
        write(args.write, text, plots)
    return 1 if bad else 0


def compare(bench, rows):
    """The table, and how many of its rows are not good."""
    why = {(r["cpu"], r["what"]): r["why"] for r in table("published-why.tsv")}
    lines, bad = {}, 0
    for row in sorted(rows, key=lambda r: r["micro"].startswith(THREADS)):  # last, if time runs out
        line, good = judge(bench, row, why)
        bad += not good
        lines[id(row)] = line
        print(line.strip(), flush=True)
    head = ("| core | what | published | model | difference | kind | source |\n"
            "|---|---|---|---|---|---|---|\n")
    return head + "".join(lines[id(row)] for row in rows), bad


def merged(old, new):
    """The rows of a table anew, with those of the old one that were not measured this time."""
    name = lambda line: line.split(" | ")[:2]
    rows = {}
    for line in (old + new).splitlines():
        if line and (tuple(name(line)) not in rows or " | not run | " not in line):
            rows[tuple(name(line))] = line
    order = [(f"| {r['cpu']}", r["what"]) for r in table("published.tsv")]
    return "\n".join(new.splitlines()[:2] + [rows[key] for key in order if key in rows]) + "\n"


def write(folder, text, plots):
    path = os.path.join(folder, "validation.md")
    head, mark, old = open(path).read().partition("<!-- made by make validate -->\n\n")
    old_text, *sections = old.split("\n### ")  # what is not made anew stays
    sections = dict(section.split("\n\n", 1) for section in sections)
    os.makedirs(os.path.join(folder, "validation"), exist_ok=True)
    with open(path, "w") as f:
        f.write(head + mark + (merged(old_text, text) if text else old_text))
        for name, (title, picture, left) in plots.items():
            f.write(f"\n### {title}\n\n")
            if picture:
                open(os.path.join(folder, "validation", f"{name}.svg"), "w").write(picture)
                f.write(f"![{title}](validation/{name}.svg)\n")
            if left:
                f.write(("\n" if picture else "") + "Not run: " + ", ".join(left) + ".\n")
            if left is None:
                f.write(sections.get(title, "Not run.\n"))


if __name__ == "__main__":
    sys.exit(main())
