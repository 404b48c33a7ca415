# A thin front for meson and ninja. `make demo`, `make check` and the check-* targets install what
# they need themselves; the others say what is missing.
BUILD ?= build
ASAN = $(BUILD)-asan
TSAN = $(BUILD)-tsan
PREFIX ?= /usr/local

all:
	@scripts/setup --check build
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX)
	@ninja -C $(BUILD) --quiet

# What a newcomer runs first: an AArch64 example under the model, and its report.
demo:
	@scripts/setup build demo
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX)
	@ninja -C $(BUILD) --quiet
	@scripts/demo $(BUILD)

# Every test: built by gcc, and by clang with ASan and UBSan; warnings are errors in both.
check:
	@scripts/setup build demo check vm
	@scripts/setup html
	@command -v npm >/dev/null || scripts/setup feeds
	@scripts/feeds-setup --short $(BUILD)/feeds
	@scripts/fleet-setup $(BUILD)/fleet
	@scripts/perf7-setup $(BUILD)/perf7
	@scripts/vm-setup $(BUILD)/vm/debian
	@scripts/vm-setup $(BUILD)/vm/newest trixie-backports
	@scripts/qemu11-setup $(BUILD)/vm/qemu11
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX) -Dwerror=true
	@scripts/configure $(ASAN) clang -Dwerror=true -Db_sanitize=address,undefined -Db_lundef=false
	@ninja -C $(BUILD) --quiet
	@ninja -C $(ASAN) --quiet
	@python3 scripts/check.py $(BUILD) $(ASAN)

# `check` and every long target in turn: a log of each and one table at the end. A run that was cut
# goes on where it was; TARGETS="check-html check-feeds" runs some of them.
check-all:
	@python3 scripts/check_all.py $(BUILD) $(TARGETS)

# Linux's own driver on the unit: guests are fetched once into build/vm (in
# part also in `make check`).
check-vm:
	@scripts/setup build demo check vm
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX) -Dwerror=true
	@ninja -C $(BUILD) --quiet
	@SPEX_LONG=1 meson test -C $(BUILD) --no-rebuild --print-errorlogs --suite vm
	@SPEX_SOURCE=$(CURDIR) SPEX_BUILD=$(abspath $(BUILD)) python3 tests/vm/test_native.py

# The screens that tests compare with (tests/analysis/golden), again; look at what `git diff` shows.
screens:
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX) -Dwerror=true
	@ninja -C $(BUILD) --quiet
	@SPEX_UPDATE_GOLDEN=1 meson test -C $(BUILD) --no-rebuild --print-errorlogs -t 8 golden examples

# The HTML page in a browser, with axe-core (the part without it is in `make check`
# where chromium is installed).
check-html:
	@scripts/setup build demo check html
	@scripts/fetch-axe $(BUILD)/html
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX) -Dwerror=true
	@ninja -C $(BUILD) --quiet
	@SPEX_LONG=1 meson test -C $(BUILD) --no-rebuild --print-errorlogs --suite report

# Eight of Debian's programs and the examples on two cores: the first row of report, time against
# exact cycles; pairs of functions on four. Half an hour.
check-programs:
	@scripts/setup build demo check
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX) -Dwerror=true
	@ninja -C $(BUILD) --quiet
	@SPEX_LONG=1 meson test -C $(BUILD) --no-rebuild --print-errorlogs -t 4 truth-programs truth-rules unwind

# Sampled detail against the full model on many programs: the table of docs/model.md. Half an hour;
# goes on where it was stopped. ONLY=REGEX: these programs.
check-model:
	@scripts/setup build demo check
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX) -Dwerror=true
	@ninja -C $(BUILD) --quiet
	@SPEX_LONG=1 SPEX_ONLY='$(ONLY)' meson test -C $(BUILD) --no-rebuild --verbose -t 8 truth-sampled

