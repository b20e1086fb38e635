#!/usr/bin/env python3
"""Inter-token times while weights travel on the same connection, with lanes and with one lane for all: alternating runs.

    tests/bench/lanes_bench.py [--program build/release/tests/lanes_bench] [--runs 5] [further flags of the program]

Ends with status 1 when the median over the runs of (99th percentile beside 500 MB of weights / undisturbed) exceeds
1.2 with lanes.
"""

import argparse
import json
import statistics
import subprocess
import sys

LIMIT = 1.2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/tests/lanes_bench")
    parser.add_argument("--runs", type=int, default=5)
    args, further = parser.parse_known_args()

    rows = {"lanes": [], "one-lane": []}
    for _ in range(args.runs):
        for kind, readings in rows.items():
            done = subprocess.run([args.program, kind, *further], stdout=subprocess.PIPE, text=True, timeout=600,
                                  check=False)
            if done.returncode != 0:
                sys.exit(f"{kind}: exit status {done.returncode}")
            readings.append(json.loads(done.stdout))

    ratios = {}
    print(f"medians of {args.runs} alternating runs; times of a token in ms")
    print("| kind | undisturbed p50 | p99 | beside weights p50 | p99 | p99 ratio | weights, MB/s |")
    print("|" + "---|" * 7)
    for kind, readings in rows.items():
        ratios[kind] = statistics.median(x["beside_p99_ms"] / x["quiet_p99_ms"] for x in readings)
        cells = [statistics.median(x[name] for x in readings)
                 for name in ("quiet_p50_ms", "quiet_p99_ms", "beside_p50_ms", "beside_p99_ms")]
        print(f"| {kind} | " + " | ".join(f"{x:.2f}" for x in cells) + f" | {ratios[kind]:.2f} "
              f"| {statistics.median(x['weights_mb_per_s'] for x in readings):.0f} |")
    sys.exit(0 if ratios["lanes"] <= LIMIT else 1)


if __name__ == "__main__":
    main()
