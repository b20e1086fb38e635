#!/usr/bin/env python3
"""Draws the results of planner_balance --json: the load of the busiest device, by strategy and devices, as a PNG.

    build/release/tests/planner_balance tests/bench/traces/*.jsonl --json balance.json
    tests/bench/planner_balance.py balance.json --out balance.png
"""

import argparse
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

STYLES = {
    "static": ("tab:gray", "o"),
    "greedy": ("tab:blue", "s"),
    "anti-correlation": ("tab:purple", "v"),
    "EPLB-like": ("tab:orange", "D"),
    "search": ("tab:green", "P"),
    "hindsight": ("black", "x"),
}


def by_trace(records):
    """Returns {(trace, redundant): [records by devices]}; the first record of a trace and D has the fewer slots."""
    result, seen = {}, set()
    for record in records:
        case = record["trace"], record["devices"]
        result.setdefault((record["trace"], case in seen), []).append(record)
        seen.add(case)
    return result


def draw(records, out):
    traces = by_trace(records)
    names = list(dict.fromkeys(record["trace"] for record in records))
    figure, axes = pyplot.subplots(
        2, len(names), figsize=(2.6 * len(names), 6), sharex=True, squeeze=False, layout="constrained"
    )
    for column, name in enumerate(names):
        for row, redundant in enumerate((False, True)):
            axis = axes[row][column]
            cases = traces[name, redundant]
            for strategy, (color, marker) in STYLES.items():
                found = [case["strategies"][strategy] for case in cases]
                average = [value["average"] for value in found]
                errors = [
                    [value["average"] - value.get("low", value["average"]) for value in found],
                    [value.get("high", value["average"]) - value["average"] for value in found],
                ]
                devices = [case["devices"] for case in cases]
                axis.errorbar(devices, average, errors, color=color, marker=marker, ms=4, lw=1, label=strategy)
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set_xticks([case["devices"] for case in cases], [str(case["devices"]) for case in cases])
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("{x:g}")
            axis.tick_params(axis="y", which="both", labelsize=6)
            axis.grid(alpha=0.3)
        axes[0][column].set_title(name.replace("_", " ").replace(" to ", "\nto "), fontsize=9)
        axes[1][column].set_xlabel("devices")
    axes[0][0].set_ylabel("busiest / mean,\nas many slots as experts")
    axes[1][0].set_ylabel("busiest / mean,\na quarter more slots")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=len(labels))
    figure.savefig(out, dpi=110, bbox_inches="tight")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", type=pathlib.Path, help="what planner_balance --json wrote")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the PNG")
    arguments = parser.parse_args()
    draw(json.loads(arguments.records.read_text()), arguments.out)


if __name__ == "__main__":
    main()
