"""
The same counts in every run, beside a load of 8: programs in five languages, Google Benchmark.
`make check-perf` fetches the compilers and libraries that Debian has, and runs each 20 times; `make
check` runs those of C and C++ three times.
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
    for place, *packages in ((ARM64, "libbenchmark-dev", "libstd-rust-dev", "python3-minimal"),
                             (TOOLS, "--arch", "amd64", "golang-1.19-go", "rustc")):
        code, _, err = run("sh", os.path.join(SOURCE, "scripts/fetch-debs"), place, *packages,
                           timeout=1200)
        check(f"packages for {os.path.basename(place)}", code == 0, err)


def tool(*args, env=None, **kw):
    code, out, err = run(*args, env=env, cwd=WORK, **kw)
    check(f"build with {os.path.basename(args[0])}", code == 0, out.decode() + err)


def rust():
    tools, sysroot = os.path.join(TOOLS, "root/usr"), os.path.join(WORK, "rust")
    for root in (tools, os.path.join(ROOT, "usr")):
        shutil.copytree(os.path.join(root, "lib/rustlib"), os.path.join(sysroot, "lib/rustlib"),
                        dirs_exist_ok=True, symlinks=True)
    tool(os.path.join(tools, "bin/rustc"), "--sysroot", sysroot, "--target",
         "aarch64-unknown-linux-gnu", "-C", "linker=" + CC, "-O", "-g", "-o", "words-rust",
         os.path.join(PROGRAMS, "words.rs"),
         env={"LD_LIBRARY_PATH": os.path.join(tools, "lib/x86_64-linux-gnu")})
    return [os.path.join(WORK, "words-rust")]


def go():
    goroot = os.path.join(TOOLS, "root/usr/lib/go-1.19")
    tool(os.path.join(goroot, "bin/go"), "build", "-o", "words-go",
         os.path.join(PROGRAMS, "words.go"),
         env={"GOROOT": goroot, "GOCACHE": os.path.join(WORK, "cache"), "GOARCH": "arm64",
              "CGO_ENABLED": "0", "GO111MODULE": "off"})
    return [os.path.join(WORK, "words-go")]


# name, command, options, how far runs may be apart
words = compile_c("words.cc", "-static", compiler=CXX, output="words")
programs = [
    ("C", [compile_c("work.c", "-static")], [], 0),
    ("C, dynamic", [compile_c("work.c", output="work-dynamic")], [], 0),
    ("C++", [words], [], 0),
    ("C++, two threads and a mutex", [words, "2"], [], 0),
]
if LONG:
    benchmark = compile_c("lookups.cc", f"-I{ROOT}/usr/include",
                          f"{ROOT}/usr/lib/aarch64-linux-gnu/libbenchmark.so.1.7.1", "-lpthread",
                          compiler=CXX)
    calm = ["--env", "GOMAXPROCS=1", "--env", "GOGC=off", "--env", "GODEBUG=asyncpreemptoff=1"]
    programs += [
        ("Rust", rust(), [], 0),
        ("Go", go(), [*calm, "--start-at", "main.count"], 0.01),
        ("Python", [f"{ROOT}/usr/bin/python3.11", "-S", "-E", "-B", "-c",
                    "print(len({str(i * 7919 % 499): i for i in range(3000)}))"],
         ["-L", ROOT, "--env", f"PYTHONHOME={ROOT}/usr"], 0),
        ("Google Benchmark", [benchmark, "--benchmark_min_time=0"], ["-L", ROOT], 0.001),
    ]
else:
    later("Rust, Go, Python, Google Benchmark", "check-perf")

load = [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.nice(5))
        for _ in range(8 if LONG else 2)]
try:
    for name, command, options, apart in programs:
        cycles = []
        for _ in range(RUNS):
            code, out, err = perf_check("--format", "json", *options, "--", *command)
            cycles.append(json.loads(out)["benchmarks"][0]["after"]["cycles"] if out else err)
            if not out:
                break
        good = all(isinstance(c, int) for c in cycles)
        spread = (max(cycles) - min(cycles)) / min(cycles) if good else None
        print(f"# {name}: {cycles[0]} cycles, spread {spread}")
        check(f"{name}: {RUNS} runs beside a load, apart by {100 * apart:g}% at most",
              good and spread <= apart, cycles)
finally:
    for process in load:
        process.kill()
done()
