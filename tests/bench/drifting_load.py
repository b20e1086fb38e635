#!/usr/bin/python3
"""A load whose domain changes every minute, on a real cluster: planner on, planner off, and a fixed oracle placement.

    drifting_load.py --build build/release --model deploy/demo-model/model [--out drifting.png] [--json drifting.json]

Each mode is a fresh `troupe up` without any history, asked by --concurrency clients that each wait for their answers. Every
--period seconds the domain changes (the files of --prompts in turn, --changes times). The modes, --rounds times in turn:

off      the placement stays as membership made it
on       the planner does what it wants
oracle   before the load, experts are placed once (one host each, as many on each worker) so that the busiest worker has
         as few rows as possible in the windows that the first "off" run has shown: what knowing the whole load beforehand gives

Printed for each: output tokens per second, 99th percentile of time between tokens, moves and bytes. The processes share
this machine's processors unless --flags says otherwise: where they do, a busy worker takes its time from idle ones, and a
better placement gains less than on machines of their own.
"""

import argparse
import collections
import json
import pathlib
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))
from cluster import Cluster  # noqa: E402
from placement_control import Control, oracle_placement  # noqa: E402
from token_times import Load, percentile, tokens_of  # noqa: E402

CHECKOUT = pathlib.Path(__file__).resolve().parent.parent.parent
MODES = ("off", "on", "oracle")
MANY = 1_000_000  # requests: --duration ends the load
BIN = 2  # seconds per bin of the figure


class Watcher(threading.Thread):
    """Looks at the control interface twice a second: which changes there were."""

    def __init__(self, control):
        super().__init__(daemon=True)
        self.control, self.over, self.changes, self.flaw = control, threading.Event(), {}, None
        self.look()
        self.before = set(self.changes)  # the oracle's placement is made before the load

    def run(self):
        try:
            while not self.over.wait(0.5):
                self.look()
            self.look()
        except Exception as error:  # reported by finish()
            self.flaw = error

    def look(self):
        state = self.control.state()
        for change in (state.get("last"), state.get("change")):
            number = (change or {}).get("id", (change or {}).get("change"))
            if number is not None:
                known = self.changes.setdefault(number, {"at": time.time(), "moves": 0, "bytes": 0})
                moves = change.get("moves", change.get("moves_done", 0) + change.get("moves_left", 0))
                known["moves"] = max(known["moves"], moves)
                known["bytes"] = max(known["bytes"], change.get("bytes", 0))

    def finish(self):
        """@returns [{"at", "moves", "bytes"}] since it was made"""
        self.over.set()
        self.join()
        if self.flaw:
            raise self.flaw
        return [change for number, change in self.changes.items() if number not in self.before]


def windows_of(page):
    """The windows of GET /cluster/history as dense rows: [window][layer][expert]"""
    dense = []
    for window in page["windows"]:
        layers = []
        for experts, pairs in zip(page["layer_experts"], window["rows"]):
            rows = [0] * experts
            for expert, count in zip(pairs[::2], pairs[1::2]):
                rows[expert] = count
            layers.append(rows)
        dense.append(layers)
    return dense


def history_of(cluster):
    status, _, raw = cluster.request("GET", "/cluster/history?windows=256")
    if status != 200:
        raise RuntimeError(f"GET /cluster/history: status {status}: {raw[:500]!r}")
    return windows_of(json.loads(raw))


def drift(options, cluster, folder):
    """@returns (Unix time of the begin, of each change of domain and of the end, the reports)"""
    files = sorted(options.prompts.glob("*.jsonl"))
    if not files:
        raise SystemExit(f"drifting_load: no <domain>.jsonl in {options.prompts}")
    begin, loads, changes = time.time(), [], []
    for number in range(options.changes):
        # The clients of the previous domain end with their last answers while these begin.
        time.sleep(max(0, begin + number * options.period - time.time()))
        changes.append(time.time())
        loads.append(Load(options.build / "bin", cluster.port, folder / f"{number}.json", prompts=files[number % len(files)],
                          num_prompts=MANY, duration=options.period, max_concurrency=options.concurrency,
                          random_output_len=options.output_len, seed=number))
    reports = [load.report(options.period + 300) for load in loads]
    return [*changes, begin + options.changes * options.period], reports


def run_mode(options, mode, oracle, folder):
    folder.mkdir()
    planner = "on" if mode == "on" else "off"
    with Cluster(options.build / "bin", "up", options.model, "--expert-workers", str(options.experts), "--planner", planner,
                 *options.flags.split(), run_dir=folder / "run", log=folder / "up.log") as cluster:
        control = Control(cluster)
        if mode == "oracle":
            control.assign(oracle)
            control.wait_done(300)
        watcher = Watcher(control)
        watcher.start()
        times, reports = drift(options, cluster, folder)
        changes = watcher.finish()
        history = history_of(cluster)
    return measured(mode, times, reports, changes), history


