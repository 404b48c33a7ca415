#!/usr/bin/env python3
"""make check-ports: the libraries and their tests on other machines, C libraries and compilers.

Usage: scripts/ports.py BUILD [PORT...]     without PORT: all of them

Machines run under qemu-user with Debian's own libraries, which are unpacked below BUILD-ports/PORT;
nothing is installed for other architectures. Each port has a build directory of its own and may be
run alone. One line each says how many tests passed, failed and were skipped, and how many programs
of the chosen suites were left out.
"""
import glob, json, os, shutil, subprocess, sys, time
import tap

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBRARIES = ("libc6-dev libgcc-12-dev libdw-dev libelf-dev liblzma-dev libzstd-dev libcmocka-dev "
             "libllvm14 libdebuginfod1".split())
SUITES = set("base wire arch record spu spu-proof uarch perfdata analysis cli fuzz".split())
# Guests and whole programs, and what measures this machine.
NOT_HERE = set("system slow bench vm guest".split())
# Of the suites above: what looks at the source or at this machine's tools and
# says nothing of a port...
SAME_EVERYWHERE = set("layers format races cross setup privileges perf-style perf real".split())
# ...and what starts the program hundreds of times or searches long, minutes under QEMU,
# for what others show too.
LONG = {"threads", "names", "proof-pairs", "replay-cli"}

