"""Areas of memory that a program uses: each data address of a profile is named by the area that the
program itself says it is of, in spex and in perf."""
import csv, io
from guest import *

need_engine("areas of memory")
WANT = {"stack": r"\[stack\]", "global": "global", "heap": r"\[heap\]", "anon": "//anon",
        "moved": "//anon",
        "named": r"\[anon:arena one\]", "file": r"areas\.file", "thread": r"\[stack:1001\]"}
for what, flags in [("dynamic", ["-pthread"]), ("static", ["-pthread", "-static"]),
                    ("static PIE", ["-pthread", "-static-pie"])]:
    program = build("areas", *flags)
    code, out, err, path = record("--model", "none", "-c", "256", "--", program,
                                  os.path.join(WORK, "areas.file"))
    equal(f"{what}: runs", code, 0)
    areas = [(n, int(a, 16), int(b, 16))
             for n, a, b in (l.split() for l in out.decode().splitlines())]
    equal(f"{what}: walks all areas", {a[0] for a in areas}, set(WANT))
    code, out, err = spex("mem", "-i", path, "--sort", "data-symbol,page", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out.decode())))
    seen, odd = {}, []
    for row in rows:
        page = int(row["page"], 16)
        for area, start, end in areas:
            if start <= page and page + 4096 <= end:
                seen[area] = seen.get(area, 0) + int(row["samples"])
                if not re.fullmatch(WANT[area], row["data_symbol"]):
                    odd.append((area, hex(page), row["data_symbol"]))
    check(f"{what}: each page is named by its area",
          not odd and all(seen.get(a, 0) > 300 for a in WANT), (odd[:5], seen))
    code, out, err = spex("mem", "-i", path, "--sort", "data-symbol", "--format", "csv")
    check(f"{what}: mem: nothing is unmapped", code == 0 and b"[unmapped]" not in out,
          out.decode()[:1500])
    code, out, err = run("perf", "script", "-i", path, "--show-mmap-events")
    maps = out.decode(errors="replace")
    check(f"{what}: perf reads the mappings",
          code == 0 and "[stack]" in maps and "[stack:1001]" in maps, maps[:500])
done()