# What the page looks like (tests/report/pictures.json) anew, after a change that is meant.
pictures:
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX) -Dwerror=true
	@ninja -C $(BUILD) --quiet
	@-SPEX_PICTURES=1 meson test -C $(BUILD) --no-rebuild html-browser
	@git diff --stat tests/report/pictures.json

# Every call site that can fail does, in turn; record killed or refused at every system call; guests
# that spoil their run in more ways; 200,000 damaged files through every command that reads (short
# parts of these are in `make check`).
check-faults:
	@scripts/setup build demo check
	@scripts/configure $(ASAN) clang -Dwerror=true -Db_sanitize=address,undefined -Db_lundef=false
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX) -Dwerror=true
	@ninja -C $(BUILD) --quiet
	@ninja -C $(ASAN) --quiet
	@mkdir -p $(ASAN)/faults # spex with the sanitizer, beside a plugin that QEMU can load
	@cp $(ASAN)/spex $(ASAN)/faults/ && ln -sf $(abspath $(BUILD))/libspex-qemu.so $(ASAN)/faults/
	@SPEX_LONG=1 meson test -C $(ASAN) --no-rebuild --print-errorlogs -t 10 faults cut
	@SPEX_LONG=1 SPEX_PROGRAM=$(abspath $(ASAN))/faults/spex meson test -C $(BUILD) --no-rebuild --print-errorlogs -t 10 outputs
	@ASAN_OPTIONS=detect_leaks=0 $(ASAN)/fuzz/fuzz-replay-cli -1450 fuzz/corpus/cli
	@SPEX_LONG=1 meson test -C $(BUILD) --no-rebuild --print-errorlogs -t 10 killed # under strace leaks cannot be looked for

# What other tools make of what spex export writes, at full length; they are
# fetched once into build/feeds.
check-feeds:
	@scripts/setup build demo check html
	@command -v npm >/dev/null || scripts/setup feeds
	@scripts/feeds-setup $(BUILD)/feeds
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX) -Dwerror=true
	@ninja -C $(BUILD) --quiet
	@SPEX_LONG=1 meson test -C $(BUILD) --no-rebuild --print-errorlogs -t 10 --suite export

# ClickHouse servers as a cluster, killed and started again, with 20 million rows (a short
# part is in `make check`).
check-fleet:
	@scripts/setup build demo check
	@scripts/fleet-setup $(BUILD)/fleet --today
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX) -Dwerror=true
	@ninja -C $(BUILD) --quiet
	@SPEX_LONG=1 meson test -C $(BUILD) --no-rebuild --print-errorlogs -t 2 --suite fleet

# Programs optimized with profiles of spex by BOLT and clang, what they did before and after
# counted exactly; the figures of docs/optimize.md come from it. Some minutes; sqlite3's source and
# the tools are fetched once.
check-pgo:
	@scripts/setup build demo check pgo
	@scripts/feeds-setup --debian $(BUILD)/feeds
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX) -Dwerror=true
	@ninja -C $(BUILD) --quiet
	@SPEX_BUILD=$(abspath $(BUILD)) python3 tests/pgo/test_pgo.py $(PGO)

# make -j2 of a small project with Debian's own arm64 compiler, and a thousand execs, under one
# recording; the compiler (70 MB) is fetched once into build/exec.
check-exec:
	@scripts/setup build demo check
	@scripts/fetch-debs $(BUILD)/exec --no-security gcc-12 make libc6-dev
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX) -Dwerror=true
	@ninja -C $(BUILD) --quiet
	@SPEX_SOURCE=$(CURDIR) SPEX_BUILD=$(abspath $(BUILD)) python3 tests/guest/test_make.py

# Programs on a newer QEMU, which is built once from Debian's source (ten minutes): the same samples
# as on Debian 12's, and the tests of user mode. ENGINE names one that is there.
ENGINE ?= $(BUILD)/qemu/qemu-aarch64
check-engines:
	@scripts/setup build demo check engines
	@[ "$(ENGINE)" != "$(BUILD)/qemu/qemu-aarch64" ] || scripts/qemu-user-setup $(BUILD)/qemu
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX) -Dwerror=true
	@ninja -C $(BUILD) --quiet
	@SPEX_QEMU=$(abspath $(ENGINE)) meson test -C $(BUILD) --no-rebuild --print-errorlogs -t 4 engines exact sve sme presets exec stacks order record