#        port        Debian's name, compiler, QEMU, meson's family and CPU, byte order
MACHINES = {
    "aarch64": ("arm64", "aarch64-linux-gnu", "qemu-aarch64", "aarch64", "aarch64", "little"),
    "s390x": ("s390x", "s390x-linux-gnu", "qemu-s390x", "s390x", "s390x", "big"),
    "i386": ("i386", "i686-linux-gnu", "qemu-i386", "x86", "i686", "little"),
    "armhf": ("armhf", "arm-linux-gnueabihf", "qemu-arm", "arm", "armv7l", "little"),
}
#        port        compiler, meson's options
COMPILERS = {
    "tsan": ("clang", ["-Db_sanitize=thread", "-Db_lundef=false", "-Dmodel_runs=50"]),
    "clang-o3": ("clang", ["-Doptimization=3", "-Dmodel_runs=500"]),
    "lto": ("gcc", ["-Db_lto=true", "-Dmodel_runs=500"]),
}
# libspex alone: elfutils does not build with musl as Debian has it.
C_LIBRARIES = {"musl": ("musl-gcc", ["-Dprofile=disabled", "-Dmodel_runs=500"])}
PORTS = [*MACHINES, *COMPILERS, *C_LIBRARIES]


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
    """The libraries of a machine, a program that runs what is built for it, and
    meson's description of both."""
    debian, triplet, qemu, family, cpu, order = MACHINES[port]
    root = f"{place}/debian/root"
    if run(f"{SOURCE}/scripts/fetch-debs", f"{place}/debian", "--arch", debian, "--no-security",
           *LIBRARIES):
        return None
    tuple_ = triplet.replace("i686", "i386")
    # Where wrap() has put a script in a program's place, the program is beside it.
    write(f"{place}/run", f"""#!/bin/sh
program=$1
shift
[ ! -e "$program.real" ] || program=$program.real
exec {qemu} -L {root} "$program" "$@"
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


def cmocka(compiler, place):
    """cmocka for another C library, from Debian's source; the directory of its pkg-config file."""
    if os.path.exists(f"{place}/cmocka.pc"):
        return place
    if run(f"{SOURCE}/scripts/fetch-debs", f"{place}/debian", "--no-security", "--source",
           "cmocka"):
        return None
    source = f"{place}/cmocka"
    os.makedirs(source, exist_ok=True)
    [archive] = glob.glob(f"{place}/debian/debs/cmocka_*.orig.tar.*z")
    has = [f"-DHAVE_{name}=1" for name in "CLOCK_GETTIME_REALTIME INTTYPES_H MALLOC_H STDINT_H "
           "STRINGS_H SIGNAL_H STRUCT_TIMESPEC TIME_H STRSIGNAL".split()]
    log = f"{place}/cmocka.log"
    if (run("tar", "xf", archive, "--strip-components=1", "-C", source, log=log) or
        run(compiler, "-O2", "-fPIC", "-w", f"-I{source}/include", *has, "-c",
            f"{source}/src/cmocka.c", "-o", f"{source}/cmocka.o", log=log) or
        run("ar", "rcs", f"{source}/libcmocka.a", f"{source}/cmocka.o", log=log)):
        return None
    write(f"{place}/cmocka.pc", f"""Name: cmocka
Description: cmocka
Version: 1.1
Libs: {source}/libcmocka.a
Cflags: -I{source}/include
""")
    return place


def wrap(place, programs):
    """Tests in Python start programs by their names: a script there hands them to QEMU."""
    with open(sys.executable, "rb") as f:
        native = f.read(20)
    for path in programs:
        with open(path, "rb") as f:
            head = f.read(20)
        if head.startswith(b"\x7fELF") and (head[4:6] + head[18:]) != (native[4:6] + native[18:]):
            os.replace(path, path + ".real")
            write(path, f'#!/bin/sh\nexec {place}/run {path} "$@"\n', 0o755)


def introspect(build, what):
    return json.loads(subprocess.run(["meson", "introspect", f"--{what}", build], check=True,
                                     stdout=subprocess.PIPE).stdout)


def chosen(build, left_out):
    """The names of the tests to run, the files that they and the libraries need, which of these are
    programs of the port, and how many tests are left out."""
    targets = introspect(build, "targets")
    files = {t["id"]: t["filename"] for t in targets}
    programs = {f for t in targets if t["type"] == "executable" for f in t["filename"]}
    suites = lambda t: {s.split(":")[-1] for s in t["suite"]}
    ours = [t for t in introspect(build, "tests") if suites(t) & SUITES and
            not suites(t) & NOT_HERE]
    tests = [t for t in ours if t["name"] not in left_out]
    needed = {f for t in tests for i in t["depends"] for f in files[i]}
    needed |= {f for names in files.values()
               for f in names if os.path.basename(f).startswith("libspex") and "qemu" not in f}
    return [t["name"]
            for t in tests], sorted(needed), sorted(needed & programs), len(ours) - len(tests)


def check(port, base):
    """Builds and tests a port; how it went, or None and why it went no further."""
    place = f"{base}/{port}"
    build = f"{place}/build"
    os.makedirs(place, exist_ok=True)
    env = dict(os.environ)
    env["TSAN_OPTIONS"] = "halt_on_error=1"
    left_out = set(SAME_EVERYWHERE)
    if port in MACHINES:
        cross = cross_file(port, place)
        if not cross:
            return None, "its libraries cannot be fetched"
        compiler, options = "gcc", ["--cross-file", cross, "-Ddebug=false", "-Doptimization=2",
                                    "-Dmodel_runs=20"]
        left_out |= LONG
    elif port in C_LIBRARIES:
        compiler, options = C_LIBRARIES[port]
        env["PKG_CONFIG_LIBDIR"] = cmocka(compiler, place) or ""
        if not env["PKG_CONFIG_LIBDIR"]:
            return None, "cmocka cannot be fetched or built"
    else:
        compiler, options = COMPILERS[port]
    if run(f"{SOURCE}/scripts/configure", build, compiler, "-Dwerror=true", *options, cwd=SOURCE,
           env=env):
        return None, "cannot be set up"
    names, needed, programs, omitted = chosen(build, left_out)
    if run("ninja", "-k", "0", "-C", build, *(os.path.relpath(f, build) for f in needed),
           log=f"{place}/build.log"):
        return None, "does not build"
    if port in MACHINES:
        wrap(place, programs)
    # A name alone may be that of a test in another suite too.
    run("meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", "-t", "20",
        *(f"--no-suite={s}" for s in sorted(NOT_HERE)), *names, log=f"{place}/test.log", env=env)
    return tap.tests(build, "testlog"), f"{omitted} programs left out"


def main():
    base = os.path.abspath(sys.argv[1]) + "-ports"
    ports = sys.argv[2:] or PORTS
    for port in ports:
        if port not in PORTS:
            sys.exit(f"ports: no port '{port}'; there are {', '.join(PORTS)}")
    failed = 0
    for n, port in enumerate(ports, 1):
        start = time.time()
        found, note = check(port, base)
        bad = [t for t in found or () if not t.ok]
        skipped = [t for t in found or () if t.ok and t.skipped]
        for t in bad:
            print(f"#    FAILED: {t.program}: {t.name}")
        for t in skipped:
            print(f"#    skipped: {t.program}: {t.name}: "
                  f"{t.skipped[4:].strip() or 'no reason given'}")
        if found:
            note = (f"{len(found) - len(bad) - len(skipped)} passed, {len(bad)} failed, "
                    f"{len(skipped)} skipped; " + note)
        good = bool(found) and not bad
        failed += not good
        print(f"{'ok' if good else 'not ok'} {n} - {port}: {note}; {time.time() - start:.0f} s",
              flush=True)
    print(f"1..{len(ports)}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
