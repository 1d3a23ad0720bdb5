# Verbs in front of meson. `make help` lists them.
PREFIX ?= /usr/local
LIBDIR ?= lib
DESTDIR ?=
SEEDS ?= 1-40
STEPS ?= 30000
ROUNDS ?= 200
CHAINS ?= 10000
SECONDS ?= 60
TARGET ?=
STEP ?=
ARGS ?=
PORT ?= 11300

.PHONY: all run quickstart test tests check asan tsan analyze bench abuse sim cron holds kill killserver killchains killschedule livefuzz fuzz differ symbols format library install clean help

all: build/build.ninja ## build the library, the examples, the benchmark and the tests in build/
	ninja -C build

build/build.ninja:
	@tools/setup.sh --check build
	meson setup build --prefix '$(PREFIX)' --libdir '$(LIBDIR)'
	@echo '$(PREFIX) $(LIBDIR)' >build/bide-prefix

run: ## install what is missing, build bided and bide, and start bided on a file in build/run: PORT=11300
	@tools/setup.sh build
	@$(MAKE) --no-print-directory build/build.ninja
	@tools/run.sh $(PORT) $(ARGS)

quickstart: ## install what is missing, build, and run the quick-start example of the library
	@tools/setup.sh build
	@$(MAKE) --no-print-directory build/build.ninja
	ninja -C build quickstart
	@build/quickstart

test: ## install what is missing and run every test; STEP="unit tidy" runs only those steps
	@tools/setup.sh test
	@tools/test.sh $(STEP)

tests check: test

asan: ## unit tests, contract suite and simulator under the address and undefined sanitizers
	@tools/setup.sh test
	@tools/test.sh asan

tsan: ## unit tests and contract suite under the thread sanitizer
	@tools/setup.sh test
	@tools/test.sh tsan

analyze: ## run clang-tidy with the full depth of its static analyzer
	@tools/setup.sh test
	@tools/test.sh clang
	@tools/check-tidy.sh --deep build-asan

bench: build/build.ninja ## run the benchmark; ARGS="..." are passed on
	ninja -C build bench bided
	@BIDE_COMMIT="$$(git describe --always --dirty 2>/dev/null)" build/bench $(ARGS)

abuse: build/build.ninja ## attack a bided while a second client measures its latency: ARGS=--quick
	ninja -C build bench bided
	@BIDE_COMMIT="$$(git describe --always --dirty 2>/dev/null)" build/bench abuse $(ARGS)

sim: build/build.ninja ## run the simulator: SEEDS=1-1000 STEPS=30000
	ninja -C build sim
	@build/sim --seeds $(SEEDS) --steps $(STEPS) $(ARGS)

cron: build/build.ninja ## compare cron expressions with their model, over ten years of ten time zones
	ninja -C build tests/test_cron_model
	@build/tests/test_cron_model --full

holds: ## measure the longest hold of a queue's lock, with a million jobs and with failing disks
	@[ -d build-holds ] || meson setup build-holds -Dlock_stats=true -Dtests=enabled -Dexamples=false
	ninja -C build-holds fault
	@rm -f build-holds/holds.txt
	@build-holds/fault --filter large_queue/ --timeout 900 -v $(ARGS); status=$$?; \
	BIDE_LOCK_STATS=build-holds/holds.txt build-holds/fault --timeout 900; \
	echo 'the longest holds while disks failed:'; \
	sort -rn build-holds/holds.txt | head -5; exit $$status

kill: build/build.ninja ## kill -9 a process that works on a SQLite file, repeatedly: ROUNDS=200
	ninja -C build kill
	@build/kill --rounds $(ROUNDS) $(ARGS)

fuzz: ## fuzz parsers and decoders: TARGET=op_codec SECONDS=60
	@tools/setup.sh test
	@tools/fuzz.sh $(SECONDS) $(TARGET)

killserver: build/build.ninja ## kill -9 bided under load, repeatedly: ROUNDS=200
	ninja -C build killserver bided
	@build/killserver --server build/bided --rounds $(ROUNDS) $(ARGS)

killchains: build/build.ninja ## run chains of jobs while workers and bided are killed -9: CHAINS=10000
	ninja -C build killserver bided
	@build/killserver --server build/bided --chains $(CHAINS) $(ARGS)
	@build/killserver --at file --chains $(CHAINS) $(ARGS)

killschedule: build/build.ninja ## kill -9 schedulers, consumers and bided while 200 schedules fire each second
	ninja -C build killschedule bided
	@build/killschedule --server build/bided $(ARGS)

livefuzz: build/build.ninja ## send random input to a running bided: SECONDS=60
	ninja -C build livefuzz bided
	@build/livefuzz --server build/bided --seconds $(SECONDS) $(ARGS)

differ: build/build.ninja ## compare bided with beanstalkd on random command streams: SEEDS=1-40
	ninja -C build differ bided
	@build/differ --right 'build/bided --url memory:' --seeds $(SEEDS) $(ARGS)
	@build/differ --left 'beanstalkd -b @ -f 0' --right 'build/bided --url sqlite:@/jobs.db?sync=full' --seeds $(SEEDS) $(ARGS)

symbols: build/build.ninja ## write the exported symbols to tests/symbols.txt
	ninja -C build
	tools/check-symbols.sh --write build

format: ## format every C file in place
	@tools/setup.sh --check test
	tools/check-format.sh --write

library: build/build.ninja ## build only what is installed
	ninja -C build library

install: ## install under PREFIX (/usr/local) in LIBDIR (lib), staged in DESTDIR
	@PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' DESTDIR='$(DESTDIR)' tools/install.sh

clean: ## remove every build directory
	rm -rf build build-gcc build-clang build-asan build-tsan build-bare build-lean build-fuzz build-holds

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 16
