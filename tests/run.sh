#!/usr/bin/env bash
# Builds everything and runs all tests; the one test command.
#
#   tests/run.sh               what CI runs: release build, all tests, the CUDA backend without a GPU, whole processes,
#                              the chart, each fuzzer for some seconds, the model recipe in miniature
#   tests/run.sh --full        that, the chart with heavy weights, and the sanitizers' builds (clang++ and g++)
#   tests/run.sh --quick       what a developer's loop needs: format, include rules, dev build, unit tests
#   tests/run.sh PART...       only these parts (see the list at the end of this file)
#
# Each part prints how long it took. Tests that were skipped are listed at the end, each with its reason. The last line
# counts parts, and those tests: 'N passed, N failed, N skipped'. A test that lacks what a registry did not give is
# skipped on a developer's machine and fails where CI=true.
set -uo pipefail
cd "$(dirname "$0")/.."
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$PWD # objects are shared between the build folders of one checkout
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}
# CAF, UCX and CPython are built without the thread sanitizer: what their own code touches is not looked at.
export TSAN_OPTIONS=${TSAN_OPTIONS:-ignore_noninstrumented_modules=1:halt_on_error=1}
jobs=${TROUPE_TEST_JOBS:-$(nproc)}
fuzz_seconds=${TROUPE_FUZZ_SECONDS:-10}
fuzz_seed=${TROUPE_FUZZ_SEED:-1} # the same inputs in every run of one commit; another seed explores on

passed=()
failed=()

part() {
  local name=$1 start=$SECONDS
  shift
  echo "==== $name"
  if "$@"; then
    passed+=("$name")
    echo "---- $name: ok, $((SECONDS - start)) s"
  else
    failed+=("$name")
    echo "---- $name: FAILED, $((SECONDS - start)) s"
  fi
}

# ctest with these arguments; remembers what it skipped.
run_ctest() {
  local report status=0
  report=$(mktemp "$PWD/build/ctest.XXXXXX.xml")
  ctest --output-junit "$report" "$@" || status=$?
  [ ! -s "$report" ] || /usr/bin/python3 tests/skipped.py "$report" >>"$skipped" || status=1
  rm -f "$report"
  return "$status"
}