# Eleven kinds of threads under --deterministic, 200 runs of each beside eight busy programs: one
# answer and one file. An hour (a short part is in `make check`).
check-turns:
	@scripts/setup build demo check
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX) -Dwerror=true
	@ninja -C $(BUILD) --quiet
	@SPEX_LONG=1 meson test -C $(BUILD) --no-rebuild --print-errorlogs -t 30 kinds

# The requirement list joined with the marks of tests that passed in the last `make check`.
conformance:
	@python3 scripts/conformance.py --write docs/conformance.md $(BUILD) $(ASAN)

# The same counts twenty times beside a load of 8: eight programs in C, C++, Rust, Go and Python, and
# Google Benchmark; compilers and libraries (1 GB) are fetched once into build/perf.
check-perf:
	@scripts/setup build demo check
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX) -Dwerror=true
	@ninja -C $(BUILD) --quiet
	@SPEX_LONG=1 meson test -C $(BUILD) --no-rebuild --print-errorlogs -t 10 noise

# spex's own hot paths, built for AArch64, under spex check against bench/perf.json; after an intended
# change: scripts/perf-check build build-perf --update.
perf-check: all
	@scripts/setup --check demo
	@scripts/perf-check $(BUILD) build-perf

# Every command with any number of threads, over all the streams of tests/cli/test_threads.py; and
# 16 threads of a host that open 1,000 profiles, under AddressSanitizer.
check-threads: all
	@SPEX_LONG=1 meson test -C $(BUILD) --no-rebuild --print-errorlogs -t 4 threads
	@scripts/configure $(ASAN) clang -Dwerror=true -Db_sanitize=address,undefined -Db_lundef=false
	@ninja -C $(ASAN) --quiet tests/analysis/test-host
	@meson test -C $(ASAN) --no-rebuild --print-errorlogs host

# Data races: every command that reads, with every option, over profiles of every kind, by 1, 2 and 8
# threads and those of a machine of 16 CPUs; hosts with threads; all under ThreadSanitizer. An hour
# (what is no race but shows in the output: a short part in `make check`). ONLY=REGEX: these.
check-races:
	@scripts/setup build demo check
	@scripts/feeds-setup --short $(BUILD)/feeds
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX) -Dwerror=true
	@scripts/configure $(TSAN) clang -Dwerror=true -Db_sanitize=thread -Db_lundef=false
	@ninja -C $(BUILD) --quiet
	@ninja -C $(TSAN) --quiet spex tests/analysis/test-host tests/analysis/test-passes
	@mkdir -p $(TSAN)/races # spex with the sanitizer, beside a plugin that QEMU can load
	@cp -f $(TSAN)/spex $(TSAN)/races/ && ln -sf $(abspath $(BUILD))/libspex-qemu.so $(TSAN)/races/
	@meson test -C $(TSAN) --no-rebuild --print-errorlogs -t 4 host passes
	@SPEX_LONG=1 SPEX_ONLY='$(ONLY)' SPEX_PROGRAM=$(abspath $(TSAN))/races/spex meson test -C $(BUILD) --no-rebuild --print-errorlogs -t 100 together

# How the commands gain with 1, 2, 4, ... threads on this machine.
bench-scale: all
	@SPEX_BUILD=$(BUILD) python3 bench/bench_scale.py

bench: all
	@scripts/setup --check demo check
	@python3 bench/run.py --build $(BUILD)

# Other machines under QEMU, other compilers: PORTS="s390x lto" runs some of them.
check-ports:
	@scripts/setup build demo check ports
	@python3 scripts/ports.py $(BUILD) $(PORTS)

