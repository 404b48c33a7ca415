"""Runs the tests of both builds, counts every TAP test, joins the requirement marks.

Usage: check.py BUILD ASAN. Suites 'slow' and 'system' (engines and other tools, where a sanitizer
sees nothing of ours) run in the first build only.
"""
import os
import subprocess
import sys
import time

import conformance
import tap


def run(build, options):
    env = dict(os.environ)
    env.setdefault("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")
    start = time.time()
    p = subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", "-t",
                        "5", *options],
                       env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = tap.tests(build)
    bad = [t for t in found if not t.ok]
    if bad or p.returncode:
        print("\n".join(p.stdout.splitlines()[-400:]))
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
    return found


def main():
    build, asan = sys.argv[1:3]
    found = run(build, []) + run(asan, ["--no-suite=slow", "--no-suite=system"])
    print("conformance:")
    ok = conformance.score([build, asan])
    failed = sum(not t.ok for t in found) + (not ok)
    skipped = sum(bool(t.ok and t.skipped) for t in found)
    print(f"{len(found) - failed - skipped + (not ok)} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


sys.exit(main())
