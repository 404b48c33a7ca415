"""
The same counts in every run, beside a load of 8, and nearly the same from another directory with a
longer environment: programs in five languages, and the frameworks for benchmarks that Debian has.
`make check-perf` fetches compilers and libraries, and runs each 20 times; `make check` runs those
of C and C++ three times.
"""
import shutil
import subprocess

from check import *

need_engine("noise")
LONG = bool(os.environ.get("SPEX_LONG"))
RUNS = 20 if LONG else 3
CXX = "aarch64-linux-gnu-g++"
ARM64, TOOLS = (os.path.join(BUILD, "perf", n) for n in ("arm64", "tools"))
ROOT = os.path.join(ARM64, "root")
if LONG:
    for place, *packages in ((ARM64, "libbenchmark-dev", "catch2", "libstd-rust-dev",
                              "python3-minimal"),
                             (TOOLS, "--arch", "amd64", "golang-1.19-go", "rustc", "cargo",
                              "librust-criterion-dev")):
        code, _, err = run("sh", os.path.join(SOURCE, "scripts/fetch-debs"), place, *packages,
                           timeout=1200)
        check(f"packages for {os.path.basename(place)}", code == 0, err)


def tool(*args, env=None, **kw):
    code, out, err = run(*args, env=env, cwd=WORK, **kw)
    check(f"build with {os.path.basename(args[0])}", code == 0, out.decode() + err)


def rust():
    """A program and, by cargo, a benchmark of criterion."""
    tools, sysroot = os.path.join(TOOLS, "root/usr"), os.path.join(WORK, "rust")
    target = "aarch64-unknown-linux-gnu"
    for root in (tools, os.path.join(ROOT, "usr")):
        shutil.copytree(os.path.join(root, "lib/rustlib"), os.path.join(sysroot, "lib/rustlib"),
                        dirs_exist_ok=True, symlinks=True)
    env = {"LD_LIBRARY_PATH": os.path.join(tools, "lib/x86_64-linux-gnu"),
           "RUSTC": os.path.join(tools, "bin/rustc"), "RUSTFLAGS": "--sysroot " + sysroot,
           "CARGO_HOME": os.path.join(WORK, "cargo"), "CARGO_PROFILE_BENCH_DEBUG": "true",
           "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER": CC}
    tool(env["RUSTC"], "--sysroot", sysroot, "--target", target, "-C", "linker=" + CC, "-O", "-g",
         "-o", "words-rust", os.path.join(PROGRAMS, "words.rs"), env=env)
    for name in ("Cargo.toml", "words.rs", "words_bench.rs"):
        shutil.copy(os.path.join(PROGRAMS, name), WORK)
    source = "source.crates-io.replace-with='debian'"
    registry = "source.debian.directory='" + os.path.join(tools, "share/cargo/registry") + "'"
    tool(os.path.join(tools, "bin/cargo"), "bench", "--offline", "--no-run", "--target", target,
         "--config", source, "--config", registry, env=env, timeout=3000)
    built = os.path.join(WORK, "target", target, "release/deps")
    bench, = (n for n in os.listdir(built) if n.startswith("words_bench") and "." not in n)
    shutil.copy(os.path.join(built, bench), os.path.join(WORK, "words_bench"))
    return [os.path.join(WORK, n) for n in ("words-rust", "words_bench")]


def go():
    """A program, and a benchmark of package testing."""
    goroot = os.path.join(TOOLS, "root/usr/lib/go-1.19")
    env = {"GOROOT": goroot, "GOCACHE": os.path.join(WORK, "cache"), "GOARCH": "arm64",
           "CGO_ENABLED": "0", "GO111MODULE": "off"}
    sources = [os.path.join(PROGRAMS, n) for n in ("words.go", "words_test.go")]
    tool(os.path.join(goroot, "bin/go"), "build", "-o", "words-go", sources[0], env=env)
    tool(os.path.join(goroot, "bin/go"), "test", "-c", "-o", "words-test", *sources, env=env)
    return [os.path.join(WORK, n) for n in ("words-go", "words-test")]


# name, command, options, how far runs may be apart, and when moved
words = compile_c("words.cc", "-static", compiler=CXX, output="words")
programs = [
    ("C", [compile_c("work.c", "-static")], [], 0, 0.005),
    ("C, dynamic", [compile_c("work.c", output="work-dynamic")], [], 0, 0.005),
    ("C++", [words], [], 0, 0.005),
    ("C++, two threads and a mutex", [words, "2"], [], 0, None),
]
if LONG:
    lookups = compile_c("lookups.cc", f"-I{ROOT}/usr/include",
                        f"{ROOT}/usr/lib/aarch64-linux-gnu/libbenchmark.so.1.7.1", "-lpthread",
                        compiler=CXX)
    finds = compile_c("finds.cc", f"-I{ROOT}/usr/include", compiler=CXX)
    rust_program, rust_bench = rust()
    go_program, go_bench = go()
    calm = ["--env", "GOMAXPROCS=1", "--env", "GOGC=off"]
    programs += [
        ("Rust", [rust_program], [], 0, 0.005),
        ("Go", [go_program], calm, 0, 0.005),
        ("Python", [f"{ROOT}/usr/bin/python3.11", "-S", "-E", "-B", "-c",
                    "print(len({str(i * 7919 % 499): i for i in range(3000)}))"],
         ["-L", ROOT, "--env", f"PYTHONHOME={ROOT}/usr"], 0, 0.005),
        ("Google Benchmark", [lookups, "--benchmark_min_time=0"], ["-L", ROOT], 0, 0.005),
        ("Catch2", [finds, "finds"], [], 0, 0.005),
        ("criterion", [rust_bench, "--bench", "--test"], ["-L", ROOT], 0.001, 0.005),
        ("Go's testing", [go_bench, "-test.run=none", "-test.bench=.", "-test.benchtime=100x"],
         calm, 0, 0.005),
    ]
else:
    later("Rust, Go, Python, frameworks for benchmarks", "check-perf")


def count(options, command, **kw):
    code, out, err = perf_check("--format", "json", *options, "--", *command, **kw)
    return json.loads(out)["benchmarks"][0]["after"]["cycles"] if out else err


def moved(command):
    """The same from another directory, if it is a program of ours."""
    if not command[0].startswith(WORK):
        return command
    where = os.path.join(WORK, "another", "and", "much", "longer", "directory")
    os.makedirs(where, exist_ok=True)
    return [shutil.copy(command[0], where), *command[1:]]


load = [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.nice(19))
        for _ in range(8 if LONG else 2)]
try:
    for name, command, options, apart, elsewhere in programs:
        cycles = []
        for _ in range(RUNS):
            cycles.append(count(options, command))
            if isinstance(cycles[-1], str):
                break
        good = all(isinstance(c, int) for c in cycles)
        spread = (max(cycles) - min(cycles)) / min(cycles) if good else None
        print(f"# {name}: {cycles[0]} cycles, spread {spread}")
        check(f"{name}: {RUNS} runs beside a load, apart by {100 * apart:g}% at most",
              good and spread <= apart, cycles)
        if good and elsewhere:
            other = count(options, moved(command), env={f"V{i}": "x" * 200 for i in range(20)})
            change = abs(other / cycles[0] - 1) if isinstance(other, int) else None
            print(f"# {name}: moved, with a longer environment: changes by {change}")
            check(f"{name}: moved, with a longer environment: below {100 * elsewhere:g}%",
                  change is not None and change < elsewhere, other)
finally:
    for process in load:
        process.kill()
done()
