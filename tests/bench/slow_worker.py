#!/usr/bin/python3
"""One expert worker is slow: the asynchronous cluster compared with a barrier-synchronous one.

    slow_worker.py --build build/release [--out slow_worker.png] [--model deploy/demo-model/model]

In virtual time (always): build/release/tests/slow_worker, our attention workers and expert hosts on simulated engines, and
a barrier that exists only there. Its header says what is modelled. Drawn: tokens per second over the barrier's, by the
number of micro-batches that a worker has on its way.

With --model also real processes: `troupe up` with one attention worker and --experts expert workers, of which expert-0 is
stopped (SIGSTOP) and continued (SIGCONT) so that it runs for 1 - --duty of every --period milliseconds. That needs no
privileges, and stays below the 50 ms after which a batch is sent to a replica. Measured by --micro-batches, rounds in turn.
One attention worker with one micro-batch is synchronous by itself: nothing is computed while its batches are out, and no
host goes on before the slowest has answered. More are what the worker's own policy makes of the flag, "at most".
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))
from cluster import Cluster  # noqa: E402
from token_times import Load, tokens_of  # noqa: E402

MANY = 1_000_000  # requests: --duration ends the load
HEDGE_MS = 50  # as in actors/protocol/defaults.hpp: hedges a batch that waits longer


class SlowProcess(threading.Thread):
    """A context in which a process runs for a part of the time only."""

    def __init__(self, pid, duty, period):
        """@param duty  part of the time that it stands still; @param period  seconds"""
        super().__init__(daemon=True)
        self.pid, self.duty, self.period, self.over = pid, duty, period, threading.Event()

    def run(self):
        with contextlib.suppress(ProcessLookupError):
            while not self.over.wait(self.period * (1 - self.duty)):
                os.kill(self.pid, signal.SIGSTOP)
                self.over.wait(self.period * self.duty)
                os.kill(self.pid, signal.SIGCONT)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()


def measure(options, limit, is_slow, folder):
    """@returns output tokens per second of a fresh cluster, and requests that failed"""
    folder.mkdir()
    with Cluster(options.build / "bin", "up", options.model, "--expert-workers", str(options.experts), "--micro-batches",
                 str(limit), "--threads", "1", *options.flags.split(), run_dir=folder / "run", log=folder / "up.log") as cluster:
        with contextlib.ExitStack() as stack:
            if is_slow:
                stack.enter_context(SlowProcess(cluster.pids()["expert-0"], options.duty, options.period / 1e3))
            load = Load(options.build / "bin", cluster.port, folder / "report.json", num_prompts=MANY, max_concurrency=32,
                        duration=options.seconds, random_input_len="8:8", random_output_len="48:48",
                        random_vocab_size=options.vocab_size)
            report = load.report(options.seconds + 300)
    begin = report["start_time"]
    tokens = [at for at, _ in tokens_of(report) if at < begin + options.seconds]
    return len(tokens) / options.seconds, report["failed"]


def real(options):
    """@returns {"slow"|"fast": {micro-batches: [tokens per second]}}, and requests that failed"""
    rates, failed = {"fast": {}, "slow": {}}, 0
    with tempfile.TemporaryDirectory(prefix="slow-worker-") as root:
        for number in range(options.rounds):
            for limit in options.micro_batches:
                for kind in rates:
                    rate, lost = measure(options, limit, kind == "slow", pathlib.Path(root) / f"{number}-{limit}-{kind}")
                    rates[kind].setdefault(limit, []).append(rate)
                    failed += lost
                    print(f"round {number + 1}: at most {limit} micro-batches, {kind}: {rate:.0f} tokens/s", file=sys.stderr)
    return rates, failed


def print_real(options, rates, failed):
    print(f"\n`troupe up`, one attention worker, {options.experts} expert workers; slow: expert-0 stands still for "
          f"{options.duty:.0%} of every {options.period:g} ms. Output tokens per second, median of {options.rounds}; {failed} "
          "requests failed.\n")
    print("| micro-batches at most | all alike | one slow | over one micro-batch |\n|---|---|---|---|")
    base = statistics.median(rates["slow"][options.micro_batches[0]])
    for limit in options.micro_batches:
        fast, slow = (statistics.median(rates[kind][limit]) for kind in ("fast", "slow"))
        print(f"| {limit} | {fast:.0f} | {slow:.0f} | {slow / base:.2f} |")


def draw(records, out):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    workers = sorted({record["workers"] for record in records})
    figure, axes = pyplot.subplots(1, len(workers), figsize=(5.6 * len(workers), 4.2), sharey=True, squeeze=False,
                                   layout="constrained")
    scenarios = list(dict.fromkeys(record["scenario"] for record in records))
    for record in records:
        axis = axes[0][workers.index(record["workers"])]
        numbers = [point["in_flight"] for point in record["micro_batches"]]
        rates = [point["tokens_per_second"] / record["barrier"] for point in record["micro_batches"]]
        color, line = f"C{scenarios.index(record['scenario'])}", "-" if record["replicas"] == 1 else "--"
        axis.plot(numbers, rates, "o" + line, ms=3, color=color,
                  label=f"{record['scenario']}, {record['replicas']} replica{'s' if record['replicas'] > 1 else ''}")
        axis.plot(record["limit"], rates[numbers.index(record["limit"])], "o", ms=9, mfc="none", color=color)
    for axis, count in zip(axes[0], workers):
        axis.axhline(1, color="gray", lw=1, ls=":")
        axis.set(title=f"{count} attention worker{'s' if count > 1 else ''}", ylim=(0, None),
                 xlabel="micro-batches of a worker on their way\n(circle: more add less than 2 %)")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("tokens per second over the barrier's")
    axes[0][-1].legend(fontsize=7)
    figure.savefig(out, dpi=120)


def counts(text):
    return [int(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="our build folder, with tests/slow_worker")
    parser.add_argument("--model", type=pathlib.Path, help="Hugging Face folder, for real processes")
    parser.add_argument("--flags", default="", help="further flags of troupe up, in one word")
    parser.add_argument("--experts", type=int, default=2, help="expert workers (2)")
    parser.add_argument("--micro-batches", type=counts, default=[1, 2, 3, 4, 6, 8], help="in turn (1,2,3,4,6,8)")
    parser.add_argument("--duty", type=float, default=0.5, help="part of the time that the slow one stands still (0.5)")
    parser.add_argument("--period", type=float, default=20, help="milliseconds of a stop and a run together (20)")
    parser.add_argument("--seconds", type=float, default=15, help="of a measurement (15)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path, help="where to write everything measured")
    parser.add_argument("--out", type=pathlib.Path, help="the PNG")
    options = parser.parse_args()
    if not 0 < options.duty < 1 or options.duty * options.period >= HEDGE_MS:
        raise SystemExit(f"slow_worker: --duty, --period: a stop must be above 0 and below {HEDGE_MS} ms, or batches are sent again")
    with tempfile.TemporaryDirectory(prefix="slow-worker-") as folder:
        file = pathlib.Path(folder) / "simulated.json"
        subprocess.run([options.build / "tests" / "slow_worker", "--json", file], check=True)
        found = {"simulated": json.loads(file.read_text(encoding="utf-8"))}
    failed = 0
    if options.model:
        options.vocab_size = json.loads((options.model / "config.json").read_text(encoding="utf-8"))["vocab_size"]
        found["real"], failed = real(options)
        print_real(options, found["real"], failed)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.out:
        draw(found["simulated"], options.out)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
