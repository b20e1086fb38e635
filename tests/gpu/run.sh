#!/usr/bin/env bash
# Checks and measures the CUDA backend: built on one machine, run on another that has an H100 or H200.
#
#   tests/gpu/run.sh build      here: builds what the other machine needs, with the libraries that it may lack, packs it as
#                               build/cuda/gpu.tar.gz, and prints what that and the sources weigh (at most 64 MiB)
#   tests/gpu/run.sh            there, with build/cuda/gpu.tar.gz carried along with the sources: at most 7 minutes; logs
#                               go to build/gpu-logs and, packed anew after each step, to $OUT/logs.tar.gz; each step's
#                               end is printed at once, and a short table last
#   tests/gpu/run.sh compare    there, a second call: two stacks of layers against PyTorch, at most 5 minutes
#   tests/gpu/run.sh emulated   here, after `build`: the same steps with an emulated GPU, kernels included
#   tests/gpu/run.sh quick      the same in less than a minute: one model, one prompt (CI)
#
# The other machine needs its driver, cuBLAS 13 and NCCL (of CUDA or of PyTorch), Python, and compute-sanitizer for some
# of the steps. Its own programs run with its own libraries, and only what was carried with those that were carried. A
# step whose program is not there, or for which no time is left, is reported as such and fails. Each step has a limit;
# what does not even end when it is killed is left behind. The table comes last in any case, also after a SIGTERM.
set -uo pipefail
SECONDS=0 # a shell may pass its own on
cd "$(dirname "$0")/../.." || exit
carried=${TROUPE_GPU_CARRIED:-build/cuda/gpu} # run_script_test.py has its own
most_carried_kib=$((64 << 10))
program=$carried/gpu_check
checked=$carried/gpu_check_checked # with bounds checks in the kernels
nccl=$carried/nccl_check
models=$carried/gpu_model_check
troupe=$carried/troupe
engine_bench=$carried/engine_bench
device=cuda
logs=${TROUPE_GPU_LOGS:-build/gpu-logs}
seed=${TROUPE_GPU_SEED:-$RANDOM}
deadline=${TROUPE_GPU_SECONDS:-390} # from the start: all steps share them
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

