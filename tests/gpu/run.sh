#!/usr/bin/env bash
# Checks and measures the CUDA backend: built on one machine, run on another that has an H100 or H200.
#
#   tests/gpu/run.sh build      here: builds what the other machine needs, with the libraries that it may lack, packs it as
#                               build/cuda/gpu.tar.gz, and prints what that and the sources weigh (at most 64 MiB)
#   tests/gpu/run.sh            there, with build/cuda/gpu.tar.gz carried along with the sources: at most 7 minutes; logs
#                               go to $OUT or build/gpu-logs, and a short table is printed last
#   tests/gpu/run.sh compare    there, a second call: two stacks of layers against PyTorch, at most 5 minutes
#   tests/gpu/run.sh emulated   here, after `build`: the same steps with an emulated GPU, kernels included
#   tests/gpu/run.sh quick      the same in less than a minute: one model, one prompt (CI)
#
# The other machine needs its driver, cuBLAS 13 (of CUDA or of PyTorch), Python, and compute-sanitizer for some of the
# steps. A step whose program is not there, or for which no time is left, is reported as such and fails. Each step has a
# limit; what does not even end when it is killed is left behind. The table comes last in any case, also after a SIGTERM.
set -uo pipefail
SECONDS=0 # a shell may pass its own on
cd "$(dirname "$0")/../.."
carried=${TROUPE_GPU_CARRIED:-build/cuda/gpu} # run_script_test.py has its own
most_carried_kib=$((64 << 10))
program=$carried/gpu_check
checked=$carried/gpu_check_checked # with bounds checks in the kernels
models=$carried/gpu_model_check
troupe=$carried/troupe
engine_bench=$carried/engine_bench
device=cuda
logs=${OUT:-build/gpu-logs}
seed=${TROUPE_GPU_SEED:-$RANDOM}
deadline=${TROUPE_GPU_SECONDS:-390} # from the start: all steps share them
to_die=10                           # seconds between SIGTERM and SIGKILL, and again until a step is left behind
# Random models that `build` has made; where there are none, tests make their own.
[ ! -d "$carried/models" ] || export TEST_MODELS_FOLDER=$PWD/$carried/models

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
  ldd "$troupe" "$carried/troupe-template" "$models" "$engine_bench" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u | while read -r name path; do
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
  cmake --build build/cuda --target gpu_check gpu_check_checked gpu_model_check troupe engine_bench || return 1
  cmake --build build/cuda --target gpu_check_emulated cuda_model_emulated_test troupe_emulated || return 1
  cp build/cuda/bin/troupe build/cuda/bin/troupe-template build/cuda/tests/engine_bench "$carried" || return 1
  strip "$program" "$checked" "$models" "$troupe" "$engine_bench" "$carried/troupe-template" || return 1
  carry_libraries || return 1
  for variant in $variants; do
    /usr/bin/python3 -B tests/reference/make_model.py --variant "$variant" --seed 1 --out "$carried/models/$variant" >/dev/null || return 1
  done
  du -sk --apparent-size "$carried"/* | sort -rn | awk '{ printf "%8.1f MiB  %s\n", $1 / 1024, $2 }'
  tar -C "$carried" -czf "$carried.tar.gz" . || return 1
  # Packed, and what Git tracks or does not ignore.
  kib=$({ printf '%s\0' "$carried.tar.gz"; git ls-files -zco --exclude-standard; } | du -ck --apparent-size --files0-from=- | tail -n 1 | cut -f1)
  awk -v kib="$kib" -v most="$most_carried_kib" 'BEGIN { printf "%8.1f MiB  packed and with the sources, of %d\n", kib / 1024, most / 1024 }'
  [ "$kib" -le "$most_carried_kib" ] || { echo "too large to be carried" >&2; return 1; }
}

# Folders with libcublas.so.13: of the system, of CUDA, of PyTorch.
cublas_folders() {
  local folder
  for folder in /usr/local/cuda/lib64 /usr/local/cuda-13*/lib64 \
    "$(timeout 20 python3 -c 'import nvidia, pathlib; print(next(pathlib.Path(list(nvidia.__path__)[0]).rglob("libcublas.so.13")).parent)' 2>/dev/null)"; do
    [ -n "$folder" ] && [ -e "$folder/libcublas.so.13" ] && printf '%s:' "$folder"
  done
}

