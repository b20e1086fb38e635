#!/usr/bin/python3
"""Measures whether clients notice moves of experts: time between tokens with and without a migration of half the experts.

    hitless_migration.py --build build/release --model deploy/demo-model/model [--weights-from peers] [--out hitless.png]

`troupe up` with --experts expert workers, the planner off. A steady load (requests at fixed intervals) runs throughout, and
--windows blocks of three windows follow one another, each block in an order drawn from --seed:

with      half the experts of every worker and layer move to the next worker; when they have arrived they move back, and so
          on until --seconds have passed, so that experts move all the time
without   nothing moves
again     nothing moves either: the ratio of "again" to "without" is what chance alone does (A/A)

Printed: the 99th percentile of time between tokens of each kind, the ratios with/without and again/without with their
95 % intervals (bootstrap over blocks), how long migrations took, failed requests, and answers that are not byte for byte
those of the same requests in the undisturbed cluster. Fails when the upper end of the interval of with/without is above
--limit, a request failed, or an answer differs.
"""

import argparse
import json
import pathlib
import random
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))
from cluster import Cluster  # noqa: E402
from placement_control import POLL, Control, half_moved  # noqa: E402
from token_times import Load, gaps_between, merged, percentile, ratio_of_percentiles, tokens_of  # noqa: E402

KINDS = ("with", "without", "again")
CHECKOUT = pathlib.Path(__file__).resolve().parent.parent.parent
LEAD = 3  # seconds of load before the first window and after the last one
MIGRATION_TIMEOUT = 120


def order_of(blocks, seed):
    """@returns [kinds in the order of one block]"""
    draw = random.Random(seed)
    return [draw.sample(KINDS, len(KINDS)) for _ in range(blocks)]


class Migrations:
    """Half of the experts, there and back."""

    def __init__(self, control):
        self.control = control
        self.home, workers = control.placement()
        self.away = half_moved(self.home, workers)
        if not self.away:
            raise SystemExit("hitless_migration: no expert can move: more expert workers than hosts of an expert are needed")
        self.is_home, self.seconds, self.answers = True, [], []

    def move(self):
        """One migration, to its end."""
        wanted = self.away if self.is_home else {key: self.home[key] for key in self.away}
        began = time.monotonic()
        answer = self.control.assign(wanted)
        last = self.control.wait_done(MIGRATION_TIMEOUT)["last"] or {}
        told = last.get("elapsed_ms") if last.get("id") == answer["change"] else None
        self.seconds.append(time.monotonic() - began if told is None else told / 1e3)
        self.answers.append({key: answer.get(key) for key in ("change", "moves", "bytes")})
        held, _ = self.control.placement()
        wrong = [key for key, names in wanted.items() if sorted(held[key]) != sorted(names)]
        if wrong:
            raise RuntimeError(f"after the change {len(wrong)} experts are not where they were assigned, as {wrong[0]}")
        self.is_home = not self.is_home

    def move_until(self, end):
        self.move()
        while time.monotonic() < end:
            self.move()


def run_windows(options, migrations):
    """@returns [{kind: (begin, end) in Unix time} of each block]"""
    blocks = []
    for number, kinds in enumerate(order_of(options.windows, options.seed), 1):
        block = {}
        for kind in kinds:
            time.sleep(options.pause)  # the previous window's effects must not reach this one
            begin, end = time.time(), time.monotonic() + options.seconds
            if kind == "with":
                migrations.move_until(end)
            else:
                while time.monotonic() < end:
                    migrations.control.state()  # as often as while experts move: requests cost, too
                    time.sleep(POLL)
            block[kind] = (begin, time.time())
        blocks.append(block)
        print(f"block {number} of {options.windows}", file=sys.stderr, flush=True)
    return blocks


def load_flags(options, count):
    flags = {"num_prompts": count, "seed": options.seed, "temperature": 0.8, "save_detailed": "true",
             "random_output_len": options.output_len}
    if options.prompts:
        flags["prompts"] = options.prompts
    else:
        flags.update(random_vocab_size=vocab_size(options.model), random_input_len="8:64")
    return flags


def vocab_size(model):
    return json.loads((pathlib.Path(model) / "config.json").read_text(encoding="utf-8"))["vocab_size"]


def measure(options, folder):
    count = round(options.rate * (options.windows * len(KINDS) * (options.seconds + options.pause) * options.slack + 2 * LEAD))
    flags = load_flags(options, count)
    extra = ["--weights-from", options.weights_from] if options.weights_from != "files" else []
    with Cluster(options.build / "bin", "up", options.model, "--expert-workers", str(options.experts),
                 "--attention-workers", str(options.attention), "--planner", "off", *extra, *options.flags.split(),
                 run_dir=folder / "run", log=folder / "up.log") as cluster:
        migrations = Migrations(Control(cluster))
        undisturbed = Load(options.build / "bin", cluster.port, folder / "undisturbed.json", max_concurrency=16, **flags)
        expected = undisturbed.report(3600)
        load = Load(options.build / "bin", cluster.port, folder / "disturbed.json", request_rate=options.rate,
                    burstiness="inf", **flags)
        try:
            time.sleep(LEAD)
            blocks = run_windows(options, migrations)
        except BaseException:
            load.stop()
            raise
        return blocks, migrations, expected, load.report(3600)


