#!/usr/bin/env bash
# Checks and measures the CUDA backend: built on one machine, run on another that has an H100 or H200.
#
#   tests/gpu/run.sh build      here: builds what the other machine needs into build/release/gpu (some 10 MB)
#   tests/gpu/run.sh            there, with build/release/gpu carried along: at most 7 minutes; logs go to $OUT or
#                               build/gpu-logs, and a short table is printed last
#   tests/gpu/run.sh emulated   anywhere, after a release build: the same steps on the host, kernels included
#
# The other machine needs its driver, cuBLAS 13 (of CUDA or of PyTorch), and compute-sanitizer for two of the steps;
# a step whose program is not there is reported as such and fails.
set -uo pipefail
cd "$(dirname "$0")/../.."
program=build/release/gpu/gpu_check
checked=build/release/gpu/gpu_check_checked # with bounds checks in the kernels
logs=${OUT:-build/gpu-logs}
seed=${TROUPE_GPU_SEED:-$RANDOM}

build() {
  cmake --preset release -DTROUPE_CUDA=ON || return 1
  cmake --build --preset release --target gpu_check gpu_check_checked gpu_check_emulated
}

# Folders with libcublas.so.13: of the system, of CUDA, of PyTorch.
cublas_folders() {
  local folder
  for folder in /usr/local/cuda/lib64 /usr/local/cuda-13*/lib64 \
    "$(python3 -c 'import nvidia, pathlib; print(next(pathlib.Path(nvidia.__path__[0]).rglob("libcublas.so.13")).parent)' 2>/dev/null)"; do
    [ -n "$folder" ] && [ -e "$folder/libcublas.so.13" ] && printf '%s:' "$folder"
  done
}

status=0
summary=()

# step NAME SECONDS COMMAND...: runs it with a limit and its output in a log; remembers how it ended.
step() {
  local name=$1 limit=$2 begin=$SECONDS code=0
  shift 2
  if ! command -v "$1" >/dev/null; then
    summary+=("$name: NOT RUN, there is no $1")
    status=1
    return
  fi
  timeout --kill-after=10 "$limit" "$@" >"$logs/$name.log" 2>&1 || code=$?
  if [ "$code" -eq 0 ]; then
    summary+=("$name: ok, $((SECONDS - begin)) s")
  else
    summary+=("$name: FAILED with status $code after $((SECONDS - begin)) s")
    status=1
    grep -m 20 -E 'WRONG|failed|=========|out of bounds' "$logs/$name.log" || tail -n 20 "$logs/$name.log"
  fi
}

begin() {
  mkdir -p "$logs"
  rm -f "$logs"/*.log
}

# The table of the first step, then a line a step.
finish() {
  echo
  sed -n '/^device /p; /^copy /p; /^op  /,$p' "$logs/check.log"
  printf '%s\n' "${summary[@]}"
  return "$status"
}

check() {
  begin
  LD_LIBRARY_PATH=$(cublas_folders)${LD_LIBRARY_PATH:-}
  export LD_LIBRARY_PATH
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv,noheader || status=1
  step check 180 "$program" --times --seed "$seed"
  step check-again 60 "$program" --seed "$((seed + 1))"
  # Small shapes: these tools are slow.
  step memcheck 80 compute-sanitizer --tool memcheck --error-exitcode 9 "$checked" --small --seed "$seed"
  step racecheck 60 compute-sanitizer --tool racecheck --error-exitcode 9 "$checked" --small --seed "$seed"
  step initcheck 30 compute-sanitizer --tool initcheck --error-exitcode 9 "$checked" --small --seed "$seed"
  finish
}

# The same steps without a GPU: what is looked for by compute-sanitizer there, other orders of threads look for here.
emulated() {
  program=build/release/tests/gpu_check_emulated
  begin
  step check 900 "$program" --small --times --seed "$seed"
  step check-again 900 "$program" --small --seed "$((seed + 1))"
  step falling 900 "$program" --small --seed "$seed" --order falling
  step mixed 900 "$program" --small --seed "$seed" --order mixed
  finish
}

case "${1:-check}" in
build) build ;;
emulated) emulated ;;
check) check ;;
*)
  sed -n '2,10p' "$0" >&2
  exit 2
  ;;
esac
