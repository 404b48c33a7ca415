"""Set-up: what is trusted, what is installed without being asked, numbers that no word can hold."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *

work = tempfile.TemporaryDirectory(prefix="spex-setup-")
KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"


def put(name, text, mode=0o644):
    path = os.path.join(work.name, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


# ---- whose packages: Debian's, and by Debian's key alone ----
MARK = os.path.join(work.name, "mark")
for name in ("apt-get", "sudo"):
    put(f"bin/{name}", f"#!/bin/sh\necho {name} >>{MARK}\nexit 1\n", 0o755)
put("bin/dpkg-query", "#!/bin/sh\nexit 1\n", 0o755)
fakes = {"PATH": os.path.join(work.name, "bin") + ":" + os.environ["PATH"]}


def sources(text, name, suite=None):
    """The sources that fetch-debs makes of one file of the host's."""
    where = tempfile.mkdtemp(dir=work.name)
    env = {**fakes, "SPEX_APT_SOURCES": put(name, text)}
    code, _, err = run(os.path.join(SOURCE, "scripts/fetch-debs"), where,
                       *(["--suite", suite] if suite else []), "hello", env=env)
    made = os.path.join(where, "apt-arm64-" + (suite or ""), "etc/sources.d/debian.list")
    return open(made).read().splitlines() if os.path.exists(made) else [], err


if not os.path.exists(KEY):
    skip("fetch-debs", "no " + KEY, machine=True)
else:
    mine = f"deb [signed-by={KEY}] http://mirror.example/debian bookworm main"
    got, err = sources("deb [signed-by=/usr/share/keyrings/docker.gpg] "
                       "https://download.docker.com/linux/debian bookworm stable\n"
                       "deb [trusted=yes] http://evil.example/debian-like/ bookworm main\n"
                       "deb [arch=amd64 trusted=yes] http://mirror.example/debian "
                       "bookworm main # comment\n"
                       "deb-src http://mirror.example/debian bookworm main\n"
                       "#deb http://mirror.example/debian sid main\n", "a.list")
    equal("a .list: Debian's archive alone, by Debian's key", got, [mine])
    got, err = sources(
        "Types: deb\nURIs: https://repo.example/debian\nSuites: bookworm\nComponents: main\n"
        "Signed-By: /etc/apt/keyrings/theirs.asc\n\nTypes: deb deb-src\n"
        "URIs: http://mirror.example/debian/\n"
        "Suites: bookworm\n bookworm-updates\nComponents: main contrib\n"
        f"Architectures: amd64\nTrusted: yes\nSigned-By: {KEY}\n\nTypes: deb\nEnabled: no\n"
        "URIs: http://other.example/debian\nSuites: sid\nComponents: main\n", "a.sources",
        "trixie-backports")
    base = f"deb [signed-by={KEY}] http://mirror.example/debian/ "
    equal("a .sources: the same, with the suite that was asked for", got,
          [base + s + " main contrib"
           for s in ("bookworm", "trixie", "trixie-backports", "bookworm-updates")])
    got, err = sources("deb [trusted=yes] http://evil.example/stuff bookworm main\n", "b.list")
    check("no Debian archive: said", not got and "names no Debian archive" in err, err)

# ---- make alone installs nothing ----
open(MARK, "w").close()
code, out, err = run(os.path.join(SOURCE, "scripts/setup"), "--check", "build", env=fakes)
check("what is missing is named, with the command",
      code == 1 and "apt-get install --no-install-recommends gcc make meson" in err, err)
for target in ("all", "install", "bench", "fuzz", "mutate"):
    code, out, err = run("make", "-s", "-C", SOURCE, "BUILD=" + os.path.join(work.name, "b"),
                         target, env=fakes)
    check(f"make {target} says what is missing", code == 2 and "apt-get install" in err, err)
equal("and neither apt-get nor sudo was run", open(MARK).read(), "")

# ---- numbers ----
profile = os.path.join(SOURCE, "tests/vectors/kunpeng920_branch_b.v1.perf.data")
for value, code in (("1e40,", 0), ("1e300,1e301", 0), ("inf,", 0), (",1e40", 0), ("nan,", 2),
                    ("-1,", 2), ("1e40,1", 2)):
    got, out, err = spex("report", "-i", profile, "--time=" + value)
    check(f"--time {value}", got == code and "runtime error" not in err, (got, err))
for value in ("collide@18446744073709551616", "collide@1+99999999999999999999",
              "id:PMSIDR_EL1:0x10000000000000000"):
    got, out, err = spex("vm", "--kernel", "/dev/null", "--inject", value)
    check(f"--inject {value} is refused", got == 2 and "allowed: fault@N" in err, err)

# ---- an input that becomes shorter while it is read ----
for kind in ("raw", "perf.data"):
    path = os.path.join(work.name, "shrinks")
    if kind == "raw":
        code, out, err = spex("generate", "--seed", "1", "--records", "400000")
        open(path, "wb").write(out)
        words = ["dump", "--raw", path]
    else:  # one large AUXTRACE chunk after the beginning of a small file
        data = open(profile, "rb").read()
        at = data.index(bytes([71, 0, 0, 0, 0, 0, 48, 0]))
        size = int.from_bytes(data[at + 8:at + 16], "little")
        chunk = data[at:at + 48 + size]
        open(path, "wb").write(data[:at] + chunk * (40_000_000 // len(chunk)))
        with open(path, "r+b") as f:  # the data goes on to the end of the file
            f.seek(48)
            f.write((os.path.getsize(path) - int.from_bytes(data[40:48],
                                                            "little")).to_bytes(8, "little"))
        words = ["dump", path]
    p = subprocess.Popen([SPEX, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdout.read(4096)
    os.truncate(path, 8192)
    out, err = p.communicate()
    # a stream is read in pieces and just ends; a file is mapped
    why = b"the data ends inside" if kind == "raw" else b"became shorter while it was read"
    check(f"{kind} that shrinks while it is read: said, exit 1", p.returncode == 1 and why in err,
          (p.returncode, err[-300:]))
done()