def judge(blocks, migrations, expected, report):
    tokens = tokens_of(report)
    end = max(last for block in blocks for _, last in block.values())
    if tokens[-1][0] < end:
        raise SystemExit(f"hitless_migration: the load ended {end - tokens[-1][0]:.0f} s before the last window; --slack")
    gaps = [{kind: gaps_between(tokens, *span) for kind, span in block.items()} for block in blocks]
    if any(not values for block in gaps for values in block.values()):
        raise SystemExit("hitless_migration: a window without tokens; longer --seconds or a higher --rate")
    answers = list(zip(expected["generated_texts"], report["generated_texts"], report["errors"]))
    return {
        "p99_ms": {kind: 1e3 * percentile(merged(block[kind] for block in gaps), 99) for kind in KINDS},
        "p99_of_windows_ms": {kind: [1e3 * percentile(block[kind], 99) for block in gaps] for kind in KINDS},
        "gaps": {kind: sum(len(block[kind]) for block in gaps) for kind in KINDS},
        "ratio": vars(ratio_of_percentiles([(block["with"], block["without"]) for block in gaps], 99)),
        "ratio_aa": vars(ratio_of_percentiles([(block["again"], block["without"]) for block in gaps], 99)),
        "migrations": len(migrations.seconds),
        "experts": len(migrations.away),
        "migration_seconds": migrations.seconds,
        "migration_answers": migrations.answers,
        "requests": len(answers),
        "failed": expected["failed"] + report["failed"],
        "different": sum(not error and text != want for want, text, error in answers),
    }, gaps


def summary(options, found):
    def ratio(values):
        return f"{values['value']:.3f} (95 %: {values['low']:.3f} to {values['high']:.3f})"

    seconds = found["migration_seconds"]
    p99 = found["p99_ms"]
    return "\n".join([
        f"{options.windows} blocks of windows of {options.seconds:.0f} s, {options.rate:g} requests/s, {options.experts} expert"
        f" workers, weights from {options.weights_from}",
        "time between tokens, p99 ms: " + ", ".join(f"{kind} {p99[kind]:.2f}" for kind in KINDS),
        f"with / without  {ratio(found['ratio'])}",
        f"again / without {ratio(found['ratio_aa'])}",
        f"{found['migrations']} migrations of {found['experts']} experts: {statistics.median(seconds):.2f} s (median),"
        f" {max(seconds):.2f} s at most",
        f"{found['requests']} requests: {found['failed']} failed, {found['different']} answers differ",
    ])


def draw(found, gaps, out):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    colors = dict(zip(KINDS, ("tab:red", "tab:blue", "tab:gray")))
    for kind in KINDS:
        values = merged(block[kind] for block in gaps)
        kept = [1e3 * percentile(values, percent / 20) for percent in range(2001)]
        left.plot(kept, [1 - percent / 2000 for percent in range(2001)], color=colors[kind], label=kind)
        right.plot(range(1, len(gaps) + 1), found["p99_of_windows_ms"][kind], "o-", ms=3, lw=1, color=colors[kind], label=kind)
    left.set(xlabel="time between tokens, ms", ylabel="share of tokens that took longer", xscale="log", yscale="log")
    right.set(xlabel="block", ylabel="p99 of a window, ms", ylim=(0, None))
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.savefig(out, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--flags", default="", help="further flags of troupe up, in one word")
    parser.add_argument("--experts", type=int, default=2, help="expert workers (2)")
    parser.add_argument("--attention", type=int, default=1, help="attention workers (1)")
    parser.add_argument("--weights-from", default="files", choices=("files", "peers"), help="passed on to the expert workers")
    parser.add_argument("--rate", type=float, default=2, help="requests a second (2)")
    parser.add_argument("--output-len", default="32:96", help="tokens of an answer (32:96)")
    parser.add_argument("--prompts", default=str(CHECKOUT / "load" / "prompts" / "python_code.jsonl"),
                        help="JSONL of prompts; empty: random token ids")
    parser.add_argument("--windows", type=int, default=20, help="of each kind (20)")
    parser.add_argument("--seconds", type=float, default=5, help="of a window (5)")
    parser.add_argument("--pause", type=float, default=1, help="seconds between windows (1)")
    parser.add_argument("--slack", type=float, default=1.3, help="how much longer than planned the load lasts (1.3)")
    parser.add_argument("--limit", type=float, default=1.1, help="of the upper end of the interval of with/without (1.1)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path, help="where to write everything measured")
    parser.add_argument("--out", type=pathlib.Path, help="the PNG")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hitless-") as folder:
        found, gaps = judge(*measure(options, pathlib.Path(folder)))
    print(summary(options, found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.out:
        draw(found, gaps, options.out)
    good = found["ratio"]["high"] <= options.limit and found["failed"] == 0 and found["different"] == 0
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
