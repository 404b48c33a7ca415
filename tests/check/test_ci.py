"""
docs/ci.md: the shell steps of its workflows run, in a project with a suite. What would install
something, comment, or compile Rust and Go is a stand-in that notes how it was called.
"""
import shutil
import textwrap

from check import *

need_engine("the workflows")
PAGE = open(os.path.join(SOURCE, "docs/ci.md")).read()


def yaml(after):
    """The first block of YAML below a heading."""
    return re.search(r"```yaml\n(.*?)```", PAGE[PAGE.index(after):], re.S)[1]


def steps(text):
    """Name and commands of each `run: |`."""
    return [(m[1], textwrap.dedent(m[2])) for m in
            re.finditer(r"- name: (\w+)\n +run: \|\n((?:          .*\n)+)", text)]


project = os.path.join(WORK, "project")
stand_ins = os.path.join(WORK, "stand-ins")
calls = os.path.join(WORK, "calls")
for directory in (project, stand_ins, os.path.join(project, "bench"),
                  os.path.join(project, "build")):
    os.mkdir(directory)
os.symlink(SPEX, os.path.join(stand_ins, "spex"))
ready = compile_c("work.c", "-static", output="ready")
for name in ("apt-get", "curl", "gh", "rustup", "git"):
    with open(os.path.join(stand_ins, name), "w") as f:
        f.write(f'#!/bin/sh\necho "{name} $*" >> {calls}\n')
with open(os.path.join(stand_ins, "cargo"), "w") as f:
    f.write(f"""#!/bin/sh
echo "cargo $*" >> {calls}
mkdir -p target/aarch64-unknown-linux-gnu/release/deps
touch target/aarch64-unknown-linux-gnu/release/deps/perf-1.d
cp {ready} target/aarch64-unknown-linux-gnu/release/deps/perf-1
""")
with open(os.path.join(stand_ins, "go"), "w") as f:
    f.write(f"""#!/bin/sh
echo "go $* for $GOARCH" >> {calls}
while [ "$1" != -o ]; do shift; done
cp {ready} "$2"
""")
for name in os.listdir(stand_ins):
    if name != "spex":
        os.chmod(os.path.join(stand_ins, name), 0o755)
with open(os.path.join(project, "Makefile"), "w") as f:
    f.write(".PHONY: bench\nbench:\n\t$(CC) $(CFLAGS) $(LDFLAGS) -o build/bench work.c\n")
with open(os.path.join(project, "bench/perf.toml"), "w") as f:
    f.write('[work]\ncommand = "../build/bench"\nthreshold = "0.5%"\n')
ENV = {"PATH": stand_ins + ":" + os.environ["PATH"], "SPEX_DEBS": "https://example.org",
       "PULL": "7", "GITHUB_STEP_SUMMARY": os.path.join(WORK, "summary")}


def source(extra):
    text = open(os.path.join(PROGRAMS, "work.c")).read()
    with open(os.path.join(project, "work.c"), "w") as f:
        f.write(text.replace("#define EXTRA 0", f"#define EXTRA {extra}"))


def sh(commands):
    """Runs them as a workflow does: (exit code, output)."""
    code, out, err = run("sh", "-ec", commands, cwd=project, env=ENV)
    return code, out.decode() + err


def called():
    text = open(calls).read() if os.path.exists(calls) else ""
    open(calls, "w").close()
    return text


# ---- GitHub, C ----
github = dict(steps(yaml("## GitHub Actions")))
equal("GitHub: the steps", list(github), ["install", "build", "check"])
source(0)
code, out = sh(github["install"])
seen = called()
check("GitHub: install: packages, and spex doctor says that programs can be recorded",
      code == 0 and "apt-get install -y ./spex_amd64.deb ./spex-qemu_amd64.deb" in seen and
      "curl -fsSLO https://example.org/spex_amd64.deb" in seen, out + seen)
code, out = sh(github["build"])
check("GitHub: build", code == 0, out)
code, out = sh("spex check bench/perf.toml --update")
check("the baseline", code == 0 and os.path.exists(os.path.join(project, "bench/perf.json")), out)
code, out = sh(github["check"])
check("GitHub: check: nothing changed", code == 0 and
      "gh pr comment 7 --edit-last --body-file perf.md" in called(), out)
source(10 * ONE_TENTH)
code, out = sh(github["build"] + github["check"])
comment = open(os.path.join(project, "perf.md")).read()
check("GitHub: check: 1% slower fails, and the comment names the function", code == 1 and
      "**slower**" in comment and "polish" in comment and
      comment in open(ENV["GITHUB_STEP_SUMMARY"]).read(), out + comment)

# ---- GitLab ----
gitlab = "\n".join(re.findall(r"^    - (?!if:)(.*)", yaml("## GitLab CI"), re.M))
code, out = sh(gitlab)
report = open(os.path.join(project, "perf.xml")).read()
check("GitLab: the regression fails the job", code == 1 and 'failures="1"' in report, out + report)
source(0)
code, out = sh(gitlab)
check("GitLab: and without it all is well", code == 0 and "<testcase" in
      open(os.path.join(project, "perf.xml")).read(), out)
called()

# ---- Rust, Go: other ways to build the same benchmark ----
for language, compiler in (("### Rust", "cargo bench --no-run"), ("### Go", "for arm64")):
    os.unlink(os.path.join(project, "build/bench"))
    (name, commands), = steps(yaml(language))
    code, out = sh(commands + github["check"])
    seen = called()
    check(f"{language[4:]}: the step that builds, then the same check", code == 0 and
          compiler in seen and os.path.exists(os.path.join(project, "build/bench")), out + seen)
shell = re.search(r"```sh\n(.*?)```", PAGE, re.S)[1]
code, out = sh(shell.replace("make -C", "echo make -C"))
check("from source", code == 0 and "git clone --depth 1" in called(), out)
done()