fuzz:
	@scripts/setup --check build check
	@fuzz/run $(FUZZ_SECONDS)

# Branches of wire, record, arch and spu that their tests take; what they do not take has a
# reason in spec/coverage.tsv.
coverage:
	@scripts/setup build demo check
	@python3 scripts/coverage.py $(BUILD)-coverage

# Flip table rows and rule sites one at a time; report those that no test, or
# no marked test, notices.
mutate:
	@scripts/setup --check build check
	@python3 scripts/mutate.py

# The libraries against the last release (spec/abi): what programs were built for must still be
# there. Part of `make check`, too.
abi: all
	@scripts/setup --check check
	@python3 scripts/abi.py $(BUILD)

# Microbenchmarks under the model beside what is published:
# docs/validation.md, and the numbers that spex calibrate gives back. An hour and more.
validate: all
	@python3 scripts/validate.py $(BUILD) --write docs
	@SPEX_LONG=1 meson test -C $(BUILD) --no-rebuild --print-errorlogs calibrate
	@scripts/fetch-debs $(BUILD)/arm64 bzip2 zstd gawk cpp-12 sqlite3
	@python3 scripts/validate_programs.py $(BUILD) $(BUILD)/arm64/root --write docs/validation.md

# Programs that read what spex writes, and what they count: docs/readers.md.
readers:
	@scripts/setup build demo check
	@command -v npm >/dev/null || scripts/setup feeds
	@scripts/feeds-setup --short $(BUILD)/feeds
	@scripts/feeds-setup --debian $(BUILD)/feeds
	@scripts/perf7-setup $(BUILD)/perf7
	@scripts/readers-setup $(BUILD)/readers
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX) -Dwerror=true
	@ninja -C $(BUILD) --quiet
	@SPEX_BUILD=$(abspath $(BUILD)) python3 tests/export/readers.py docs/readers.md

# What docs/upstream.md says of other programs, seen again in those that are here.
upstream:
	@scripts/setup check
	@scripts/perf7-setup $(BUILD)/perf7
	@python3 scripts/upstream.py $(BUILD)

# The picture in README.md, of the demo's page.
docs: demo
	@scripts/setup html
	@python3 tests/report/picture.py $(BUILD)/demo/demo.html docs/html.png

# The documents as a static site, with the demo's page in it: build/site.
site: demo
	@scripts/setup site
	@python3 scripts/site.py . $(BUILD)/demo/demo.html $(BUILD)/site

install: all
	@meson install -C $(BUILD) --quiet

# A tarball of the last commit, and Debian's packages made from it.
dist:
	@scripts/dist $(BUILD)

# ARCH=arm64: a cross build.
deb:
	@scripts/setup --check build deb
	@scripts/dist $(BUILD) deb $(ARCH)

# The packages built twice, installed in fresh minimal Debian 12 and 13, amd64 and arm64, tried and
# purged. Needs root, an hour and 8 GB; ROOTS="build bookworm/amd64" does a part.
check-deb:
	@scripts/setup build demo roots
	@scripts/configure $(BUILD) gcc --prefix $(PREFIX)
	@ninja -C $(BUILD) --quiet
	@scripts/check-deb $(BUILD) $(ROOTS)

# Tables stand between clang-format off and on, or in .def files.
format:
	@clang-format -i $$(git ls-files '*.c' '*.h' '*.inc')

clean:
	@rm -rf $(BUILD) $(ASAN) $(TSAN) $(BUILD)-ports $(BUILD)-deb $(BUILD)-fuzz $(BUILD)-fuzz-elfutils $(BUILD)-coverage $(BUILD)-mutate build-perf

.PHONY: readers upstream validate all demo docs site check check-all check-vm screens check-html pictures check-feeds check-pgo check-programs check-turns check-model check-fleet check-ports check-threads check-races check-exec check-engines check-faults check-deb conformance bench bench-scale perf-check check-perf fuzz coverage mutate abi install dist deb format clean
