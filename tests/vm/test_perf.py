"""Perf's own tests of SPE in a guest: the shell tests of Debian's linux-perf, as they are,
by the guest's perf, on its driver, on the unit, and perf's tests of PMUs. perf-run says what stands
before them: sleeps that wait for the unit, AUX buffers that are smaller. Part of `make check-vm`;
names of guests as arguments: those alone.
"""
import re
import shutil
from guests import *

PERF7 = os.path.join(BUILD, "perf7/root/usr/lib/perf-core/tests/shell")
# guest, suite of Debian, where its tests are, the unit (an interval of 4,096 at least: fewer
# samples to decode in the guest), tests and what they say of each part, tests of PMUs that
# pass, and those that fail
GUESTS = [
    ("debian", None, "/usr/lib/perf-core/tests/shell", "neoverse-n1,interval=8",
     {"test_arm_spe.sh": ["SPE snapshot testing: PASS", "SPE system-wide testing: PASS"],
      "test_arm_spe_fork.sh": ["SPE hang test: PASS"]},
     ["Parse perf pmu format"], []),
    ("newest", "trixie-backports", PERF7, "neoverse-n1,v1p2,interval=8",
     {"test_arm_spe.sh": ["SPE snapshot testing: PASS", "SPE system-wide testing: PASS",
                          "SPE discard mode: PASS"],
      "test_arm_spe_fork.sh": ["SPE hang test: PASS"],
      "c2c.sh": ["c2c record and report test [Success]"]},
     ["Parsing with PMU format directory", "PMU event table sanity"],
     # perf 7.2's own tables for AmpereOne
     ["PMU metric parsing: ampere_ampereone", "PMU metric parsing: ampere_ampereonex"]),
]


def main():
    os.makedirs(WORK, exist_ok=True)
    forks = os.path.join(WORK, "forks")
    code, out, err = run("aarch64-linux-gnu-gcc", "-O1", "-static", "-o", forks,
                         os.path.join(HERE, "forks.c"), "-lm")
    if not check("the program of the test of forks builds", code == 0, err):
        done()
    code, out, err = run(os.path.join(SOURCE, "scripts/perf7-setup"), os.path.join(BUILD, "perf7"))
    check("perf 7 is unpacked", code == 0, err)
    for name, suite, tests, features, wanted, passed, failed in GUESTS:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        where, why = guest(name, suite)
        if not check(f"{name}: the guest is prepared", where, why):
            continue
        share = os.path.join(WORK, "perf-" + name)
        shutil.rmtree(share, ignore_errors=True)
        os.makedirs(os.path.join(share, "tests"))
        shutil.copy(os.path.join(HERE, "perf-run"), os.path.join(share, "run"))
        shutil.copy(forks, share)
        for test in wanted:
            shutil.copy(os.path.join(tests, test), os.path.join(share, "tests"))
        code, out, err = spex("vm", "--guest", where, "--smp", "2", "--share", share, "--features",
                              features, timeout=7200)
        check(f"{name}: the guest ends", code == 0, out[-1500:].decode(errors="replace") + err)
        for test, parts in {**wanted, "PMU": []}.items():
            said = {}
            for what in ("out", "status"):
                try:
                    said[what] = open(os.path.join(share, "out", f"{test}.{what}")).read()
                except OSError:
                    said[what] = ""
            equal(f"{name}: {test} passes", said["status"].strip(), "0")
            for part in parts:
                check(f"{name}: {test}: {part}", part in said["out"], said["out"][-3000:])
        # the last one, of PMUs
        verdicts = dict(re.findall(r"^ *\d+(?:\.\d+)?: (.*?) *: (Ok|FAILED!)$", said["out"], re.M))
        equal(f"{name}: tests of PMUs pass", {v: verdicts.get(v) for v in passed},
              dict.fromkeys(passed, "Ok"))
        equal(f"{name}: and which fail", sorted(k for k, v in verdicts.items() if v != "Ok"),
              failed)
    done()


main()
