#!/usr/bin/python3
"""Runs engine_bench and peer_bench on the same model in turn and prints medians, ratios and computed floors.

peer.sh prepares what this needs and passes its arguments on; `peer.py --help` names them. Both engines stay loaded and
idle while the other one is measured, so that a round takes seconds and a change of the machine's mood meets both.
"""

import argparse
import contextlib
import fcntl
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

# Cells of the table: (name, command, tokens are counted in all).
CELLS = [
    ("decode, batch 1", "decode 1 24"),
    ("decode, batch 8", "decode 8 12"),
    ("decode, batch 32", "decode 32 6"),
    ("prefill 512", "prefill 512"),
]

# Used with --context: cells after N tokens of each sequence.
LONG_CELLS = [
    ("decode, batch 1", "decode 1 24"),
    ("decode, batch 8", "decode 8 6"),
]

# Names of our builds among the engines; the others are the peer with one of its files.
OWN = ("troupe", "before")

# Column: bits of a weight with its scales, our flags, the peer's (file, flags). 16-bit weights, which ours may store in 12
# bits without loss (the floor is that of 16), are compared with the better of the peer's BF16 (plain, repacked at load) and
# F16; quantized ones with its fastest types of that width, whose rows are interleaved. The peer's repacked weights are in
# its own memory, and so are ours: a mapped file's pages may be small ones.
COPIED = ["--weights-memory", "copied"]
COLUMNS = {
    "16 bit": (16.0, [], [("BF16", []), ("BF16", ["repack"]), ("F16", [])]),
    "int8": (
        8.5,
        ["--expert-quant", "int8", "--dense-quant", "int8", "--activation-quant", "int8"],
        [("Q8_0_R8", []), ("Q8_K_R8", [])],
    ),
    "int4": (
        4.5,
        ["--expert-quant", "int4", "--dense-quant", "int4", "--activation-quant", "int8"],
        [("Q4_0", ["repack"]), ("Q4_K_R4", [])],
    ),
}


class Engine:
    """A program that answers one line of JSON to each line of command."""

    def __init__(self, name, command):
        """@param command the program and its arguments, behind --run-with"""
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self.read()

    def read(self):
        for line in self.process.stdout:
            if line.startswith("{"):  # the peer's warnings also go to stdout
                return json.loads(line)
        raise RuntimeError(f"{self.name} ended with status {self.process.wait()}")

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


def head_dim(config):
    return config["hidden_size"] // config["num_attention_heads"]


def floor_tokens_per_second(config, bits, limits, cell, kv_bytes):
    """Tokens per second that memory and multipliers allow: every weight of the dense part and of the experts that
    random tokens are expected to choose is read once; every active weight is multiplied once a token. Keys and
    values are read once a token behind a context, `kv_bytes` each; of the few of other cells nothing is counted."""
    hidden, ffn, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    layers, experts, top_k = (config[k] for k in ("num_hidden_layers", "num_local_experts", "num_experts_per_tok"))
    kv = head_dim(config) * config["num_key_value_heads"]
    dense = layers * (2 * hidden * hidden + 2 * kv * hidden + experts * hidden)
    expert = 3 * hidden * ffn
    words = cell.split()
    tokens = int(words[1])
    logits_rows = tokens if words[0] == "decode" else 1
    distinct = experts * (1 - (1 - top_k / experts) ** tokens)
    context = int(words[3]) if len(words) > 3 else 0
    num_bytes = (dense + vocab * hidden + layers * distinct * expert) * bits / 8
    num_bytes += tokens * context * layers * 2 * kv * kv_bytes
    operations = 2 * (tokens * (dense + layers * top_k * expert) + logits_rows * vocab * hidden)
    operations += tokens * context * layers * 4 * hidden
    peak = limits[{16.0: "bf16_gflops", 8.5: "int8_gops", 4.5: "int4_gops"}[bits]] or limits["f32_gflops"]
    return tokens / max(num_bytes / (limits["read_gbps"] * 1e9), operations / (peak * 1e9))


