#!/usr/bin/env bash
# Checks and measures the CUDA backend: built on one machine, run on another that has an H100 or H200.
#
#   tests/gpu/run.sh build      here: builds what the other machine needs into build/cuda/gpu, with the libraries that it
#                               may lack, and prints what that weighs (at most 64 MiB)
#   tests/gpu/run.sh            there, with build/cuda/gpu carried along: at most 7 minutes; logs go to $OUT or
#                               build/gpu-logs, and a short table is printed last
#   tests/gpu/run.sh emulated   here, after `build`: the same steps with an emulated GPU, kernels included
#
# The other machine needs its driver, cuBLAS 13 (of CUDA or of PyTorch), Python, and compute-sanitizer for some of the
# steps. A step whose program is not there, or for which no time is left, is reported as such and fails.
set -uo pipefail
cd "$(dirname "$0")/../.."
carried=build/cuda/gpu
most_carried_kib=$((64 << 10))
program=$carried/gpu_check
checked=$carried/gpu_check_checked # with bounds checks in the kernels
models=$carried/gpu_model_check
troupe=$carried/troupe
device=cuda
logs=${OUT:-build/gpu-logs}
seed=${TROUPE_GPU_SEED:-$RANDOM}
deadline=410 # seconds from the start: all steps share them
export TEST_MODELS_FOLDER=$PWD/$carried/models

# Which random models gpu_model_check asks for.
variants="mixtral mixtral_tied mixtral_window olmoe olmoe_bias qwen2 qwen2_dense_layers qwen3 qwen3_yarn"

# Libraries that every machine has, in versions that fit one another; and those that belong to its driver and CUDA.
is_of_every_machine() {
  case $1 in
  ld-linux* | libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | libcublas*) return 0 ;;
  *) return 1 ;;
  esac
}

carry_libraries() {
  local name path
  mkdir -p "$carried/lib" "$carried/lib-of-compiler"
  ldd "$troupe" "$models" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u | while read -r name path; do
    is_of_every_machine "$name" && continue
    case $name in
    libstdc++* | libgcc_s*) cp -L "$path" "$carried/lib-of-compiler/$name" ;; # where there are none
    *) cp -L "$path" "$carried/lib/$name" && chmod u+w "$carried/lib/$name" && strip --strip-unneeded "$carried/lib/$name" ;;
    esac
  done
}

# What is built, without symbols, and all that it needs.
build() {
  local variant kib
  rm -rf "$carried"
  cmake --preset release -DTROUPE_CUDA=ON -B build/cuda || return 1
  cmake --build build/cuda --target gpu_check gpu_check_checked gpu_model_check troupe || return 1
  cmake --build build/cuda --target gpu_check_emulated cuda_model_emulated_test troupe_emulated || return 1
  cp build/cuda/bin/troupe "$troupe" || return 1
  strip "$program" "$checked" "$models" "$troupe" || return 1
  carry_libraries || return 1
  for variant in $variants; do
    /usr/bin/python3 -B tests/reference/make_model.py --variant "$variant" --seed 1 --out "$carried/models/$variant" >/dev/null || return 1
  done
  du -sk --apparent-size "$carried"/* | sort -rn | awk '{ printf "%8.1f MiB  %s\n", $1 / 1024, $2 }'
  kib=$(du -sk --apparent-size "$carried" | cut -f1)
  awk -v kib="$kib" -v most="$most_carried_kib" 'BEGIN { printf "%8.1f MiB  in all, of %d\n", kib / 1024, most / 1024 }'
  [ "$kib" -le "$most_carried_kib" ] || { echo "too large to be carried" >&2; return 1; }
}

# Folders with libcublas.so.13: of the system, of CUDA, of PyTorch.
cublas_folders() {
  local folder
  for folder in /usr/local/cuda/lib64 /usr/local/cuda-13*/lib64 \
    "$(python3 -c 'import nvidia, pathlib; print(next(pathlib.Path(list(nvidia.__path__)[0]).rglob("libcublas.so.13")).parent)' 2>/dev/null)"; do
    [ -n "$folder" ] && [ -e "$folder/libcublas.so.13" ] && printf '%s:' "$folder"
  done
}

status=0
summary=()

note() {
  summary+=("$(printf '%-14s %s' "$1" "$2")")
}

