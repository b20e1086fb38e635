#!/usr/bin/python3
"""A minute of ten times more requests than a cluster can serve: it must keep serving, within its memory, and recover soon.

    overload.py --build build/release --model deploy/demo-model/model [--seconds 60] [--times 10]

One `troupe up`, one kind of request (8 to 32 prompt tokens, 32 to 64 new ones), four loads one after another:

peak      as many requests at a time as the workers run: what the cluster can do
before    half as many a second as it can do: how long one waits for a first token
overload  --times as many a second, for --seconds
after     as `before`, from the end of the overload on; what began in its first 5 s does not count

Goodput: tokens a second of answers whose first token came within --objective seconds. Printed: a table. Fails when the goodput of the
overload is below 90 % of that of the peak, when the 99th percentile of the time to the first token of those that were answered is
beyond the objective, when the processes together take --memory more than after the peak, when a refusal is no 429 or 503, or names
no time to come again, or when 5 s after the overload a request fails or waits as long as twice before and 100 ms more.

The clients run at a lower priority (nice 10), since theirs would be other machines. On one machine they take processors from the cluster all
the same, the more the more requests they send: the last lines print whose processor time the load was, and how many tokens the cluster made of
a second of its own, against the peak. What is missing there is what refusals cost.
"""
import argparse
import collections
import contextlib
import http.client
import json
import os
import pathlib
import re
import resource
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))
from cluster import Cluster  # noqa: E402
from token_times import Load, percentile  # noqa: E402

RECOVERY = 5  # seconds
START = 3  # seconds at the start of a load that do not count
SEATS = 64  # --max-num-seqs, as it is by default


def memory_of(pids):
    """@returns bytes that these processes have in memory"""
    sum_kib = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
            sum_kib += int(re.search(r"^VmRSS:\s+(\d+)", status, re.MULTILINE).group(1))
    return sum_kib << 10


def cpu_of(pids):
    """@returns {name: seconds that these processes have computed}"""
    ticks = os.sysconf("SC_CLK_TCK")
    result = {}
    for name, pid in pids.items():
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            result[name] = (int(fields[11]) + int(fields[12])) / ticks
    return result


class Watch:
    """Looks at the processes' memory and at what a refused client is told until it is stopped."""

    def __init__(self, cluster):
        self.cluster, self.over, self.most = cluster, threading.Event(), 0
        self.told = collections.Counter()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        while not self.over.wait(0.25):  # polls other processes
            self.most = max(self.most, memory_of(self.cluster.pids().values()))
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, headers, _ = self.cluster.request("POST", "/v1/completions", {"prompt": "once", "max_tokens": 1})
                self.told[status, headers.get("retry-after")] += 1

    def stop(self):
        self.over.set()
        self.thread.join()


class Phase:
    """What became of the requests of a report that began from `begin` on, in seconds from its start, until it ended."""

    def __init__(self, report, begin, end, objective):
        rows = [row for row in zip(report["start_times"], report["ttfts"], report["latencies"], report["output_lens"], report["errors"])
                if row[0] >= begin]
        served = [row for row in rows if not row[4]]
        self.first = sorted(row[1] for row in served)
        self.sent, self.served, self.errors = len(rows), len(served), collections.Counter(re.sub(r"\d+", "N", row[4])[:120] for row in rows if row[4])
        # Answers that ended in the span. At its start some of them began before it; at its end some that began in it are missing.
        all_rows = zip(report["start_times"], report["ttfts"], report["latencies"], report["output_lens"], report["errors"])
        self.goodput = sum(tokens for start, first, took, tokens, error in all_rows
                           if not error and first <= objective and begin <= start + took < end) / (end - begin)

    def p99(self):
        return percentile(self.first, 99) if self.first else float("nan")


def run(cluster, options, folder, name, seconds, **flags):
    load = Load(options.build / "bin", cluster.port, folder / f"{name}.json", num_prompts=300_000, duration=seconds,
                random_input_len="8:32", random_output_len="32:64", random_vocab_size=256, timeout=120, seed=len(name), **flags)
    os.setpriority(os.PRIO_PROCESS, load.process.pid, 10)
    return load


class ProcessorTime:
    """What the cluster's processes and the clients of one load have computed, in seconds."""

    def __init__(self, cluster):
        self.cluster, self.begin, self.waited = cluster, cpu_of(cluster.pids()), clients_time()
        self.of, self.clients = {}, 0.0

    def cluster_is_done(self):
        self.of = {name: seconds - self.begin.get(name, 0) for name, seconds in cpu_of(self.cluster.pids()).items()}

    def clients_are_done(self):
        self.clients = clients_time() - self.waited

    def total(self):
        return sum(self.of.values())