def measured(mode, times, reports, changes):
    begin, end = times[0], times[-1]
    tokens = [token for report in reports for token in tokens_of(report) if begin <= token[0] < end]
    gaps = sorted(gap for _, gap in tokens if gap is not None)
    if not gaps:
        raise SystemExit(f"drifting_load: {mode}: no tokens came")
    by_bin = collections.defaultdict(list)
    for at, gap in tokens:
        by_bin[int((at - begin) / BIN)].append(gap)
    series = []
    for number in range(int((end - begin) / BIN)):
        found = sorted(gap for gap in by_bin[number] if gap is not None)
        p99 = 1e3 * percentile(found, 99) if found else None
        series.append({"at": number * BIN, "tokens_per_second": len(by_bin[number]) / BIN, "p99_ms": p99})
    return {
        "mode": mode,
        "tokens_per_second": len(tokens) / (end - begin),
        "p99_ms": 1e3 * percentile(gaps, 99),
        "median_ms": 1e3 * percentile(gaps, 50),
        "failed": sum(report["failed"] for report in reports),
        "moves": sum(change["moves"] for change in changes),
        "bytes": sum(change["bytes"] for change in changes),
        "changes": [{**change, "at": change["at"] - begin} for change in changes],
        "domain_changes": [at - begin for at in times[:-1]],
        "series": series,
    }


def print_table(runs):
    print("| planner | output tokens/s | of off | p50 / p99 between tokens, ms | moves | MB | failed |\n|---" + "|---" * 6 + "|")
    medians = {}
    for mode in MODES:
        own = [run for run in runs if run["mode"] == mode]
        if not own:
            continue

        def median(key):
            return statistics.median(run[key] for run in own)

        medians[mode] = median("tokens_per_second")
        of_off = f"{medians[mode] / medians['off']:.3f}" if "off" in medians else "-"
        print(f"| {mode} | {medians[mode]:.1f} | {of_off} | {median('median_ms'):.1f} / {median('p99_ms'):.1f} | {median('moves'):.0f} "
              f"| {median('bytes') / 1e6:.1f} | {sum(run['failed'] for run in own)} |")


def draw(runs, out):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 1, figsize=(10, 6), sharex=True, layout="constrained")
    first = {run["mode"]: run for run in reversed(runs)}
    for (mode, run), color in zip(sorted(first.items()), ("tab:gray", "tab:green", "tab:orange")):
        at = [point["at"] + BIN / 2 for point in run["series"]]
        axes[0].plot(at, [point["tokens_per_second"] for point in run["series"]], color=color, lw=1, label=mode)
        p99 = [point["p99_ms"] if point["p99_ms"] is not None else float("nan") for point in run["series"]]
        axes[1].plot(at, p99, color=color, lw=1, label=mode)
        if mode == "on":
            for change in run["changes"]:
                axes[0].axvline(change["at"], color="tab:green", lw=0.6, ls=":")
    for axis in axes:
        for at in next(iter(first.values()))["domain_changes"]:
            axis.axvline(at, color="black", lw=0.8, ls="--", alpha=0.5)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, loc="lower right")
        axis.set_ylim(bottom=0)
    axes[0].set_ylabel("output tokens per second")
    axes[1].set(ylabel="p99 between tokens, ms", xlabel="seconds (dashed: the domain changes; dotted: the planner begins)")
    figure.savefig(out, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--flags", default="--threads 1", help='further flags of troupe up, in one word ("--threads 1")')
    parser.add_argument("--experts", type=int, default=4, help="expert workers (4)")
    parser.add_argument("--concurrency", type=int, default=16, help="clients (16)")
    parser.add_argument("--output-len", default="16:64", help="tokens of an answer (16:64)")
    parser.add_argument("--prompts", type=pathlib.Path, default=CHECKOUT / "load" / "prompts", help="folder of domains")
    parser.add_argument("--period", type=float, default=60, help="seconds of a domain (60)")
    parser.add_argument("--changes", type=int, default=5, help="domains that follow one another (5)")
    parser.add_argument("--modes", default=",".join(MODES), help="which of off, on and oracle; oracle needs off")
    parser.add_argument("--rounds", type=int, default=1, help="times that the modes run in turn (1)")
    parser.add_argument("--json", type=pathlib.Path, help="where to write everything measured")
    parser.add_argument("--out", type=pathlib.Path, help="the PNG")
    options = parser.parse_args()
    modes = [mode for mode in MODES if mode in options.modes.split(",")]
    if set(options.modes.split(",")) - set(MODES) or ("oracle" in modes and "off" not in modes):
        raise SystemExit(f"drifting_load: --modes: {options.modes} is not a list of off, on and oracle, the last with off")
    runs, oracle = [], None
    with tempfile.TemporaryDirectory(prefix="drifting-") as root:
        for number in range(options.rounds):
            for mode in modes:
                run, history = run_mode(options, mode, oracle, pathlib.Path(root) / f"{number}-{mode}")
                if mode == "off" and oracle is None:
                    oracle = oracle_placement(history, [f"expert-{at}" for at in range(options.experts)])
                runs.append(run)
                print(f"round {number + 1}, {mode}: {run['tokens_per_second']:.1f} tokens/s, p99 {run['p99_ms']:.1f} ms, "
                      f"{run['moves']} moves", file=sys.stderr, flush=True)
    print_table(runs)
    if options.json:
        options.json.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    if options.out:
        draw(runs, options.out)
    return 1 if any(run["failed"] for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
