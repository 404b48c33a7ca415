"""Pages of the test profiles: writing them, taking their data apart."""
import json, os, re, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "analysis"))
from common import *


def page(file, *args, name=None, symbols=True):
    """Writes the page of a profile, or of two; its path."""
    files = [file] if isinstance(file, str) else list(file)
    path = name or "-".join(os.path.basename(f) for f in files) + ".html"
    code, out, err = spex("html", *files, "-o", path, *(SYMBOLS if symbols else []), *args, cwd=DIR,
                          env={"HOME": DIR})
    if code not in (0, 1) or not os.path.exists(f"{DIR}/{path}"):
        raise RuntimeError(f"spex html {files}: {err}")
    return f"{DIR}/{path}"


def record_paths():
    """A recording with call stacks, thousands of different ones; where its stack lies, and so its
    picture, follows from the environment."""
    here = os.path.dirname(os.path.abspath(__file__))
    subprocess.run(["aarch64-linux-gnu-gcc", "-O1", "-g", "-static", here + "/paths.c", "-o",
                    DIR + "/paths"], check=True)
    code, out, err = run("env", "-i", "PATH=/usr/bin:/bin", SPEX, "record", "-q", "-g", "-c",
                         "256", "-o", "paths.data", "--", "./paths", cwd=DIR)
    if code:
        raise RuntimeError(f"spex record -g: {err}")
    return "paths.data"


def data_of(path):
    text = open(path, encoding="utf-8").read()
    return json.loads(re.search(r'<script type="application/json" id="profiles">(.*?)</script>',
                                text, re.S).group(1))


class Profile:
    """Rows as {metric: value}, of all or of a range of intervals."""
    def __init__(self, raw):
        self.raw = raw
        self.names = (raw["metrics"] +
                      ["from_" + s.replace("-", "_") for s in raw["source_names"]] +
                      [f"bucket{i}" for i in range(32)])

    def vector(self, row, bins=None):
        out = dict.fromkeys(self.names, 0)
        if bins is None:
            for i in range(0, len(row["total"]), 2):
                out[self.names[row["total"][i]]] += row["total"][i + 1]
            return out
        cells, i = row["cells"], 0
        while i < len(cells):
            end = i + 2 + cells[i + 1]
            if cells[i] in bins:
                for j in range(i + 2, end, 2):
                    out[self.names[cells[j]]] += cells[j + 1]
            i = end
        return out

    def time(self, bin):
        return (int(self.raw["bins"]["first"]) + bin) << self.raw["bins"]["shift"]

    def option(self, first, last):
        text = lambda ns: f"{ns // 10**9}.{ns % 10**9:09}"
        return f"{text(self.time(first))},{text(self.time(last + 1) - 1)}"


def bucket_of(value):
    if value < 4:
        return value
    octave = value.bit_length() - 1
    return 2 * octave + (value >> (octave - 1) & 1)