# Not what troupe-template needs: it would look for all of Python, too, so the other machine serves without chat templates.
carry_libraries() {
  local name path
  mkdir -p "$carried/lib" "$carried/lib-of-compiler"
  ldd "$troupe" "$models" "$engine_bench" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u | while read -r name path; do
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
  if grep -q "^TROUPE_NCCL_INCLUDE_DIR:PATH=/" build/cuda/CMakeCache.txt; then # otherwise its step says that it is missing
    cmake --build build/cuda --target nccl_check && strip "$nccl" || return 1
  fi
  cmake --build build/cuda --target gpu_check_emulated cuda_model_emulated_test troupe_emulated || return 1
  cp build/cuda/bin/troupe build/cuda/tests/engine_bench "$carried" || return 1
  strip "$program" "$checked" "$models" "$troupe" "$engine_bench" || return 1
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

# folder_of LIBRARY: the first folder that has it, of CUDA, of PyTorch. None: the system's loader has to know one.
folder_of() {
  local library=$1 folder
  for folder in /usr/local/cuda/lib64 /usr/local/cuda-13*/lib64 /usr/local/cuda/lib \
    "$(timeout 20 python3 -c 'import nvidia, pathlib, sys; print(next(pathlib.Path(list(nvidia.__path__)[0]).rglob(sys.argv[1])).parent)' "$library" 2>/dev/null)"; do
    if [ -n "$folder" ] && [ -e "$folder/$library" ]; then
      echo "$folder"
      return
    fi
  done
}

# compute-sanitizer, wherever CUDA or Nsight has put it; without: its name.
find_sanitizer() {
  local found
  found=$(command -v compute-sanitizer || timeout 20 find -L /usr/local/cuda*/bin /usr/local/cuda*/compute-sanitizer /opt/nvidia \
    -name compute-sanitizer -type f -perm -u+x -print -quit 2>/dev/null)
  echo "${found:-compute-sanitizer}"
}

. tests/gpu/steps.sh

ops=()    # all that gpu_check has
limits=() # of the card

# The ops' tables as one, without what follows them: the part that begins with a line of this first word.
tables() {
  local op
  for op in "${ops[@]}"; do
    cat "$logs/check-$op.log" 2>/dev/null
  done | awk -v part="$1" '
    $1 == "op" || $1 == "time" { on = $1 == part; if (on && !begun++) print; next }
    /^$/ || /^(ALL RIGHT|SOMETHING)/ { on = 0 }
    on'
}

# The tables of the checks, then a line a step; the end of the output is what comes back for sure.
finish() {
  local code=$?
  trap - EXIT
  exec >&3
  [ "$code" -eq 0 ] || status=1
  echo
  tables time
  echo
  sed -n '/^device /p; /^copy /p' "$logs/limits.log" 2>/dev/null
  tables op
  echo
  grep -ahE '^(cuda|cpu)[^:]*: [0-9]+ tokens|greedy answers' "$logs/serve.log" "$logs/serve-modes.log" 2>/dev/null
  [ ! -e "$logs/compare.log" ] || tail -n 60 "$logs/compare.log"
  printf '%s\n' "${summary[@]}"
  pack_logs
  echo "all steps took $SECONDS s, $([ "$status" -eq 0 ] && echo "ALL RIGHT" || echo "SOMETHING IS WRONG")"
  exit "$status"
}

# What gpu_model_check runs on one device, and what on two kinds of devices.
whole_models='*cuda*:*graphs*:expert_slots*:*expert_memory*:*against_cpu.a_whole_model*:open_model_on_a_gpu*-*cuda_cpu*:*cpu_cuda*'
# What `serve` does by default is done otherwise: same answers.
other_modes="--gpu-steps kernels --gpu-expert-memory 3M"
mixed_models='*against_cpu.attention_there*:*cuda_cpu*:*cpu_cuda*'

# What the loader does not find of what carried programs need.
missing_libraries() {
  local libraries=$1 one missing=0
  shift
  for one in "$@"; do
    /lib64/ld-linux-x86-64.so.2 --library-path "$libraries" --list "$one" >"$logs/loaded" 2>&1 && ! grep 'not found' "$logs/loaded" && continue
    echo "WRONG: $one does not find all of its libraries:"
    cat "$logs/loaded"
    missing=1
  done
  return "$missing"
}

# The ops, and what the card can do at most: measured once for all of them.
begin_ops() {
  local measured
  mapfile -t ops < <("$@" --list)
  groups=("${ops[@]}")
  step limits 30 "$@" --measure
  measured=$(sed -n 's|^copy on the device: \([1-9][0-9]*\) GB/s.* product: \([1-9][0-9]*\) TFLOP/s$|\1,\2|p' "$logs/limits.log" 2>/dev/null)
  limits=(--limits "${measured:-3000,800}") # or an H100's
}

# Under a tool a process takes long to start: those that were right in the last step share one, the others have their own.
group_ops() {
  local op right=""
  for op in "${ops[@]}"; do
    [[ " ${failed[*]} " == *" $op "* ]] || right+=,$op
  done
  groups=(${right:+"${right#,}"} "${failed[@]}")
}

# What was carried, and where its programs find libraries: `cuda`, which begins with a colon, for those that need nothing
# else, `libraries`.
unpack() {
  local library folder
  if [ -e "$carried.tar.gz" ]; then
    rm -rf "$carried"
    mkdir -p "$carried"
    tar -C "$carried" -xzf "$carried.tar.gz" || status=1
  fi
  [ ! -d "$carried/models" ] || export TEST_MODELS_FOLDER=$PWD/$carried/models
  # For the carried programs alone: others, Python above all, need the machine's own.
  cuda=${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  for library in libnccl.so.2 libcublas.so.13; do
    folder=$(folder_of "$library")
    case $cuda: in
    *":$folder:"*) ;;
    *) cuda=${folder:+:$folder}$cuda ;;
    esac
  done
  libraries=$PWD/$carried/lib$cuda
  case $(ldconfig -p) in
  *libstdc++.so.6*) ;;
  *) libraries+=:$PWD/$carried/lib-of-compiler ;;
  esac
}

check() {
  local cuda libraries sanitizer with_cuda with_carried serve ours
  begin
  unpack
  with_cuda=(env "LD_LIBRARY_PATH=${cuda#:}")
  with_carried=(env "LD_LIBRARY_PATH=$libraries")
  sanitizer=$(find_sanitizer)
  step gpu 20 nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv,noheader
  cat "$logs/gpu.log" 2>/dev/null
  export -f missing_libraries
  export logs
  step libraries 10 bash -c 'missing_libraries "$@"' - "$libraries" "$program" "$checked" "$models" "$troupe"
  begin_ops "${with_cuda[@]}" "$program"
  ops_step check 110 40 "${with_cuda[@]}" "$program" --times "${limits[@]}" --seed "$seed"
  group_ops
  model_step models 70 "${with_carried[@]}" "$models" --gtest_brief=1 --gtest_filter="$whole_models"
  model_step mixed 40 "${with_carried[@]}" "$models" --gtest_brief=1 --gtest_filter="$mixed_models"
  # The server gets the libraries, not Python.
  serve=(env "TROUPE_LIBRARIES=$libraries" python3 tests/gpu/serve_check.py "$troupe" deploy/demo-model/model)
  step serve 60 "${serve[@]}" "$device" cpu
  # Small shapes: these tools are slow. Of cuBLAS, racecheck reports what is none.
  sanitizer=("$sanitizer" --launch-timeout 60 --error-exitcode 9)
  ours=(--kernel-name kns=troupe)
  ops_step memcheck 60 60 "${with_cuda[@]}" "${sanitizer[@]}" --tool memcheck --report-api-errors no "$checked" --small --seed "$seed"
  group_ops
  ops_step racecheck 50 50 "${with_cuda[@]}" "${sanitizer[@]}" --tool racecheck "${ours[@]}" "$checked" --small --seed "$seed"
  group_ops
  step serve-modes 40 "${serve[@]}" "$device $other_modes" "$device"
  step model-memcheck 40 "${with_carried[@]}" "${sanitizer[@]}" --tool memcheck --report-api-errors no "$models" --gtest_brief=1 \
    --gtest_filter='*against_cpu.a_whole_model/qwen2*'
  step nccl 30 "${with_cuda[@]}" "$nccl"
  ops_step initcheck 30 30 "${with_cuda[@]}" "${sanitizer[@]}" --tool initcheck "${ours[@]}" "$checked" --small --seed "$seed"
  groups=("${ops[@]}")
  ops_step check-again 60 30 "${with_cuda[@]}" "$program" --seed "$((seed + 1))"
}

# Against PyTorch on the same card: the second call. It ends by itself before its time is over, and prints its table.
compare() {
  deadline=${TROUPE_GPU_SECONDS:-285} # and the time that a step takes to die
  begin
  unpack
  step gpu 20 nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv,noheader
  cat "$logs/gpu.log" 2>/dev/null
  step compare "$deadline" env "TROUPE_LIBRARIES=$libraries" PYTHONUNBUFFERED=1 python3 tests/gpu/torch_compare_gpu.py \
    "$engine_bench" --json "$logs/compare.json" --seconds "$((deadline - SECONDS - 15))"
}

use_emulation() {
  program=build/cuda/tests/gpu_check_emulated
  models=build/cuda/tests/cuda_model_emulated_test
  troupe=build/cuda/tests/troupe_emulated
  logs=${TROUPE_GPU_LOGS:-build/gpu-logs-$1}
  begin
  echo "no GPU is used: its kernels run on the host"
}

# The same steps without a GPU: what is looked for by compute-sanitizer there, other orders of threads look for here.
emulated() {
  deadline=3600
  use_emulation emulated
  begin_ops "$program"
  ops_step check 900 900 "$program" --small --times "${limits[@]}" --seed "$seed"
  model_step models 1200 "$models" --gtest_brief=1 --gtest_filter="$whole_models"
  model_step mixed 900 "$models" --gtest_brief=1 --gtest_filter="$mixed_models"
  step serve 600 python3 tests/gpu/serve_check.py "$troupe" deploy/demo-model/model "$device" cpu 2 4
  step serve-modes 600 python3 tests/gpu/serve_check.py "$troupe" deploy/demo-model/model "$device $other_modes" "$device" 2 4
  ops_step falling 900 900 "$program" --small --seed "$seed" --order falling
  ops_step mixed-order 900 900 "$program" --small --seed "$seed" --order mixed
  ops_step check-again 900 900 "$program" --small --seed "$((seed + 1))"
}

# Each kind of step once.
quick() {
  use_emulation quick
  begin_ops "$program"
  ops_step check 120 120 "$program" --small --times "${limits[@]}" --seed "$seed"
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
  sed -n '2,16p' "$0" >&2
  exit 2
  ;;
esac
