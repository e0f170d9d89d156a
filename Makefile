# The commands of this repository; `make` alone lists them. Each first brings in what it needs (tools/setup.sh).
# They are short forms of CMake's presets, which work on their own too: cmake --preset default, and so on.

TOUR_FLAGS ?= --quick
BENCH_FLAGS ?=
CACHE ?= my_cache
JOBS ?= $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
CLANG_FORMAT ?= .deps/format/clang_format/data/bin/clang-format

# LibTorch carries no sanitizer, so a container that it hands over may look wrong to AddressSanitizer.
ASAN_OPTIONS ?= detect_container_overflow=0:detect_stack_use_after_return=1
UBSAN_OPTIONS ?= print_stacktrace=1

.PHONY: help run test workshop bench lengths windows batches offload pages record traces pictures book site site-test gpt2 asan format check-format clean formatter
help:  ## list these commands
	@sed -n 's/^\([a-z0-9-]*\):.*  ## /  make \1 - /p' Makefile

run: build/build.ninja  ## set up, build, and see the chapters tell one story; TOUR_FLAGS=... reaches the tour
	cmake --build --preset default --target programs -j $(JOBS)
	build/bin/tour $(TOUR_FLAGS)

test: build/build.ninja  ## set up, build everything, run every test
	cmake --build --preset default -j $(JOBS)
	ctest --preset default -j $(JOBS)

workshop: build/build.ninja  ## which promises your cache keeps, workshop/my_cache.h; CACHE=04_preallocated: a chapter's
	cmake --build --preset default --target workshop my_cache -j $(JOBS)
	@build/bin/workshop $(CACHE)

bench: build/build.ninja  ## the whole throughput table (ten minutes on two cores), raw samples into data/results
	cmake --build --preset default --target throughput -j $(JOBS)
	build/bin/throughput --json data/results/throughput.json $(BENCH_FLAGS)

lengths: build/build.ninja  ## the same at seven prompt lengths (ten minutes more), for the plots
	cmake --build --preset default --target throughput -j $(JOBS)
	build/bin/throughput --lengths --json data/results/lengths.json $(BENCH_FLAGS)

windows: build/build.ninja  ## the chapters that take a window, at three of them (eight minutes more)
	cmake --build --preset default --target throughput -j $(JOBS)
	build/bin/throughput --windows --json data/results/windows.json $(BENCH_FLAGS)

batches: build/build.ninja  ## what several rows at once are worth, and how much is padding (six minutes)
	cmake --build --preset default --target batching -j $(JOBS)
	build/bin/batching --json data/results/batching.json

offload: build/build.ninja  ## what a decode step costs with layers in a file (three minutes)
	cmake --build --preset default --target offloading -j $(JOBS)
	build/bin/offloading --json data/results/offloading.json

pages: build/build.ninja  ## what pages cost in a decode step, and what a shared prefix saves (four minutes)
	cmake --build --preset default --target paging -j $(JOBS)
	build/bin/paging --json data/results/paging.json

record: build/build.ninja  ## run the programs whose output the book shows, and keep it
	cmake --build --preset default --target shown_programs -j $(JOBS)
	"$${PYTHON:-python3}" tools/book/record.py

traces: build/build.ninja  ## record anew what the pictures of the caches are drawn from (seconds)
	cmake --build --preset default --target programs -j $(JOBS)
	"$${PYTHON:-python3}" tools/book/record.py traces

pictures:  ## draw the pictures anew from recorded traces and measurements
	@tools/setup.sh pictures
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=.deps/pictures:tools/book "$${PYTHON:-python3}" -m pictures

book: .deps/torch_dir  ## refresh code, output and tables in the texts
	tools/book/refresh.sh

site:  ## the book as a static site: open build/site/index.html
	@tools/setup.sh site
	rm -rf build/site
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=.deps/site "$${PYTHON:-python3}" -m sphinx --fail-on-warning --keep-going --quiet \
	  --fresh-env -c tools/book/site -d build/site-doctrees . build/site

site-test: site  ## read the whole site in a headless Chromium, and play with the stepper
	@tools/setup.sh site_test
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=.deps/site_test "$${PYTHON:-python3}" tools/book/site_test/check.py

gpt2:  ## fetch the real GPT-2 into data/gpt2 (550 MB; goes on where it was interrupted)
	python3 tools/fetch_gpt2.py

asan: build-asan/build.ninja  ## run the fast tests under AddressSanitizer and UndefinedBehaviorSanitizer
	cmake --build --preset asan --target fast_tests -j $(JOBS)
	ASAN_OPTIONS="$(ASAN_OPTIONS)" UBSAN_OPTIONS="$(UBSAN_OPTIONS)" ctest --preset asan -j $(JOBS)

format: formatter  ## format the C++ code
	find chapters common tests workshop \( -name '*.h' -o -name '*.cpp' \) -exec "$(CLANG_FORMAT)" -i {} +

check-format: formatter  ## fail where `make format` would change something
	@find chapters common tests workshop \( -name '*.h' -o -name '*.cpp' \) -exec "$(CLANG_FORMAT)" --dry-run --Werror {} + || \
	  { echo "check-format: run 'make format'" >&2; exit 1; }

clean:  ## remove what was built, not what was fetched (.deps, data/gpt2)
	rm -rf build build-dev build-asan

# Set-up looks every time, in a moment; it touches this file only when the choice of LibTorch changes.
.deps/torch_dir: FORCE
	@tools/setup.sh

# A pinned version: another one formats differently.
formatter:
	@command -v "$(CLANG_FORMAT)" >/dev/null || tools/setup.sh format

build/build.ninja: .deps/torch_dir CMakePresets.json
	cmake --preset default -DTorch_DIR="$$(cat .deps/torch_dir)"
	@touch $@

build-asan/build.ninja: .deps/torch_dir CMakePresets.json
	cmake --preset asan -DTorch_DIR="$$(cat .deps/torch_dir)"
	@touch $@

FORCE:
