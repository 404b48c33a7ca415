#!/usr/bin/env python3
"""make check-ports: the libraries and their tests on other machines, C libraries and compilers.

Usage: scripts/ports.py BUILD [PORT...]     without PORT: all of them

Machines run under qemu-user with Debian's own libraries, which are unpacked below BUILD-ports/PORT; nothing
is installed for other architectures. Each port has a build directory of its own and may be run alone.
"""
import os, shutil, subprocess, sys

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBRARIES = "libc6-dev libgcc-12-dev libdw-dev libelf-dev libzstd-dev libcmocka-dev libllvm14".split()
SUITES = "base wire arch record spu spu-proof uarch perfdata analysis cli fuzz".split()
# Guests and whole programs, and what measures this machine.
NOT_HERE = "system slow bench vm guest".split()

#        port        Debian's name, compiler, QEMU, meson's family and CPU, byte order
MACHINES = {
    "aarch64": ("arm64", "aarch64-linux-gnu", "qemu-aarch64", "aarch64", "aarch64", "little"),
    "s390x": ("s390x", "s390x-linux-gnu", "qemu-s390x", "s390x", "s390x", "big"),
    "i386": ("i386", "i686-linux-gnu", "qemu-i386", "x86", "i686", "little"),
    "armhf": ("armhf", "arm-linux-gnueabihf", "qemu-arm", "arm", "armv7l", "little"),
}
#        port        compiler, meson's options
COMPILERS = {
    "tsan": ("clang", ["-Db_sanitize=thread", "-Db_lundef=false"]),
    "clang-o3": ("clang", ["-Doptimization=3"]),
    "lto": ("gcc", ["-Db_lto=true"]),
}
# Programs that tests in Python start by themselves.
STARTED = ["spex", "tests/analysis/make_profile", "tests/perfdata/perfdata-tool", "tests/spu-proof/test-model",
           "tests/wire/packets-json", "tests/record/violations-json", "examples/embed"]


def run(*command, log=None, **more):
    """Runs a command; its output goes to the log, and the end of it to the terminal if it fails."""
    if not log:
        return subprocess.run(command, **more).returncode
    with open(log, "w") as f:
        code = subprocess.run(command, stdout=f, stderr=subprocess.STDOUT, **more).returncode
    if code:
        sys.stdout.write("".join(open(log, errors="replace").readlines()[-30:]))
        print(f"# the whole log: {log}")
    return code


def write(path, text, mode=0o644):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)


def cross_file(port, place):
    """The libraries of a machine, a program that runs what is built for it, and meson's description of both."""
    debian, triplet, qemu, family, cpu, order = MACHINES[port]
    root = f"{place}/debian/root"
    if run(f"{SOURCE}/scripts/fetch-debs", f"{place}/debian", "--arch", debian, "--no-security", *LIBRARIES):
        return None
    tuple_ = triplet.replace("i686", "i386")
    # What wrap() has put in a script's place is run as the script that it is.
    write(f"{place}/run", f"""#!/bin/sh
[ "$(head -c 2 "$1")" = '#!' ] && exec "$@"
exec {qemu} -L {root} "$@"
""", 0o755)
    compiler = [c for c in ("ccache",) if shutil.which(c)] + [f"{triplet}-gcc", f"--sysroot={root}"]
    write(f"{place}/cross.ini", f"""[binaries]
c = {compiler}
ar = '{triplet}-gcc-ar'
strip = '{triplet}-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['{place}/run']

[properties]
needs_exe_wrapper = true
sys_root = '{root}'
pkg_config_libdir = ['{root}/usr/lib/{tuple_}/pkgconfig', '{root}/usr/share/pkgconfig']

[host_machine]
system = 'linux'
cpu_family = '{family}'
cpu = '{cpu}'
endian = '{order}'
""")
    return f"{place}/cross.ini"


def wrap(build, place):
    """Tests in Python start programs by their names: a script there hands them to QEMU."""
    for name in STARTED:
        path = f"{build}/{name}"
        if os.path.exists(path) and open(path, "rb").read(4) == b"\x7fELF":
            os.replace(path, path + ".real")
            write(path, f'#!/bin/sh\nexec {place}/run {path}.real "$@"\n', 0o755)


def check(port, base):
    place = f"{base}/{port}"
    build = f"{place}/build"
    os.makedirs(place, exist_ok=True)
    env = dict(os.environ)
    if port in MACHINES:
        cross = cross_file(port, place)
        if not cross:
            return "its libraries cannot be fetched"
        options, compiler = ["--cross-file", cross], "gcc"
    else:
        compiler, options = COMPILERS[port]
    env["CC"] = compiler
    if run(f"{SOURCE}/scripts/configure", build, compiler, "-Dwerror=true", *options, cwd=SOURCE, env=env):
        return "cannot be set up"
    if run("ninja", "-C", build, log=f"{place}/build.log"):
        return "does not build"
    if port in MACHINES:
        wrap(build, place)
    suites = [w for s in SUITES for w in ("--suite", s)] + [w for s in NOT_HERE for w in ("--no-suite", s)]
    env["TSAN_OPTIONS"] = "halt_on_error=1"
    if run("meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", "-t", "20", *suites,
           log=f"{place}/test.log", env=env):
        return "has tests that fail"
    return None


def main():
    base = os.path.abspath(sys.argv[1]) + "-ports"
    known = [*MACHINES, *COMPILERS]
    ports = sys.argv[2:] or known
    for port in ports:
        if port not in known:
            sys.exit(f"ports: no port '{port}'; there are {', '.join(known)}")
    failed = 0
    for n, port in enumerate(ports, 1):
        why = check(port, base)
        failed += why is not None
        print(f"not ok {n} - {port} {why}" if why else f"ok {n} - {port}", flush=True)
    print(f"1..{len(ports)}")
    sys.exit(failed > 0)


main()
