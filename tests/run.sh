#!/usr/bin/env bash
# Builds everything and runs all tests; the one test command.
#
#   tests/run.sh               what CI runs: release build, all tests, whole processes, the model recipe in miniature
#   tests/run.sh --full        that, and the slow builds: clang++ with fuzzers, sanitizers, clang-tidy
#   tests/run.sh --quick       what a developer's loop needs: format, include rules, dev build, unit tests
#   tests/run.sh PART...       only these parts (see the list at the end of this file)
#
# Each part prints how long it took. The last line counts parts: 'N passed, N failed'.
set -uo pipefail
cd "$(dirname "$0")/.."
export CCACHE_NOHASHDIR=1 # objects are shared between the build folders of one checkout
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1}
export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$PWD/tests/lsan.supp:print_suppressions=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-suppressions=$PWD/tests/tsan.supp:halt_on_error=1}
jobs=${TROUPE_TEST_JOBS:-$(nproc)}
fuzz_seconds=${TROUPE_FUZZ_SECONDS:-60}

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

sources() { git ls-files '*.cpp' '*.hpp'; }

part_dependencies() { deploy/install-deps.sh build test; }

part_format() { sources | xargs clang-format --dry-run -Werror; }

part_includes() { /usr/bin/python3 tests/check_includes.py; }

build() { cmake --preset "$1" >"build/$1.configure.log" 2>&1 || { cat "build/$1.configure.log"; return 1; }
  shift
  cmake --build "$@"; }

part_release() { build release --preset release --target all -- -k 0 && ctest --test-dir build/release -j "$jobs" --output-on-failure -LE slow --no-tests=error; }

part_dev() { build dev --preset dev && ctest --test-dir build/dev -j "$jobs" --output-on-failure -L unit --no-tests=error; }

# The programs as their users run them: real processes, real sockets, real signals.
part_system() { ctest --test-dir build/release --output-on-failure -L slow --no-tests=error; }

part_asan() { build asan --preset asan -- -k 0 && ctest --test-dir build/asan -j "$jobs" --output-on-failure -LE slow --no-tests=error; }

part_tsan() { build tsan --preset tsan -- -k 0 && ctest --test-dir build/tsan -j "$jobs" --output-on-failure -L tsan --no-tests=error; }

# clang++ with warnings as errors, and the fuzzers, which need it.
part_clang() { build clang --preset clang -- -k 0; }

part_fuzz() {
  local target failures=0
  for target in build/clang/fuzz/*_fuzz; do
    local name corpus
    name=$(basename "$target")
    corpus=build/clang/corpus/$name
    mkdir -p "$corpus" "tests/fuzz/corpus/$name"
    if "$target" -max_total_time="$fuzz_seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=0 \
      -artifact_prefix="build/clang/$name-" "$corpus" "tests/fuzz/corpus/$name" >"build/clang/$name.log" 2>&1; then
      echo "$name: ${fuzz_seconds} s, $(grep -o '#[0-9]*' "build/clang/$name.log" | tail -1 | tr -d '#') inputs"
    else
      tail -40 "build/clang/$name.log"
      failures=$((failures + 1))
    fi
  done
  [ "$failures" -eq 0 ]
}

part_tidy() { cmake --preset dev >/dev/null && sources | grep '\.cpp$' | grep -v '^tests/' \
  | xargs -P "$jobs" -n 4 clang-tidy -p build/dev --quiet --warnings-as-errors='*' 2>/dev/null; }

# The demo model's recipe in miniature: text, tokenizer, training, drafts, evaluation, export.
part_recipe() { deploy/install-deps.sh train && /usr/bin/python3 deploy/demo-model/train.py --smoke; }

default=(dependencies format includes release system recipe)
full=("${default[@]}" clang fuzz asan tsan tidy)
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
for name in "${wanted[@]}"; do
  if ! declare -F "part_$name" >/dev/null; then
    echo "tests/run.sh: unknown part '$name' (${full[*]} dev)" >&2
    exit 2
  fi
  part "$name" "part_$name"
done
echo "all parts took $SECONDS s"
[ ${#failed[@]} -eq 0 ] || echo "failed: ${failed[*]}"
echo "${#passed[@]} passed, ${#failed[@]} failed"
[ ${#failed[@]} -eq 0 ]
