"""Records an example and reads the profile back: rows by function, records, exact counts."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

EXAMPLES = os.path.join(BUILD, "examples")
_directory = tempfile.TemporaryDirectory(prefix="spex-truth-")


def need(*names):
    """Ends the test as skipped unless these examples and the engine are there."""
    import shutil
    missing = [n for n in names if not os.path.exists(os.path.join(EXAMPLES, n))]
    if missing or not shutil.which("qemu-aarch64"):
        skip("profiles of the examples", "no cross compiler or no qemu-aarch64")
        done()


class Profile:
    def __init__(self, example, *options, period=4096, event="ts_enable=1,jitter=1", cpus=None):
        self.example = os.path.join(EXAMPLES, example)
        self.file = os.path.join(_directory.name, "perf.data")
        for old in (self.file, self.file + ".truth"):
            if os.path.exists(old):
                os.unlink(old)
        prefix = ["taskset", "-c", cpus] if cpus else []
        self.code, self.out, self.err = run(
            *prefix, SPEX, "record", "--model", "full", "-e", f"arm_spe/{event}/", "-c", period,
            "-o", self.file, *options, "--", self.example)
        if self.code:
            check(f"record {example}", False, self.err)
            done()

    def command(self, *args):
        code, out, err = spex(*args, "-i", self.file)
        if code:
            check(f"spex {' '.join(args)} on {os.path.basename(self.example)}", False, err)
            done()
        return out

    def functions(self, *args):
        """Rows of `spex report` by function."""
        report = json.loads(self.command("report", "--format", "json", "-s", "symbol", *args))
        return {row["symbol"]: row for row in report["rows"]}

    def records(self, fields="pc,symbol,op,events,source,latency,issue,translation,va,tid"):
        return [json.loads(line) for line in
                self.command("script", "--format", "json", "-F", fields).splitlines()]

    def truth(self):
        """Exact counts by instruction: {pc: {count, l1_miss, ...}}."""
        names, rows = [], {}
        for line in open(self.file + ".truth"):
            if line.startswith("# pid"):
                names = line[1:].split()
            elif not line.startswith("#"):
                row = dict(zip(names, line.split()))
                rows[int(row["pc"], 16)] = {k: int(v)
                                            for k, v in row.items() if k not in ("pid", "pc")}
        return rows


def apart(path, *options, among=None):
    """Estimated against exact shares of time by function (of some alone): half the sum of the
    differences, in points; is the first row the right one?"""
    d = json.loads(spex("truth", "--format", "json", "--percent-limit", "0.05" if among else "0.5",
                        "-i", path, *options)[1])
    rows = [r for r in d["rows"] if not among or r["symbol"] in among]
    time, cycles = (sum(r[k] for r in rows) if among else 1 for k in ("time", "cycles_share"))
    first = max(rows, key=lambda r: r["time"])
    return (50 * sum(abs(r["time"] / time - r["cycles_share"] / cycles) for r in rows),
            first["symbol"] == rows[0]["symbol"])


def symbols(example):
    """[(start, end, name)] of the functions of a static example."""
    out = subprocess.run(["aarch64-linux-gnu-nm", "-S", "--defined-only",
                          os.path.join(EXAMPLES, example)],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = []
    for line in out.splitlines():
        cells = line.split()
        if len(cells) == 4 and cells[2] in "tTwW":
            rows.append((int(cells[0], 16), int(cells[0], 16) + int(cells[1], 16), cells[3]))
    return rows


def address(example, name):
    out = subprocess.run(["aarch64-linux-gnu-nm", os.path.join(EXAMPLES, example)],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    return next(int(line.split()[0], 16) for line in out.splitlines() if line.split()[-1] == name)
