#!/usr/bin/python3
"""Compares the automatic plan of kernels with the fastest forced one, for each format and number of rows.

    plan_cells.py --model DIR [--build build/release] [--work DIR] [--rounds 3] [--quick] [--columns "16 bit,int8,int4"]
                  [--cells prefill] [--threads N] [--plan FILE] [--peer FILE] [--json FILE]
    plan_cells.py --docs docs/kernels.md FILE.json...

The first measures. engine_bench (`ninja -C build/release engine_bench`) loads the model plain and with coded exponents,
mapped and copied, and each of these takes one plan after the other: the automatic one, which is measured first as a server
would; the default of each instruction set; and one for each kernel that a plan can name, which takes all rows that it can.
Rounds alternate. What is 1.3 times as slow as the fastest forced one is not asked again in that cell. Among so many
the fastest is so by chance, too: in the end the automatic plan and the fastest other one are asked in turn, twice as often
as there were rounds, and the ratio of those medians is the cell's. Each row is printed, and the JSON written, when it is
there. All plans have to choose the same tokens.

--work holds packed weights (8 GB for shape A, once) and the plans. --peer is what peer.sh wrote with --json. --quick takes
a few minutes to show that all of it works, not how fast anything is.

The second puts one table a machine into a document, between its lines 'plan_cells: begin' and 'plan_cells: end'.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from peer import CELLS, COLUMNS, Engine, floor_tokens_per_second

QUICK_CELLS = [("decode, batch 1", "decode 1 4"), ("decode, batch 8", "decode 8 2"), ("decode, batch 32", "decode 32 1"),
               ("prefill 512", "prefill 512")]
# Weights of a column's matrices, by coding.
KINDS = {"16 bit": {"plain": "bf16", "coded": "bf16_coded"}, "int8": {"plain": "int8_int8"}, "int4": {"plain": "int4_int8"}}
AUTOMATIC = "automatic"
HOPELESS = 1.3
HEADER = ["| tokens/s | automatic | fastest forced | automatic / forced | floor | automatic of it | peer | automatic / peer |",
          "|---|---|---|---|---|---|---|---|"]
BEGIN, END = "<!-- plan_cells: begin -->", "<!-- plan_cells: end -->"


def is_coded(plan_text):
    return "\ncoded_weights yes\n" in plan_text


def variants_of(column, plan_names, automatic_text, default):
    """What is compared in a column: {name: (coding, memory, plan's name)}, the automatic plan first.

    @param plan_names of files of `engine_bench --plans`
    @param default of the best instruction set, whose plan is tried with copied weights as well"""
    kinds = KINDS[column]
    own = "coded" if "coded" in kinds and is_coded(automatic_text) else "plain"
    found = {AUTOMATIC: (own, "mapped", AUTOMATIC)}
    for coding, kind in kinds.items():
        for name in sorted(plan_names):
            is_set = "." not in name
            if is_set or name.startswith(kind + "."):
                label = name if is_set else name.split(".", 1)[1]
                found[f"{label}, {coding}" if len(kinds) > 1 else label] = (coding, "mapped", name)
        for name in (AUTOMATIC, default):
            label = name if len(kinds) == 1 else f"{name}, {coding}"
            found[f"{label}, copied"] = (coding, "copied", name)
            if name == AUTOMATIC and coding != own:
                found[label] = (coding, "mapped", name)
    return found


def still_asked(rates):
    """The automatic plan and the forced ones that are worth another round, in order. @param rates {name: tokens/s so far}"""
    best = max(max(values) for name, values in rates.items() if name != AUTOMATIC)
    return [name for name, values in rates.items() if name == AUTOMATIC or HOPELESS * max(values) >= best]


def row_of(column, cell, peer):
    """A line of the table. @param peer {"rate": tokens/s} or nothing"""
    words = [f"{column}, {cell['cell']}", f"{cell['automatic']:.1f}", f"{cell['best']:.1f} ({cell['best_name']})",
             f"**{cell['ratio']:.2f}**", f"{cell['floor']:.0f}", f"{100 * cell['automatic'] / cell['floor']:.0f} %"]
    words += [f"{peer['rate']:.1f}", f"**{cell['automatic'] / peer['rate']:.2f}**"] if peer else ["–", "–"]
    return "| " + " | ".join(words) + " |"


def table_of(result):
    """One machine's, with what it was measured on."""
    lines = [f"{result['processor']}, {result['threads']} threads, {result['model']}, {result['commit']},"
             f" {result['rounds']} rounds, {result['date']}" + (" (quick: not a measurement)" if result["quick"] else "") + ":", ""]
    lines += HEADER
    for column in result["columns"]:
        lines += [row_of(column["column"], cell, cell.get("peer")) for cell in column["cells"]]
    return "\n".join(lines)


def with_tables(document, tables):
    """A document with other tables between its marks."""
    before, rest = document.split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + "\n\n" + "\n\n".join(tables) + "\n\n" + END + after


def peer_rates(path):
    """{(column, cell): {"rate", "name"}} of what peer.py wrote."""
    if not path:
        return {}
    results = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    return {(result["column"], cell): {"rate": e["peer_rate"], "name": e["peer"]}
            for result in results for cell, e in result["cells"].items()}


class Bench:
    """engine_bench of one build, model and work folder."""

    def __init__(self, args):
        self.program = [str(args.build / "tests" / "engine_bench"), args.model]
        self.threads = ["--threads", str(args.threads)]
        self.work = args.work
        self.plans = args.work / "plans"

    def flags(self, column):
        return [*self.threads, "--weights-cache", str(self.work), *COLUMNS[column][1]]

    def write_plans(self):
        """@returns ({name}, the best instruction set)"""
        self.plans.mkdir(parents=True, exist_ok=True)
        for old in self.plans.glob("*.txt"):
            old.unlink()
        subprocess.run([*self.program, *self.threads, "--plans", str(self.plans)], check=True)
        names = {path.stem for path in self.plans.glob("*.txt")}
        sets = [name for name in names if "." not in name]
        # The plans that force a kernel begin like the best set's default.
        forced = next(path for path in self.plans.glob("*.*.txt"))
        best = forced.read_text(encoding="utf-8").split("\nset ")[1].split("\n")[0]
        assert best in sets, (best, sets)
        return names, best

    def measure_plan(self, column, given, best):
        """The plan that a server would compute with, measured now: its text."""
        if given:
            return pathlib.Path(given).read_text(encoding="utf-8")
        for old in self.work.glob("kernel-plan-*.txt"):
            old.unlink()
        engine = Engine(AUTOMATIC, [*self.program, *self.flags(column)])
        engine.close()
        kept = list(self.work.glob("kernel-plan-*.txt"))
        if not kept:  # too busy to measure, as engine_bench has reported
            print(f"{column}: no plan was measured; the default is what a server would take", file=sys.stderr)
            return (self.plans / f"{best}.txt").read_text(encoding="utf-8")
        return kept[0].read_text(encoding="utf-8")

    def start(self, column, coding, memory):
        flags = ["--kernel-plan", "default", "--weights-memory", memory,
                 "--weight-coding", "exponents" if coding == "coded" else "none"]
        return Engine(f"{coding}, {memory}", [*self.program, *self.flags(column), *flags])

    def limits(self):
        return Engine("limits", [*self.program, *self.threads, "--limits-only"])


def ask(engines, variant, plans, command):
    """One answer of an engine that takes a variant's plan first. @returns tokens/s, or the answer where there are none"""
    coding, memory, plan = variant
    engine = engines[coding, memory]
    if not engine.ask(f"plan {plans / (plan + '.txt')}")["plan"]:
        raise SystemExit(f"plan_cells.py: {engine.name} refuses the plan {plan}")
    answer = engine.ask(command)
    time.sleep(0.005)  # threads that spin for work go to sleep
    return answer["tokens"] / answer["seconds"] if "tokens" in answer else answer


def measure_cell(args, engines, variants, plans, command):
    """@returns (rates of all rounds, name of the fastest forced one, its rates and the automatic plan's in turn)"""
    rates = {name: [] for name in variants}
    names = list(variants)
    for number in range(args.rounds):
        for name in names if number % 2 == 0 else reversed(names):
            rates[name].append(ask(engines, variants[name], plans, command))
        names = still_asked(rates)
    medians = {name: statistics.median(rates[name]) for name in names}
    best = max((name for name in names if name != AUTOMATIC), key=medians.get)
    duel = {AUTOMATIC: [], best: []}
    for number in range(2 * args.rounds):
        for name in duel if number % 2 == 0 else reversed(duel):
            duel[name].append(ask(engines, variants[name], plans, command))
    return rates, best, duel


def measure_column(args, bench, column, peers, done):
    """@param done called with the column so far after each cell"""
    config = json.loads(pathlib.Path(args.model, "config.json").read_text(encoding="utf-8"))
    plan_names, best_set = bench.write_plans()
    plan = bench.measure_plan(column, args.plan, best_set)
    (bench.plans / f"{AUTOMATIC}.txt").write_text(plan, encoding="utf-8")
    variants = variants_of(column, plan_names, plan, best_set)
    result = {"column": column, "plan": plan, "load_average": [os.getloadavg()[0]], "cells": []}
    with contextlib.ExitStack() as stack:
        engines = {}
        for coding, memory, _ in variants.values():
            if (coding, memory) not in engines:
                engines[coding, memory] = bench.start(column, coding, memory)
                stack.callback(engines[coding, memory].close)
        limiter = bench.limits()
        stack.callback(limiter.close)
        tokens = {name: ask(engines, variant, bench.plans, "greedy 8 3")["greedy"] for name, variant in variants.items()}
        result["greedy"] = tokens[AUTOMATIC]
        if others := [name for name, chosen in tokens.items() if chosen != tokens[AUTOMATIC]]:
            raise SystemExit(f"plan_cells.py: {column}: {', '.join(others)} choose other tokens than the automatic plan")
        for name, command in QUICK_CELLS if args.quick else CELLS:
            if args.cells not in name:
                continue
            limits = [limiter.ask("limits")]
            rates, best, duel = measure_cell(args, engines, variants, bench.plans, command)
            limits.append(limiter.ask("limits"))
            mean = {key: statistics.mean(one[key] for one in limits) for key in limits[0]}
            medians = {who: statistics.median(values) for who, values in duel.items()}
            cell = {"cell": name, "command": command, "rates": rates, "duel": duel, "best_name": best, "best": medians[best],
                    "automatic": medians[AUTOMATIC], "ratio": medians[AUTOMATIC] / medians[best], "limits": limits,
                    "floor": floor_tokens_per_second(config, COLUMNS[column][0], mean, command, 2)}
            if (column, name) in peers:
                cell["peer"] = peers[column, name]
            result["cells"].append(cell)
            print(row_of(column, cell, cell.get("peer")), flush=True)
            done(result)
    result["load_average"].append(os.getloadavg()[0])
    return result


def processor_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def measure(args):
    args.work.mkdir(parents=True, exist_ok=True)
    peers = peer_rates(args.peer)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False,
                            cwd=pathlib.Path(__file__).parent).stdout.strip()
    result = {"processor": args.machine or processor_name(), "threads": args.threads, "model": pathlib.Path(args.model).name,
              "commit": commit, "date": time.strftime("%Y-%m-%d"), "rounds": args.rounds, "quick": args.quick, "columns": []}

    def write(column):
        if args.json:
            whole = {**result, "columns": [*result["columns"], column]}
            pathlib.Path(args.json).write_text(json.dumps(whole, indent=1), encoding="utf-8")

    begin = time.monotonic()
    print("\n".join(HEADER), flush=True)
    bench = Bench(args)
    for column in args.columns.split(","):
        done = measure_column(args, bench, column, peers, write)
        write(done)
        result["columns"].append(done)
        print(f"{column}: {time.monotonic() - begin:.0f} s so far", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="Hugging Face folder of a model in BF16")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/troupe-plan-cells"), help="for packed weights and plans")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round of few steps")
    parser.add_argument("--columns", default=",".join(COLUMNS), help=f"of {', '.join(COLUMNS)}")
    parser.add_argument("--cells", default="", help="only cells whose name contains this, e.g. prefill")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--plan", help="in the place of the automatic plan, e.g. what `troupe tune --out` wrote")
    parser.add_argument("--peer", help="JSON of peer.sh on this machine and model")
    parser.add_argument("--machine", help="its name in the table, where /proc/cpuinfo says too little")
    parser.add_argument("--json", help="where to write everything measured")
    parser.add_argument("--docs", type=pathlib.Path, help="the document that gets the tables of FILE.json...")
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="with --docs: what --json wrote, a machine a file")
    args = parser.parse_args()
    if args.docs:
        tables = [table_of(json.loads(path.read_text(encoding="utf-8"))) for path in args.files]
        args.docs.write_text(with_tables(args.docs.read_text(encoding="utf-8"), tables), encoding="utf-8")
        return
    if not args.model or args.files:
        parser.error("--model DIR is needed to measure, and FILE.json goes with --docs alone")
    if unknown := set(args.columns.split(",")) - set(COLUMNS):
        parser.error(f"--columns: {', '.join(sorted(unknown))}: not one of {', '.join(COLUMNS)}")
    if args.quick:
        args.rounds = 1
    measure(args)


if __name__ == "__main__":
    main()
