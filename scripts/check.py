"""Runs the tests of both builds, counts every TAP test, joins the requirement marks.

Usage: check.py BUILD ASAN. Suites 'slow' and 'system' (engines and other tools, where a sanitizer
sees nothing of ours) run in the first build only; suite 'long' has targets of its own.
"""
import json
import os
import re
import subprocess
import sys
import time

import conformance
import tap


class Progress:
    """What runs, how many of how many are done, and how long the rest may take: on a terminal one
    line that changes, elsewhere a line every half minute."""

    def __init__(self, build):
        self.build, self.start, self.said = build, time.time(), time.time()
        self.terminal = sys.stdout.isatty()
        self.file = os.path.join(build, ".durations")  # of the last run: what is left in seconds
        try:
            self.known = json.load(open(self.file))
        except (OSError, ValueError):
            self.known = {}
        self.took = {}

    def left(self, done, count):
        passed = time.time() - self.start
        before = sum(self.known.get(name, 0) for name in self.took)
        rest = sum(self.known.values()) - before
        if before > 5 and rest >= 0:
            return passed * rest / before
        return passed * (count - done) / max(done, 1)

    def line(self, text):
        m = re.match(r"\s*(\d+)/(\d+) \S+ / (\S+)\s+(\w+)\s+([\d.]+)s", text)
        if not m:
            return
        done, count, name = int(m[1]), int(m[2]), m[3]
        self.took[name] = float(m[5])
        if m[4] not in ("OK", "SKIP"):
            self.put(f"{self.build}: {name}: {m[4]}", end="\n")
        if self.terminal or time.time() - self.said >= 30:
            minutes = self.left(done, count) / 60
            self.put(f"{self.build}: {done} of {count} test programs, last {name}; "
                     f"about {minutes:.0f} min left", end="" if self.terminal else "\n")
            self.said = time.time()

    def put(self, text, end):
        print(f"\r\033[K{text}" if self.terminal else text, end=end, flush=True)

    def finish(self):
        if self.terminal:
            self.put("", end="")
        with open(self.file, "w") as f:
            json.dump(self.took, f)


def run(build, options):
    env = dict(os.environ, SPEX_READY="1")  # `make check` has set up what tests need
    env.setdefault("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")
    start, progress, output = time.time(), Progress(build), []
    p = subprocess.Popen(["meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", "-t",
                          "5", "--logbase", "check", *options],
                         env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace")
    for text in p.stdout:
        output.append(text.rstrip("\n"))
        progress.line(text)
    p.wait()
    progress.finish()
    found = tap.tests(build)
    bad = [t for t in found if not t.ok]
    if bad or p.returncode:
        print("\n".join(output[-400:]))
        if not bad:
            bad = [tap.Test("meson", f"meson test exited {p.returncode}", False)]
            found += bad
    print(f"{build}: {len(found)} tests in {time.time() - start:.0f} s", flush=True)
    for t in found:
        if t.skipped:
            print(f"   skipped: {t.program}: {t.name}: "
                  f"{t.skipped[4:].strip() or 'no reason given'}")
    for t in bad:
        print(f"   FAILED: {t.program}: {t.name}")
        for line in t.why[:8]:
            print(f"      {line[:300]}")
    return found


def main():
    build, asan = sys.argv[1:3]
    found = run(build, ["--no-suite=long"]) + run(
        asan, ["--no-suite=long", "--no-suite=slow", "--no-suite=system"])
    print("conformance:")
    ok = conformance.score([build, asan])
    failed = sum(not t.ok for t in found) + (not ok)
    skipped = sum(bool(t.ok and t.skipped) for t in found)
    print(f"{len(found) - failed - skipped + (not ok)} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