@contextlib.contextmanager
def locked(path):
    if not path:
        yield
        return
    with open(path, "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def measure_column(args, name, config):
    bits, flags, candidates = COLUMNS[name]
    flags = [*COPIED, *flags]
    if args.candidates:
        candidates = [c for c in candidates if c[0] in args.candidates.split(",")]
    run_with = args.run_with.split()
    cells = [cell for cell in (LONG_CELLS if args.context else CELLS) if args.cells in cell[0]]
    peer_flags = []
    if args.context:
        cells = [(f"{cell} at {args.context}", f"{command} {args.context}") for cell, command in cells]
        batch = max(int(command.split()[1]) for _, command in cells)
        peer_flags.append(f"cells={batch * (args.context + 64)}")
    if args.kv_cache == "int8":
        flags = [*flags, "--kv-cache-dtype", "int8"]
        peer_flags.append("kv-q8_0")
    result = {"column": name, "flags": flags, "load_average": [os.getloadavg()[0]], "cells": {}}
    engines = []
    try:
        threads = ["--threads", str(args.threads)]
        with locked(args.lock):
            # Packed once, then mapped or copied. Each build has a folder of its own: their formats may differ.
            for own, bench, packed in [("troupe", args.bench, "packed"), ("before", args.before, "packed-before")]:
                if not bench:
                    continue
                cache = ["--weights-cache", os.path.join(args.model, packed)]
                try:
                    engines.append(Engine(own, [*run_with, bench, os.path.join(args.model, "hf"), *threads, *cache, *flags]))
                except RuntimeError as error:
                    print(f"{name}: {own} cannot run: {error}", file=sys.stderr)
            for file, extra in candidates:
                path = os.path.join(args.model, file + ".gguf")
                command = [*run_with, args.peer_bench, path, str(args.threads), *extra, *peer_flags]
                engines.append(Engine(" ".join([file, *extra]), command))
            limiter = Engine("limits", [*run_with, args.bench, os.path.join(args.model, "hf"), "--limits-only", *threads])
        with locked(args.lock):
            result["greedy"] = {e.name: e.ask("greedy 16 4")["greedy"] for e in engines}
        result["about"] = {e.name: e.about for e in engines}
        rates = {cell: {e.name: [] for e in engines} for cell, _ in cells}
        limits = []
        # A context is filled once and then stays, so such cells run their rounds one after another.
        for together in [[cell] for cell in cells] if args.context else [cells]:
            for number in range(args.rounds):
                with locked(args.lock):
                    limits.append(limiter.ask("limits"))
                    for cell, command in together:
                        # The first engine changes from round to round.
                        for engine in engines[number % len(engines) :] + engines[: number % len(engines)]:
                            answer = engine.ask(command)
                            rates[cell][engine.name].append(answer["tokens"] / answer["seconds"])
                            time.sleep(0.02)  # threads that spin for work go to sleep
                print(f"{name}: round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
        # Medians like all else: the work was not done in the machine's best moment.
        result["limits"] = {key: statistics.median(one[key] for one in limits) for key in limits[0]}
        limiter.close()
    finally:
        for engine in engines:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                engine.close()
    for cell, command in cells:
        medians = {engine: statistics.median(values) for engine, values in rates[cell].items()}
        best = max((m, engine) for engine, m in medians.items() if engine not in OWN)
        kv_bytes = 1 + 4 / head_dim(config) if args.kv_cache == "int8" else 2
        floor = floor_tokens_per_second(config, bits, result["limits"], command, kv_bytes)
        entry = {"rates": rates[cell], "medians": medians, "peer": best[1], "peer_rate": best[0], "floor": floor}
        if "troupe" in medians:
            entry["ratio"] = medians["troupe"] / best[0]
            entry["of_floor"] = medians["troupe"] / floor
            if "before" in medians:
                entry["over_before"] = medians["troupe"] / medians["before"]
        result["cells"][cell] = entry
    result["load_average"].append(os.getloadavg()[0])
    return result


def markdown(results):
    compared = any("over_before" in e for result in results for e in result["cells"].values())
    lines = ["| tokens/s | ours | peer's best | ratio | floor | ours of it |", "|---|---|---|---|---|---|"]
    if compared:
        lines = [lines[0] + " before | ours of before |", lines[1] + "---|---|"]
    for result in results:
        for cell, e in result["cells"].items():
            own = e["medians"].get("troupe")
            row = [f"{result['column']}, {cell}", f"{own:.1f}" if own else "–", f"{e['peer_rate']:.1f} ({e['peer']})"]
            row += [f"**{e['ratio']:.2f}**" if own else "–", f"{e['floor']:.0f}"]
            row += [f"{100 * e['of_floor']:.0f} %" if own else "–"]
            if compared:
                row += [f"{e['medians']['before']:.1f}", f"{e['over_before']:.2f}"] if "over_before" in e else ["–", "–"]
            lines.append("| " + " | ".join(row) + " |")
    for result in results:
        limits = result["limits"]
        lines.append("")
        lines.append(
            f"{result['column']}: read {limits['read_gbps']:.1f} GB/s, FP32 {limits['f32_gflops']:.0f} GFLOP/s,"
            f" BF16 products {limits['bf16_gflops']:.0f} GFLOP/s, integers with int8 {limits['int8_gops']:.0f}, with int4"
            f" {limits['int4_gops']:.0f} GOP/s; load average"
            f" {result['load_average'][0]:.1f} to {result['load_average'][1]:.1f}."
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, help="engine_bench")
    parser.add_argument("--before", help="engine_bench of an earlier build, timed in the same rounds")
    parser.add_argument("--peer-bench", required=True, help="peer_bench")
    parser.add_argument("--model", required=True, help="folder with hf/ and the GGUF files")
    parser.add_argument("--columns", default=",".join(COLUMNS), help=f"of {', '.join(COLUMNS)}")
    parser.add_argument("--cells", default="", help="only cells whose name contains this, e.g. prefill")
    parser.add_argument("--context", type=int, default=0, help="decode behind so many tokens of each sequence instead")
    parser.add_argument("--kv-cache", choices=["auto", "int8"], default="auto", help="of both; int8: the peer's Q8_0")
    parser.add_argument("--candidates", default="", help="only these files of the peer's, if memory is short")
    parser.add_argument("--run-with", default="", help='put before every engine, e.g. "nice -n -20" on a shared machine')
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--lock", help="a file to lock while loading and in every round")
    parser.add_argument("--json", help="where to write everything measured")
    args = parser.parse_args()
    config = json.loads(pathlib.Path(args.model, "hf", "config.json").read_text(encoding="utf-8"))
    results = [measure_column(args, column, config) for column in args.columns.split(",")]
    print(markdown(results))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
