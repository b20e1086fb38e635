#!/usr/bin/python3
"""Measures the cost of tracing: one cluster serves the same load in turn without and with it.

    trace_cost.py --binaries build/release/bin --model DIR [--command serve|up] [--sample 0.01] [--rounds 16] [--prompts 256]
                  [--concurrency 32] [--input 64] [--output 64]

Tracing is started and stopped as an operator does it (`troupe trace start`, `troupe trace stop`), so that both sides are the
same processes. Each round has one load of either kind, in alternating order; its ratio of tokens per second, traced to not
traced, is one sample. Printed: the mean of the ratios with its 95 % interval, and the same of rounds in which neither is traced,
which is what the machine's own changes look like.
"""
import argparse
import contextlib
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))
from cluster import Cluster  # noqa: E402
from token_times import Load  # noqa: E402


def trace(options, cluster, *words):
    subprocess.run([options.binaries / "troupe", "trace", *words, "--url", f"http://127.0.0.1:{cluster.port}"], check=True,
                   stdout=subprocess.DEVNULL)


def load_once(options, cluster, seed, out):
    """@returns tokens per second"""
    load = Load(options.binaries, cluster.port, out, num_prompts=options.prompts, max_concurrency=options.concurrency,
                random_input_len=f"{options.input}:{options.input}", random_output_len=f"{options.output}:{options.output}",
                seed=seed)
    report = load.report(600)
    if report["failed"]:
        raise SystemExit(f"trace_cost: {report['failed']} requests failed")
    return report["output_throughput"]


def described(ratios):
    half = 1.96 * statistics.stdev(ratios) / len(ratios) ** 0.5
    return f"{statistics.mean(ratios):.4f} ± {half:.4f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--command", choices=("serve", "up"), default="up")
    parser.add_argument("--sample", default="0.01")
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--prompts", type=int, default=256)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--input", type=int, default=64)
    parser.add_argument("--output", type=int, default=64)
    options = parser.parse_args()
    ratios = {"traced": [], "not traced": []}
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        flags = ["--trace", str(folder / "trace"), "--trace-sample", "0", "--trace-max-bytes", "4G"]
        cluster = stack.enter_context(Cluster(options.binaries, options.command, options.model, *flags, log=folder / "log"))
        load_once(options, cluster, 0, folder / "warm-up.json")
        for number in range(2 * options.rounds):
            kind = "traced" if number % 2 else "not traced"
            found = {}
            for is_second in (False, True) if number // 2 % 2 else (True, False):
                if is_second and kind == "traced":
                    trace(options, cluster, "start", "--sample", options.sample)
                found[is_second] = load_once(options, cluster, number + 1, folder / f"{number}-{is_second}.json")
                if is_second and kind == "traced":
                    trace(options, cluster, "stop")
            ratios[kind].append(found[True] / found[False])
    print(f"{options.command}: {options.prompts} requests of {options.input} + {options.output} tokens, {options.concurrency} at a"
          f" time, {options.rounds} rounds each")
    print(f"sample {options.sample}: {described(ratios['traced'])} of the tokens/s without tracing")
    print(f"without tracing, against itself: {described(ratios['not traced'])}")


if __name__ == "__main__":
    main()
