#!/bin/bash
# Runs our engine and a built ik_llama.cpp on the same synthetic model and prints medians, ratios and computed floors.
#
#   tests/bench/peer.sh --peer DIR [--peer-build DIR/build] [--build build/release] [--work DIR] [--variant shape_a]
#                       [any argument of peer.py, e.g. --columns "16 bit,int8" --rounds 5 --threads 2 --json FILE]
#
# DIR is the peer's source folder. Models are written to the work folder once: shape_a needs 21 GB there, shape_b (whose
# 16-bit column needs 30 GB of memory: leave it out) 60 GB; BF16.gguf may go when the columns' other types are there.
set -euo pipefail
cd "$(dirname "$0")/../.."

peer= peer_build= build=build/release work=${TMPDIR:-/tmp}/troupe-peer variant=shape_a columns="16 bit,int8,int4"
rest=()
while [ $# -gt 0 ]; do
  case $1 in
    --peer) peer=$2; shift 2 ;;
    --peer-build) peer_build=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --work) work=$2; shift 2 ;;
    --variant) variant=$2; shift 2 ;;
    --columns) columns=$2; shift 2 ;;
    -h | --help) sed -n '2,/^set/{/^#/s/^# \?//p}' "$0"; exec /usr/bin/python3 tests/bench/peer.py --help ;;
    *) rest+=("$1"); shift ;;
  esac
done
[ -n "$peer" ] || { echo "peer.sh: give --peer DIR, a built ik_llama.cpp (see --help)" >&2; exit 2; }
: "${peer_build:=$peer/build}"
for needed in "$peer/include/llama.h" "$peer_build/bin/llama-quantize" "$peer_build/src/libllama.so"; do
  [ -e "$needed" ] || { echo "peer.sh: no $needed: build the peer first" >&2; exit 2; }
done

cmake --build "$build" --target engine_bench >&2 # by name alone, so that it is not of another commit
mkdir -p "$work"
model=$work/$variant
g++ -std=c++20 -O2 -I. -I"$peer/include" -I"$peer/ggml/include" tests/bench/peer_bench.cpp -o "$work/peer_bench" \
  -L"$peer_build/src" -L"$peer_build/ggml/src" -Wl,-rpath,"$peer_build/src:$peer_build/ggml/src" -lllama -lggml

sources=
types=()
case ",$columns," in *",16 bit,"*) sources=BF16,F16 ;; esac
case ",$columns," in *,int8,*) types+=(Q8_0_R8 Q8_K_R8) ;; esac
case ",$columns," in *,int4,*) types+=(Q4_0 Q4_K_R4) ;; esac
missing=()
for type in "${types[@]}"; do
  [ -e "$model/$type.gguf" ] || missing+=("$type")
done
if [ -z "$sources" ] && [ ${#missing[@]} -gt 0 ]; then sources=BF16; fi # they are made of it
/usr/bin/python3 tests/bench/peer_model.py --variant "$variant" --out "$model" --gguf "$sources"
for type in "${missing[@]}"; do
  "$peer_build/bin/llama-quantize" "$model/BF16.gguf" "$model/$type.partial" "$type" "$(nproc)" >"$work/quantize.log" 2>&1 ||
    { tail -5 "$work/quantize.log" >&2; exit 1; }
  mv "$model/$type.partial" "$model/$type.gguf"
done
exec /usr/bin/python3 tests/bench/peer.py --bench "$build/tests/engine_bench" --peer-bench "$work/peer_bench" \
  --model "$model" --columns "$columns" "${rest[@]}"
