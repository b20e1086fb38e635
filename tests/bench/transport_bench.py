#!/usr/bin/env python3
"""Compares the transport with CAF's BASP: alternating runs, medians, ratios.

    tests/bench/transport_bench.py [--program build/release/tests/transport_bench] [--rounds 7] [--milliseconds 300]

Prints one row per payload size. Ratios above 1 favour the transport: throughput over throughput at 8 in flight, and
BASP's median round trip over ours at 1 in flight.
"""

import argparse
import collections
import json
import statistics
import subprocess
import sys

SIZES = [0, 64, 8192, 131072, 1048576]
NAMES = {0: "0 B", 64: "64 B", 8192: "8 KiB", 131072: "128 KiB", 1048576: "1 MiB"}
KINDS = ["tcp", "shm", "basp"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/tests/transport_bench")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--milliseconds", type=int, default=300)
    args = parser.parse_args()

    readings = collections.defaultdict(list)
    for _ in range(args.rounds):
        for kind in KINDS:
            done = subprocess.run(
                [args.program, kind, "--milliseconds", str(args.milliseconds)],
                stdout=subprocess.PIPE, text=True, timeout=120, check=False)
            if done.returncode != 0:
                sys.exit(f"{kind}: exit status {done.returncode}")
            for line in done.stdout.splitlines():
                row = json.loads(line)
                readings[kind, row["bytes"], row["in_flight"]].append(row)

    def median(kind, size, in_flight, field):
        return statistics.median(row[field] for row in readings[kind, size, in_flight])

    print(f"medians of {args.rounds} alternating runs of {args.milliseconds} ms each")
    print("| payload | round trip, us: tcp | shm | BASP | tcp ratio | shm ratio "
          "| requests/s at 8: tcp | shm | BASP | tcp ratio | shm ratio |")
    print("|" + "---|" * 11)
    for size in SIZES:
        trip = {kind: median(kind, size, 1, "p50_us") for kind in KINDS}
        rate = {kind: median(kind, size, 8, "per_second") for kind in KINDS}
        print(f"| {NAMES[size]} | {trip['tcp']:.0f} | {trip['shm']:.0f} | {trip['basp']:.0f} "
              f"| {trip['basp'] / trip['tcp']:.2f} | {trip['basp'] / trip['shm']:.2f} "
              f"| {rate['tcp']:.0f} | {rate['shm']:.0f} | {rate['basp']:.0f} "
              f"| {rate['tcp'] / rate['basp']:.2f} | {rate['shm'] / rate['basp']:.2f} |")


if __name__ == "__main__":
    main()
