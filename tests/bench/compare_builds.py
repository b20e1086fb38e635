#!/usr/bin/python3
"""Compares the speed of two builds. Both serve at the same time, and the same load goes to each in turn.

    compare_builds.py --old OTHER/build/release --new build/release --model DIR [--command serve|up] [--rounds 16]
                      [--old-command serve|up] [--flags "--expert-quant int8"] [--concurrency 1,8,32] [--per-client 8]
                      [--input 64] [--output 64]

With --old-command serve --command up, and one folder for both, it tells what a split into processes costs.

A machine's speed changes over seconds, so only neighbours are compared: each round loads both, in alternating order, and its
ratio new/old is one sample. Printed: medians of tokens per second and of processor time per token (all processes of the
cluster), and the mean of the rounds' ratios with its 95 % interval. The server that has no load sleeps.
"""
import argparse
import contextlib
import os
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))
from cluster import Cluster  # noqa: E402
from token_times import Load  # noqa: E402

NAMES = ("old", "new")


def processor_seconds(root):
    """Used until now by a process and all below it."""
    parents, used = {}, {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = int(fields[11]) + int(fields[12])

    def below(pid):
        while pid not in (root, 0, 1):
            pid = parents.get(pid, 0)
        return pid == root

    return sum(ticks for pid, ticks in used.items() if below(pid)) / os.sysconf("SC_CLK_TCK")


def load_once(options, cluster, clients, seed, out):
    """@returns (tokens per second, processor seconds per token)"""
    before = processor_seconds(cluster.process.pid)
    load = Load(options.new / "bin", cluster.port, out, num_prompts=clients * options.per_client, max_concurrency=clients,
                random_input_len=f"{options.input}:{options.input}", random_output_len=f"{options.output}:{options.output}",
                seed=seed)
    report = load.report(600)
    if report["failed"]:
        raise SystemExit(f"compare_builds: {report['failed']} requests failed")
    return report["output_throughput"], (processor_seconds(cluster.process.pid) - before) / report["total_output_tokens"]


def ratio_text(old, new):
    ratios = [after / before for before, after in zip(old, new)]
    half = 1.96 * statistics.stdev(ratios) / len(ratios) ** 0.5
    return f"{statistics.mean(ratios):.3f} ± {half:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=pathlib.Path, required=True)
    parser.add_argument("--new", type=pathlib.Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--command", choices=("serve", "up"), default="serve")
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--old-command", choices=("serve", "up"), help="--command, unless told otherwise")
    parser.add_argument("--flags", default="", help="of both commands, in one word")
    parser.add_argument("--concurrency", type=lambda text: [int(word) for word in text.split(",")], default=[32])
    parser.add_argument("--per-client", type=int, default=8, help="requests of each client and round")
    parser.add_argument("--input", type=int, default=64)
    parser.add_argument("--output", type=int, default=64)
    options = parser.parse_args()
    commands = {"old": options.old_command or options.command, "new": options.command}
    found = {clients: {name: [] for name in NAMES} for clients in options.concurrency}
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        clusters = {name: stack.enter_context(Cluster(getattr(options, name) / "bin", commands[name], options.model,
                                                      *options.flags.split(), log=folder / f"{name}.log")) for name in NAMES}
        for name in NAMES:
            load_once(options, clusters[name], max(options.concurrency), 0, folder / "warm-up.json")
        for number in range(1, options.rounds + 1):
            for clients in options.concurrency:
                for name in NAMES if number % 2 else reversed(NAMES):
                    report = folder / f"{name}-{clients}-{number}.json"
                    found[clients][name].append(load_once(options, clusters[name], clients, number, report))
    print(f"old: {commands['old']}, new: {commands['new']}, {options.input} + {options.output} tokens, {options.per_client}"
          f" requests of each client, {options.rounds} rounds")
    for clients, rates in found.items():
        for what, at, scale in (("tokens/s", 0, 1), ("processor µs/token", 1, 1e6)):
            old, new = ([values[at] for values in rates[name]] for name in NAMES)
            print(f"{clients} at a time, {what}: old {scale * statistics.median(old):.1f}, new"
                  f" {scale * statistics.median(new):.1f}, new/old {ratio_text(old, new)}")


if __name__ == "__main__":
    main()