status=0
summary=()

note() {
  summary+=("$(printf '%-14s %s' "$1" "$2")")
}

running="" # what run_limited waits for
guard=""   # what ends when that should long have ended

# run_limited SECONDS COMMAND...: its status; 124 or 137 when it had to be stopped, 125 when it could not be.
run_limited() {
  local limit=$1 ended=0
  shift
  # Neither keeps the script's own output open.
  timeout --kill-after="$to_die" "$limit" "$@" 3>&- &
  running=$!
  sleep "$((limit + 2 * to_die))" >/dev/null 2>&1 3>&- &
  guard=$!
  wait -n -p ended "$running" "$guard"
  local code=$?
  if [ "$ended" = "$guard" ]; then
    code=125
  else
    kill "$guard" 2>/dev/null
  fi
  running=""
  return "$code"
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
  run_limited "$limit" "$@" >"$logs/$name.log" 2>&1 || code=$?
  if [ "$code" -eq 0 ]; then
    note "$name" "ok, $((SECONDS - begin)) s"
  else
    case $code in
    124 | 137) code="$code (its $limit s were over)" ;;
    125) code="125 (it did not end when killed, and was left behind)" ;;
    esac
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
  exec 3>&1 # a signal may come while the output goes to a log
  trap finish EXIT
  trap stop TERM INT HUP
}

stop() {
  trap '' TERM INT HUP
  [ -z "$running" ] || kill -TERM "$running" "$guard" 2>/dev/null
  note "stopped" "by a signal; what follows was NOT RUN"
  exit 1
}