def clients_time():
    """@returns seconds that clients have computed which have ended"""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(options, folder):
    """@returns {phase: Phase}, requests/s at the peak, memory after it, Watch of the overload, ProcessorTime of peak and overload"""
    flags = ["--expert-workers", "2", "--max-queue-wait", str(options.queue_wait), "--access-log", "off", "--planner", "off"]
    with Cluster(options.build / "bin", "up", options.model, *flags, run_dir=folder / "run", log=folder / "up.log") as cluster:
        limit = 20 * options.seconds + 120
        cpu = {"peak": ProcessorTime(cluster)}
        peak = run(cluster, options, folder, "peak", options.peak, max_concurrency=SEATS).report(limit)
        cpu["peak"].cluster_is_done()
        cpu["peak"].clients_are_done()
        phases = {"peak": Phase(peak, START, options.peak, options.objective)}
        ends = [start + took for start, took, error in zip(peak["start_times"], peak["latencies"], peak["errors"]) if not error]
        rate = sum(START <= end < options.peak for end in ends) / (options.peak - START)
        before = run(cluster, options, folder, "before", options.peak, request_rate=rate / 2).report(limit)
        phases["before"] = Phase(before, START, options.peak, options.objective)
        memory = memory_of(cluster.pids().values())
        watch = Watch(cluster)
        cpu["overload"] = ProcessorTime(cluster)
        overload = run(cluster, options, folder, "overload", options.seconds, request_rate=options.times * rate)
        time.sleep(options.seconds)
        cpu["overload"].cluster_is_done()
        after = run(cluster, options, folder, "after", options.peak, request_rate=rate / 2)
        phases["overload"] = Phase(overload.report(limit), START, options.seconds, options.objective)
        cpu["overload"].clients_are_done()
        watch.stop()
        phases["after"] = Phase(after.report(limit), RECOVERY, options.peak, options.objective)
        return phases, rate, memory, watch, cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=60, help="of the overload")
    parser.add_argument("--peak", type=float, default=20, help="seconds of each other load")
    parser.add_argument("--times", type=float, default=10)
    parser.add_argument("--queue-wait", type=int, default=3, help="--max-queue-wait of the scheduler, in seconds")
    parser.add_argument("--objective", type=float, default=5, help="seconds to the first token")
    parser.add_argument("--memory", type=int, default=256, help="MiB more than after the peak")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder:
        phases, rate, memory, watch, cpu = measure(options, pathlib.Path(folder))
    print(f"{rate:.1f} requests/s at the peak; memory {memory >> 20} MiB after it, at most {watch.most >> 20} MiB in the overload\n")
    print("| load | sent | answered | goodput, tokens/s | time to the first token, s: median | p99 |\n|---|---|---|---|---|---|")
    for name, phase in phases.items():
        median = percentile(phase.first, 50) if phase.first else float("nan")
        print(f"| {name} | {phase.sent} | {phase.served} | {phase.goodput:.0f} | {median:.3f} | {phase.p99():.3f} |")
    print()
    made = {}
    for name, seconds in (("peak", options.peak), ("overload", options.seconds)):
        made[name] = phases[name].goodput * seconds / cpu[name].total()
        print(f"processor time, {name}, s: " + ", ".join(f"{who} {time:.1f}" for who, time in cpu[name].of.items())
              + f", clients {cpu[name].clients:.1f}; {made[name]:.0f} tokens of a second of the cluster's")
    print(f"goodput is {100 * phases['overload'].goodput / phases['peak'].goodput:.0f} % of the peak's; of a second of its own the cluster makes"
          f" {100 * made['overload'] / made['peak']:.0f} % of the peak's tokens")
    print("errors of the overload:", *(f"\n  {count} times {text}" for text, count in phases["overload"].errors.most_common(5)))
    print("a client beside it was told:", ", ".join(f"{status} (Retry-After {after}): {count}" for (status, after), count in watch.told.items()))
    if options.json:
        options.json.write_text(json.dumps({name: {"sent": p.sent, "served": p.served, "goodput": p.goodput, "p99": p.p99()}
                                            for name, p in phases.items()}, indent=1), encoding="utf-8")
    before, overload, after = phases["before"], phases["overload"], phases["after"]
    missed = []
    if overload.goodput < 0.9 * phases["peak"].goodput:
        missed.append("goodput is below 90 % of the peak")
    if not overload.p99() <= options.objective:
        missed.append("answers begin too late")
    if watch.most > memory + (options.memory << 20):
        missed.append("too much memory")
    if any(status not in (200, 429, 503) or (status != 200 and not told) for status, told in watch.told):
        missed.append("a refusal does not say when to come again")
    if after.served < after.sent or not after.p99() <= 2 * before.p99() + 0.1:
        missed.append(f"not well again {RECOVERY} s after")
    if missed:
        sys.exit(f"overload: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
