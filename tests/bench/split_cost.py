#!/usr/bin/env python3
"""The cost of splitting a model over processes: one process compared with one attention and two expert processes.

    tests/reference/make_model.py --variant shape_a --out MODEL_DIR
    tests/bench/split_cost.py MODEL_DIR [--program build/release/tests/split_cost] [--rounds 5] [--lock FILE]

Both clusters stay up; runs of the same decode alternate between them, and the medians and the median of the ratios of
neighbouring runs are printed. One process has as many compute threads as the machine has cores; what the others have is
--attention-threads and --expert-threads. --lock takes a file's lock for each pair of runs, where measurements of several
people take turns.
"""

import argparse
import collections
import contextlib
import fcntl
import json
import os
import statistics
import subprocess
import sys


class Process:
    def __init__(self, words):
        self.child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.greeting = None

    def wait(self):
        self.greeting = self.child.stdout.readline().strip()
        if not self.greeting:
            sys.exit(f"{self.child.args}: ended before it was ready")
        return self.greeting

    def ask(self, command):
        self.child.stdin.write(command + "\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            sys.exit(f"{self.child.args}: ended at '{command}'")
        answer = json.loads(line)
        if "error" in answer:
            sys.exit(f"{self.child.args}: {answer['error']}")
        return answer


class Cluster:
    """The processes of one side; the first one decodes."""

    def __init__(self, processes):
        self.processes = processes

    def run(self, batch, micro_batches, tokens):
        before = [process.ask("usage") for process in self.processes]
        result = self.processes[0].ask(f"run {batch} {micro_batches} {tokens}")
        after = [process.ask("usage") for process in self.processes]
        spent = collections.Counter()
        computing = []
        for old, new in zip(before, after):
            for name, value in new.items():
                spent[name] += value - old[name]
            if "computing_us" in new:
                computing.append(new["computing_us"] - old["computing_us"])
        # A layer of a micro-batch is one dispatch, and reads the weights of the attention side once.
        passes = result["iterations"]
        visits = passes * result["layers"]
        # Tokens of the whole run, as counted by the counters: warm-up and prefill included.
        scale = result["layers"] * (result["tokens"] / batch + 4) * batch
        return {
            "us": result["us_per_token_layer"],
            "mb": (spent["streamed_bytes"] + result["dense_bytes"] * passes) / scale / 1e6,
            "wire": result["wire_bytes"] / scale,
            "wakes": spent["voluntary"] / scale,
            "cpu": spent["cpu_us"] / scale,
            "attention": result["attention_us"] / visits,
            "waiting": result["waiting_us"] / visits,
            "experts": result["expert_us"] / visits,
            "busy": sum(computing) / visits,
        }


@contextlib.contextmanager
def turn(path):
    if not path:
        yield
        return
    with open(path, "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_dir")
    parser.add_argument("--program", default="build/release/tests/split_cost")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=numbers, default=[1, 8, 32])
    parser.add_argument("--micro-batches", type=numbers, default=[1, 2, 3])
    parser.add_argument("--tokens", type=numbers, default=None, help="timed tokens of each sequence, by batch")
    parser.add_argument("--attention-threads", type=int, default=0)
    parser.add_argument("--expert-threads", type=int, default=2)
    parser.add_argument("--linger", type=int, default=0)
    parser.add_argument("--shm", type=int, default=0)
    parser.add_argument("--lock", default="")
    args = parser.parse_args()

    def start(*words):
        return Process([args.program, *map(str, words)])

    hosts = [start("expert", args.model_dir, "--index", i, "--hosts", 2, "--threads", args.expert_threads,
                   "--linger", args.linger, "--shm", args.shm) for i in range(2)]
    one = start("one", args.model_dir)
    endpoints = [host.wait() for host in hosts]
    attention = start("attention", args.model_dir, "--experts", ",".join(endpoints),
                      "--threads", args.attention_threads, "--shm", args.shm)
    for process in (one, attention):
        process.wait()
    sides = {"one": Cluster([one]), "split": Cluster([attention, *hosts])}

    print(f"2 expert processes of {args.expert_threads} threads, attention of {args.attention_threads or 'all'}, "
          f"{'shared memory' if args.shm else 'TCP'}, linger {args.linger} us; "
          f"{args.rounds} alternating rounds, load {os.getloadavg()[0]:.1f} at the start")
    print("| batch | micro-batches | us per token and layer: one | split | ratio (quartiles) | MB streamed: one | split "
          "| wire B | wake-ups: one | split | CPU us: one | split | split, us per dispatch: attention | waiting | "
          "slowest host | both hosts | one: attention | waiting | experts |")
    print("|" + "---|" * 19)
    tokens = dict(zip(args.batches, args.tokens or [48, 24, 16]))
    for batch in args.batches:
        for micro_batches in args.micro_batches:
            if micro_batches > batch:
                continue
            seen = {name: [] for name in sides}
            for i in range(args.rounds + 1):
                with turn(args.lock):
                    for name in (list(sides) if i % 2 else reversed(list(sides))):
                        # One process never gains by splitting its batch: unsplit is its best case.
                        m = micro_batches if name == "split" else 1
                        reading = sides[name].run(batch, m, tokens[batch])
                        if i > 0:  # the first one warms up
                            seen[name].append(reading)
            ratios = sorted(b["us"] / a["us"] for a, b in zip(seen["one"], seen["split"]))

            def median(side, field):
                return statistics.median(reading[field] for reading in seen[side])

            row = [batch, micro_batches, f"{median('one', 'us'):.1f}", f"{median('split', 'us'):.1f}",
                   f"{statistics.median(ratios):.2f} ({ratios[len(ratios) // 4]:.2f}-{ratios[-1 - len(ratios) // 4]:.2f})",
                   f"{median('one', 'mb'):.2f}", f"{median('split', 'mb'):.2f}", f"{median('split', 'wire'):.0f}",
                   f"{median('one', 'wakes'):.2f}", f"{median('split', 'wakes'):.2f}",
                   f"{median('one', 'cpu'):.1f}", f"{median('split', 'cpu'):.1f}",
                   *(f"{median('split', name):.0f}" for name in ("attention", "waiting", "experts", "busy")),
                   *(f"{median('one', name):.0f}" for name in ("attention", "waiting", "experts"))]
            print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