# The tables of the first step, then a line a step; the end of the output is what comes back for sure.
finish() {
  local code=$?
  trap - EXIT
  exec >&3
  [ "$code" -eq 0 ] || status=1
  echo
  sed -n '/^time  /,$p' "$logs/check.log" 2>/dev/null
  echo
  sed -n '/^device /p; /^copy /p; /^op  /,/^$/p' "$logs/check.log" 2>/dev/null
  echo
  grep -ahE '^(cuda|cpu)[^:]*: [0-9]+ tokens|greedy answers' "$logs/serve.log" "$logs/serve-modes.log" 2>/dev/null
  [ ! -e "$logs/compare.log" ] || tail -n 60 "$logs/compare.log"
  printf '%s\n' "${summary[@]}"
  # Few files come back from there.
  [ -z "${OUT:-}" ] || { (cd "$logs" && tar -czf logs.tar.gz ./*.log && rm -f ./*.log); }
  echo "all steps took $SECONDS s, $([ "$status" -eq 0 ] && echo "ALL RIGHT" || echo "SOMETHING IS WRONG")"
  exit "$status"
}

# What gpu_model_check runs on one device, and what on two kinds of devices.
whole_models='*cuda*:*graphs*:expert_slots*:*expert_memory*:*against_cpu.a_whole_model*:open_model_on_a_gpu*-*cuda_cpu*:*cpu_cuda*'
# What `serve` does by default is done otherwise: same answers.
other_modes="--gpu-steps kernels --gpu-expert-memory 3M"
mixed_models='*against_cpu.attention_there*:*cuda_cpu*:*cpu_cuda*'

check() {
  begin
  if [ -e "$carried.tar.gz" ]; then
    rm -rf "$carried"
    mkdir -p "$carried"
    tar -C "$carried" -xzf "$carried.tar.gz" || status=1
  fi
  [ ! -d "$carried/models" ] || export TEST_MODELS_FOLDER=$PWD/$carried/models
  LD_LIBRARY_PATH=$PWD/$carried/lib:$(cublas_folders)${LD_LIBRARY_PATH:-}
  ldconfig -p | grep -q 'libstdc++\.so\.6' || LD_LIBRARY_PATH+=:$PWD/$carried/lib-of-compiler
  export LD_LIBRARY_PATH PATH=$PATH:/usr/local/cuda/bin
  step gpu 20 nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv,noheader
  cat "$logs/gpu.log" 2>/dev/null
  step check 100 "$program" --times --seed "$seed" --seconds 90
  model_step models 70 "$models" --gtest_brief=1 --gtest_filter="$whole_models"
  model_step mixed 40 "$models" --gtest_brief=1 --gtest_filter="$mixed_models"
  step serve 60 python3 tests/gpu/serve_check.py "$troupe" deploy/demo-model/model "$device" cpu
  step serve-modes 40 python3 tests/gpu/serve_check.py "$troupe" deploy/demo-model/model "$device $other_modes" "$device"
  # Small shapes: these tools are slow.
  step memcheck 60 compute-sanitizer --tool memcheck --error-exitcode 9 "$checked" --small --seed "$seed"
  step racecheck 50 compute-sanitizer --tool racecheck --error-exitcode 9 "$checked" --small --seed "$seed"
  step model-memcheck 40 compute-sanitizer --tool memcheck --error-exitcode 9 "$models" --gtest_brief=1 --gtest_filter='*against_cpu.a_whole_model/qwen2*'
  step initcheck 30 compute-sanitizer --tool initcheck --error-exitcode 9 "$checked" --small --seed "$seed"
  step check-again 60 "$program" --seed "$((seed + 1))" --seconds 50
}

# Against PyTorch on the same card: the second call. It ends by itself before its time is over, and prints its table.
compare() {
  deadline=${TROUPE_GPU_SECONDS:-285} # and the time that a step takes to die
  begin
  if [ -e "$carried.tar.gz" ]; then
    rm -rf "$carried"
    mkdir -p "$carried"
    tar -C "$carried" -xzf "$carried.tar.gz" || status=1
  fi
  # For engine_bench alone: Python needs the machine's own.
  local libraries
  libraries=$PWD/$carried/lib:$(cublas_folders)${LD_LIBRARY_PATH:-}
  ldconfig -p | grep -q 'libstdc++\.so\.6' || libraries+=:$PWD/$carried/lib-of-compiler
  step gpu 20 nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv,noheader
  cat "$logs/gpu.log" 2>/dev/null
  step compare "$deadline" env "TROUPE_LIBRARIES=$libraries" PYTHONUNBUFFERED=1 python3 tests/gpu/torch_compare_gpu.py \
    "$engine_bench" --json "$logs/compare.json" --seconds "$((deadline - SECONDS - 15))"
}

use_emulation() {
  program=build/cuda/tests/gpu_check_emulated
  models=build/cuda/tests/cuda_model_emulated_test
  troupe=build/cuda/tests/troupe_emulated
  logs=${OUT:-build/gpu-logs-$1}
  begin
  echo "no GPU is used: its kernels run on the host"
}

# The same steps without a GPU: what is looked for by compute-sanitizer there, other orders of threads look for here.
emulated() {
  deadline=3600
  use_emulation emulated
  step check 900 "$program" --small --times --seed "$seed"
  model_step models 1200 "$models" --gtest_brief=1 --gtest_filter="$whole_models"
  model_step mixed 900 "$models" --gtest_brief=1 --gtest_filter="$mixed_models"
  step serve 600 python3 tests/gpu/serve_check.py "$troupe" deploy/demo-model/model "$device" cpu 2 4
  step serve-modes 600 python3 tests/gpu/serve_check.py "$troupe" deploy/demo-model/model "$device $other_modes" "$device" 2 4
  step falling 900 "$program" --small --seed "$seed" --order falling
  step mixed-order 900 "$program" --small --seed "$seed" --order mixed
  step check-again 900 "$program" --small --seed "$((seed + 1))"
}

# Each kind of step once.
quick() {
  use_emulation quick
  step check 120 "$program" --small --times --seed "$seed"
  model_step models 60 "$models" --gtest_brief=1 --gtest_filter='*against_cpu.a_whole_model/mixtral_none'
  model_step mixed 60 "$models" --gtest_brief=1 --gtest_filter='*against_cpu.attention_there*/mixtral_none'
  step serve 120 python3 tests/gpu/serve_check.py "$troupe" deploy/demo-model/model "$device" cpu 1 2
}

case "${1:-check}" in
build) build ;;
emulated) emulated ;;
quick) quick ;;
check) check ;;
compare) compare ;;
*)
  sed -n '2,17p' "$0" >&2
  exit 2
  ;;
esac