# step NAME SECONDS COMMAND...: runs it with a limit and its output in a log; remembers how it ended.
step() {
  local name=$1 limit=$2 begin=$SECONDS code=0 left=$((deadline - SECONDS))
  shift 2
  if ! command -v "$1" >/dev/null; then
    note "$name" "NOT RUN: there is no $1"
    status=1
    return
  fi
  if [ "$left" -lt 10 ]; then
    note "$name" "NOT RUN: no time was left"
    status=1
    return
  fi
  [ "$limit" -le "$left" ] || limit=$left
  timeout --kill-after=10 "$limit" "$@" >"$logs/$name.log" 2>&1 || code=$?
  if [ "$code" -eq 0 ]; then
    note "$name" "ok, $((SECONDS - begin)) s"
  else
    [ "$code" -ne 124 ] || code="124 (its $limit s were over)"
    note "$name" "FAILED with status $code after $((SECONDS - begin)) s"
    status=1
    echo "---- $name"
    grep -m 20 -aE 'WRONG|FAILED|failed|=========|out of bounds' "$logs/$name.log" || tail -n 20 "$logs/$name.log"
  fi
}

# Tests of whole models; none is a failure, too.
model_step() {
  local name=$1 limit=$2 passed
  shift 2
  step "$name" "$limit" "$@"
  passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests\{0,1\}\.$/\1/p' "$logs/$name.log" 2>/dev/null)
  note "" "${passed:-0} tests of whole models passed"
  [ "${passed:-0}" -gt 0 ] || status=1
}

begin() {
  mkdir -p "$logs"
  rm -f "$logs"/*.log
}

# The table of the first step, then a line a step.
finish() {
  echo
  sed -n '/^device /p; /^copy /p; /^op  /,$p' "$logs/check.log" 2>/dev/null
  echo
  [ ! -s "$logs/serve.log" ] || grep -aE '^(cuda|cpu)[:0-9]*: |greedy answers' "$logs/serve.log"
  printf '%s\n' "${summary[@]}"
  echo "all steps took $SECONDS s"
  return "$status"
}

check() {
  begin
  LD_LIBRARY_PATH=$PWD/$carried/lib:$(cublas_folders)${LD_LIBRARY_PATH:-}
  ldconfig -p | grep -q 'libstdc++\.so\.6' || LD_LIBRARY_PATH+=:$PWD/$carried/lib-of-compiler
  export LD_LIBRARY_PATH
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv,noheader || status=1
  step check 120 "$program" --times --seed "$seed"
  model_step models 90 "$models" --gtest_brief=1 --gtest_filter='*cuda*:*against_cpu*:open_model_on_a_gpu*'
  step serve 60 python3 tests/gpu/serve_check.py "$troupe" deploy/demo-model/model "$device" cpu
  # Small shapes: these tools are slow.
  step memcheck 60 compute-sanitizer --tool memcheck --error-exitcode 9 "$checked" --small --seed "$seed"
  step racecheck 50 compute-sanitizer --tool racecheck --error-exitcode 9 "$checked" --small --seed "$seed"
  step model-memcheck 40 compute-sanitizer --tool memcheck --error-exitcode 9 "$models" --gtest_brief=1 --gtest_filter='*against_cpu.a_whole_model/qwen2*'
  step initcheck 30 compute-sanitizer --tool initcheck --error-exitcode 9 "$checked" --small --seed "$seed"
  step check-again 60 "$program" --seed "$((seed + 1))"
  finish
}

# The same steps without a GPU: what is looked for by compute-sanitizer there, other orders of threads look for here.
emulated() {
  program=build/cuda/tests/gpu_check_emulated
  models=build/cuda/tests/cuda_model_emulated_test
  troupe=build/cuda/tests/troupe_emulated
  deadline=3600
  begin
  echo "no GPU is used: its kernels run on the host"
  step check 900 "$program" --small --times --seed "$seed"
  model_step models 1200 "$models" --gtest_brief=1 --gtest_filter='*cuda*:*against_cpu*:open_model_on_a_gpu*'
  step serve 600 python3 tests/gpu/serve_check.py "$troupe" deploy/demo-model/model "$device" cpu 2 4
  step falling 900 "$program" --small --seed "$seed" --order falling
  step mixed 900 "$program" --small --seed "$seed" --order mixed
  step check-again 900 "$program" --small --seed "$((seed + 1))"
  finish
}

case "${1:-check}" in
build) build ;;
emulated) emulated ;;
check) check ;;
*)
  sed -n '2,12p' "$0" >&2
  exit 2
  ;;
esac