sources() { git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh'; }

part_dependencies() { deploy/install-deps.sh build test; }

part_format() { sources | xargs /usr/bin/python3 tests/check_format.py; }

part_includes() { /usr/bin/python3 tests/check_includes.py && /usr/bin/python3 tests/check_heavy_headers.py; }

build() { cmake --preset "$1" >"build/$1.configure.log" 2>&1 || { cat "build/$1.configure.log"; return 1; }
  shift
  cmake --build "$@"; }

part_release() { build release --preset release --target all -- -k 0 && run_ctest --test-dir build/release -j "$jobs" --output-on-failure -LE 'slow|chart|heavy|image' --no-tests=error; }

part_dev() { build dev --preset dev && run_ctest --test-dir build/dev -j "$jobs" --output-on-failure -L unit --no-tests=error; }

# The programs as their users run them: real processes, real sockets, real signals.
part_system() { run_ctest --test-dir build/release --output-on-failure -L slow --no-tests=error; }

# The Helm chart: what it renders, and the pods that it renders, started here with the release build.
part_chart() { run_ctest --test-dir build/release --output-on-failure -L chart --no-tests=error; }

# The chart's pods with weights that take a minute to load: lost machines, upgrades, drains. 20 minutes.
part_heavy() { run_ctest --test-dir build/release --output-on-failure -V -L heavy --no-tests=error; }

# The Dockerfile's steps in a Debian root, and each role started from it. Not in --full: it fetches 80 MB of packages.
part_image() { run_ctest --test-dir build/release --output-on-failure -V -L image --no-tests=error; }

# Everything with clang++, warnings as errors, and the address and undefined-behaviour sanitizers in it.
asan_options=detect_stack_use_after_return=1:check_initialization_order=1:strict_init_order=1:$ASAN_OPTIONS
part_asan() { build asan --preset asan -- -k 0 && ASAN_OPTIONS=$asan_options run_ctest --test-dir build/asan -j "$jobs" --output-on-failure -LE 'slow|chart|heavy|image' --no-tests=error; }

# The programs as their users run them, as part 'asan' has built them. A cluster replaces a worker that a sanitizer has
# ended, and goes on: that no process of any test wrote a report is what tells.
part_asan_system() {
  local reports=$PWD/build/asan/reports status=0
  rm -rf "$reports" && mkdir -p "$reports" || return 1
  ASAN_OPTIONS=$asan_options:log_path=$reports/report UBSAN_OPTIONS=$UBSAN_OPTIONS:log_path=$reports/report \
    run_ctest --test-dir build/asan --output-on-failure -L slow --no-tests=error || status=1
  [ -z "$(ls -A "$reports")" ] || { head -n 60 "$reports"/*; return 1; }
  return $status
}

# UCX's hook in madvise would call the sanitizer for a thread that it has already seen end.
part_tsan() { build tsan --preset tsan --target tsan_tests -- -k 0 && UCX_MEM_MMAP_HOOK_MODE=none run_ctest --test-dir build/tsan -j "$jobs" --output-on-failure -L tsan --no-tests=error; }

# All of it with clang++, warnings as errors. Part 'asan' is the same with sanitizers.
part_clang() { build clang --preset clang -- -k 0 && run_ctest --test-dir build/clang --output-on-failure -R instruction_sets_share_no_code --no-tests=error; }

# One fuzzer for $fuzz_seconds, from its seeds and whatever earlier runs here have found. Prints one line, or the
# failure, whose input stays in build/fuzz.
fuzz_one() {
  local target=$1 name log
  name=$(basename "$target")
  log=build/fuzz/$name.log
  mkdir -p "build/fuzz/corpus/$name"
  if "$target" -seed="$fuzz_seed" -max_total_time="$fuzz_seconds" -timeout=30 -rss_limit_mb=2048 -artifact_prefix="build/fuzz/$name-" \
    "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name" >"$log" 2>&1; then
    echo "$name: ${fuzz_seconds} s, $(grep -aoE '^Done [0-9]+' "$log" | grep -oE '[0-9]+') inputs"
  else
    echo "$name: FAILED"
    tail -40 "$log"
    return 1
  fi
}

# The CUDA backend: nvcc compiles all of it for the one chip that it is for, and all but the GPU itself runs on the host.
# Where there is no nvcc, that is told among the skipped tests; that nothing was run on a GPU, too.
part_cuda() {
  if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    echo "cuda: this machine has no nvcc, so NO CUDA CODE WAS COMPILED" | tee -a "$skipped"
    return
  fi
  cmake --preset release -DTROUPE_CUDA=ON -B build/cuda >build/cuda.configure.log 2>&1 || { cat build/cuda.configure.log; return 1; }
  grep 'nccl.h was not found' build/cuda.configure.log | sed 's/^-- /cuda: /' | tee -a "$skipped"
  cmake --build build/cuda --target cuda_checks -- -k 0 && run_ctest --test-dir build/cuda -j "$jobs" --output-on-failure -L '^(cuda|gpu)$' --no-tests=error
}

# The same kernels with bounds checks, as tests/gpu/run.sh carries them to a GPU: that they compile.
part_cuda_checked() {
  [ -f build/cuda/build.ninja ] || { echo "cuda_checked: part 'cuda' comes first, where there is nvcc" | tee -a "$skipped"; return; }
  cmake --build build/cuda --target gpu_check_checked
}

# clang++ builds the fuzzers alone, with what they read.
part_fuzz() {
  build fuzz --preset fuzz -- -k 0 || return 1
  export -f fuzz_one
  export fuzz_seconds fuzz_seed
  printf '%s\n' build/fuzz/fuzz/*_fuzz | xargs -P "$jobs" -I {} bash -c 'fuzz_one {}'
}

# One source: a line that it is clean, or what clang-tidy says about it.
tidy_one() {
  local findings
  if findings=$(clang-tidy -p build/clang --quiet "$1" 2>/dev/null); then
    echo "clean: $1"
  else
    printf '%s\n' "FINDINGS: $1" "${findings:-$(clang-tidy -p build/clang --quiet "$1" 2>&1)}"
    return 1
  fi
}

# Everything but tests, and all of our headers that it includes. Takes compile commands, not a build.
part_tidy() {
  cmake --preset clang >build/clang.configure.log 2>&1 || { cat build/clang.configure.log; return 1; }
  export -f tidy_one
  sources | grep '\.cpp$' | grep -v '^tests/' | xargs -P "$jobs" -I {} bash -c 'tidy_one {}'
}

# Do the unit tests notice faults in actors/? An hour or so on two cores; goes on where it was stopped.
part_mutation() { /usr/bin/python3 tests/mutation/run.py --jobs "$jobs"; }

# The demo model's recipe in miniature: text, tokenizer, training, drafts, evaluation, export.
part_recipe() { deploy/install-deps.sh train && /usr/bin/python3 deploy/demo-model/train.py --smoke; }

default=(dependencies format includes release cuda system chart fuzz recipe)
full=("${default[@]}" heavy cuda_checked asan asan_system tsan)
if [ "${1:-}" = --quick ]; then
  wanted=(format includes dev)
elif [ "${1:-}" = --full ]; then
  wanted=("${full[@]}")
elif [ $# -gt 0 ]; then
  wanted=("$@")
else
  wanted=("${default[@]}")
fi

mkdir -p build
skipped=$(mktemp "$PWD/build/skipped.XXXXXX")
trap 'rm -f "$skipped"' EXIT
for name in "${wanted[@]}"; do
  if ! declare -F "part_$name" >/dev/null; then
    echo "tests/run.sh: unknown part '$name' (${full[*]} clang dev image tidy mutation)" >&2
    exit 2
  fi
  part "$name" "part_$name"
done
echo "all parts took $SECONDS s"
[ ${#failed[@]} -eq 0 ] || echo "failed: ${failed[*]}"
[ ! -s "$skipped" ] || { echo "skipped tests:"; sed 's/^/  /' "$skipped"; }
echo "${#passed[@]} passed, ${#failed[@]} failed, $(wc -l <"$skipped") skipped"
[ ${#failed[@]} -eq 0 ]
