#!/usr/bin/python3
"""Many real worker processes on one machine: start, idle cost, and random kill -9 under load.

    many_workers.py --build build/release --model DIR [--experts 40] [--attention 4] [--replicas 2] [--streams 32]
                    [--seconds 300] [--pause 3] [--seed 1]

start    from the start of `troupe up` to the first 200 of /ready, every worker having joined.
idle     processor time of each role's processes over --idle seconds without requests.
chaos    --streams clients repeat seeded requests, each compared with the answer of the undisturbed cluster, while a
         random worker dies every --pause seconds on average and the supervisor restarts it.

Fails when an answer differs, a request fails, or not all workers are back in the end.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))
from cluster import Cluster, run_all  # noqa: E402
from workload import essence, requests  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """User and system time of a process, or None when it has ended."""
    with contextlib.suppress(OSError):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
    return None


def resident_mib(pid):
    """Memory that a process has to itself, and its share of what it shares (PSS)."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def role_of(name):
    return name.rsplit("-", 1)[0]


def joined(cluster):
    """How many workers the scheduler knows, by role."""
    workers = json.loads(cluster.request("GET", "/cluster")[2])["workers"]
    return collections.Counter(worker["role"] for worker in workers)


def wait_for_all(cluster, wanted, seconds):
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, KeyError, ValueError):
            if all(joined(cluster)[role] == count for role, count in wanted.items()):
                if cluster.request("GET", "/ready")[0] == 200:
                    return
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds} s: {joined(cluster)}, not {wanted}")
        time.sleep(0.05)  # polls another process


def measure_idle(cluster, seconds):
    time.sleep(2)  # after the last join or answer
    pids = cluster.pids()
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    began = time.monotonic()
    time.sleep(seconds)
    span = time.monotonic() - began
    used = collections.defaultdict(list)
    for name, pid in pids.items():
        after = cpu_seconds(pid)
        if before[name] is None or after is None:
            raise AssertionError(f"{name} ended while nothing ran")
        used[role_of(name)].append((100 * (after - before[name]) / span, resident_mib(pid)))
    print(f"idle, {span:.0f} s: percent of a core and MiB of each process (mean, most)")
    for role, values in sorted(used.items()):
        cpu, memory = zip(*values)
        print(f"  {role:10} {len(values):3} processes  {sum(cpu) / len(cpu):6.2f} {max(cpu):6.2f} %   "
              f"{sum(memory) / len(memory):6.1f} {max(memory):6.1f} MiB")


def chaos(cluster, work, expected, options):
    rng = random.Random(options.seed)
    kills, answered, longest = collections.Counter(), [0], [0.0]
    lock, end = threading.Lock(), time.monotonic() + options.seconds
    over = threading.Event()

    def client(first):
        number = first
        while time.monotonic() < end and not over.is_set():
            path, body = work[number % len(work)]
            began = time.monotonic()
            try:
                got = essence(cluster.post(path, body, timeout=180))
                if got != expected[number % len(work)]:
                    raise AssertionError(f"request {number % len(work)} differs:\n{got[:800]}\n"
                                         f"{expected[number % len(work)][:800]}")
            except BaseException:
                over.set()
                raise
            with lock:
                answered[0] += 1
                longest[0] = max(longest[0], time.monotonic() - began)
            number += options.streams

    def killer():
        while not over.wait(rng.expovariate(1 / options.pause)):
            if time.monotonic() >= end:
                return
            names = [name for name in sorted(cluster.pids()) if role_of(name) in ("expert", "attention", "scheduler")]
            name = rng.choice(names)
            with contextlib.suppress(ProcessLookupError, KeyError):
                os.kill(cluster.pids()[name], signal.SIGKILL)
                kills[role_of(name)] += 1

    death = threading.Thread(target=killer)
    death.start()
    try:
        run_all([lambda n=n: client(n) for n in range(options.streams)], workers=options.streams)
    finally:
        over.set()
        death.join()
    print(f"chaos, {options.seconds} s: {answered[0]} requests, all as undisturbed; the longest took {longest[0]:.1f} s; "
          f"killed: {dict(sorted(kills.items()))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--experts", type=int, default=40)
    parser.add_argument("--attention", type=int, default=4)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--idle", type=float, default=30)
    parser.add_argument("--pause", type=float, default=3, help="mean seconds between two deaths")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=64, help="most tokens of an answer")
    options = parser.parse_args()
    wanted = {"expert": options.experts, "attention": options.attention}
    work = requests(options.seed, 2 * options.streams, 250, max_tokens=options.tokens)
    with tempfile.TemporaryDirectory(prefix="many-workers-") as folder:
        folder = pathlib.Path(folder)
        began = time.monotonic()
        with Cluster(options.build / "bin", "up", options.model, "--attention-workers", str(options.attention),
                     "--expert-workers", str(options.experts), "--replicas", str(options.replicas), "--threads", "1",
                     "--served-model-name", "m", run_dir=folder / "run", log=folder / "up.log") as cluster:
            ready = time.monotonic() - began
            wait_for_all(cluster, wanted, 120)
            print(f"start: ready after {ready:.1f} s, all {sum(wanted.values())} workers after "
                  f"{time.monotonic() - began:.1f} s")
            measure_idle(cluster, options.idle)
            expected = run_all([lambda r=r: essence(cluster.post(*r)) for r in work], workers=options.streams)
            chaos(cluster, work, expected, options)
            wait_for_all(cluster, wanted, 120)
            again = run_all([lambda r=r: essence(cluster.post(*r)) for r in work], workers=options.streams)
            assert again == expected, "the answers after all deaths differ"
            print("after it: all workers are back, all answers as undisturbed")


if __name__ == "__main__":
    main()
