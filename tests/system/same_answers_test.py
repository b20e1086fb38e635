#!/usr/bin/env python3
"""The same answers everywhere: one process or many, alone or among 200 concurrent requests.

usage: same_answers_test.py BINARIES MODEL_DIR WORK_DIR

Sends a mixed workload, each request alone, to `troupe serve`; then all at once to `troupe serve` and to `troupe up` with
1, 2 and 4 expert workers and 1 and 2 attention workers, with and without coded weights. Every answer, logprobs included,
must be byte-identical.
"""
import pathlib
import sys

from cluster import Cluster, run_all
from workload import essence, requests

NUM_REQUESTS = 200
SHAPES = [(1, 1, "auto"), (1, 2, "exponents"), (2, 4, "none"), (2, 1, "exponents")]  # attention, experts, coding


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    work.mkdir(parents=True, exist_ok=True)
    workload = requests(seed=7, count=NUM_REQUESTS, vocab_size=250)

    def all_at_once(cluster):
        tasks = [lambda path=path, body=body: essence(cluster.post(path, body)) for path, body in workload]
        return run_all(tasks, workers=NUM_REQUESTS)

    flags = ("--served-model-name", "m", "--max-num-seqs", "32", "--kv-cache-memory", "16M")
    with Cluster(binaries, "serve", model, *flags, "--weight-coding", "none", log=work / "serve.log") as cluster:
        alone = [essence(cluster.post(path, body)) for path, body in workload]
        assert len(set(alone)) > NUM_REQUESTS // 2, "the workload is too uniform to prove anything"
        together = all_at_once(cluster)
    compare("troupe serve, all at once", alone, together)
    for attention, expert, coding in SHAPES:
        name = f"troupe up, {attention} attention and {expert} expert workers, coding {coding}"
        run_dir = work / f"up-{attention}-{expert}"
        run_dir.mkdir(exist_ok=True)
        with Cluster(binaries, "up", model, "--attention-workers", str(attention), "--expert-workers", str(expert),
                     "--weight-coding", coding, *flags, run_dir=run_dir, log=work / f"up-{attention}-{expert}.log") as cluster:
            compare(name, alone, all_at_once(cluster))


def compare(name, expected, actual):
    different = [i for i, (a, b) in enumerate(zip(expected, actual)) if a != b]
    for i in different[:3]:
        print(f"{name}: request {i} differs\n  alone: {expected[i][:2000]}\n  here:  {actual[i][:2000]}")
    assert not different, f"{name}: {len(different)} of {len(expected)} answers differ"
    print(f"{name}: {len(actual)} answers, all byte-identical")


if __name__ == "__main__":
    main()
