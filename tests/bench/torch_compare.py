#!/usr/bin/python3
"""Decode throughput of our engine against torch_moe_baseline.py, in turn, on the same model.

    torch_compare.py --bench build/release/tests/engine_bench --model DIR [--dtype float32] [--json FILE]

DIR is a Mixtral folder such as peer_model.py writes. The baseline computes in --dtype: float32 products are OpenBLAS's,
bfloat16 ones oneDNN's. Ours computes in the types given with --own (repeatable; the default, bfloat16, is what
`troupe serve` chooses for such a folder).
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

from peer import Engine, locked

CELLS = [("decode, batch 1", "decode 1 8"), ("decode, batch 8", "decode 8 4"), ("decode, batch 32", "decode 32 3")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, help="engine_bench")
    parser.add_argument("--model", required=True, help="Mixtral folder in BF16")
    parser.add_argument("--own", action="append", help="flags of engine_bench in one word, e.g. '--dtype float32'")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"], help="of the baseline")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--lock", help="a file to lock while loading and in every round")
    parser.add_argument("--json", help="where to write everything measured")
    args = parser.parse_args()
    threads = ["--threads", str(args.threads)]
    baseline = pathlib.Path(__file__).with_name("torch_moe_baseline.py")
    own = {}
    with locked(args.lock):
        command = [sys.executable, str(baseline), args.model, "--dtype", args.dtype, *threads]
        torch = Engine("torch", command)
        for flags in args.own or ["--dtype bfloat16"]:
            own["ours, " + flags] = Engine("troupe", [args.bench, args.model, *threads, *flags.split()])
    names = [*own, "einsum", "loop"]
    rates = {cell: {name: [] for name in names} for cell, _ in CELLS}
    for number in range(args.rounds):
        for cell, command in CELLS:
            with locked(args.lock):
                for name in names[number % len(names) :] + names[: number % len(names)]:
                    if name not in own:
                        torch.ask(f"use {name}")
                    answer = own.get(name, torch).ask(command)
                    rates[cell][name].append(answer["tokens"] / answer["seconds"])
                    time.sleep(0.02)
    medians = {cell: {name: statistics.median(values) for name, values in row.items()} for cell, row in rates.items()}
    heads = [f"{name} | of einsum, of loop" if name in own else name for name in names]
    print("| tokens/s | " + " | ".join(heads) + " |")
    print("|---" * (1 + len(names) + len(own)) + "|")
    for cell, row in medians.items():
        shown = [
            f"{row[name]:.1f} | {row[name] / row['einsum']:.1f} ×, {row[name] / row['loop']:.1f} ×" if name in own
            else f"{row[name]:.2f}"
            for name in names
        ]
        print(f"| {cell} | " + " | ".join(shown) + " |")
    print(f"\n{torch.about['engine']}, {args.dtype}, load average {os.getloadavg()[0]:.1f}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"medians": medians, "rates": rates}, file, indent=1)
    for engine in [torch, *own.values()]:
        engine.close()


if __name__ == "__main__":
    main()
