#!/usr/bin/env python3
"""The same answers everywhere: one process or many, alone or among 200 concurrent requests.

usage: same_answers_test.py BINARIES MODEL_DIR WORK_DIR

Sends a mixed workload, each request alone, to `troupe serve`; then all at once to `troupe serve` and to `troupe up` with
1, 2 and 4 expert workers and 1 and 2 attention workers, with and without coded weights; and with an int8 KV cache to
both again. Every answer, logprobs included, must be byte-identical.
"""
import pathlib
import subprocess
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

    def serve(name, *more):
        with Cluster(binaries, "serve", model, *flags, *more, log=work / f"{name}.log",
                     env={"TROUPE_EXPERT_WORKERS": "2"}) as cluster:  # for `up`
            alone = [essence(cluster.post(path, body)) for path, body in workload]
            assert len(set(alone)) > NUM_REQUESTS // 2, "the workload is too uniform to prove anything"
            together = all_at_once(cluster)
        compare(f"troupe {name}, all at once", alone, together)
        return alone

    def up(expected, attention, expert, *more):
        run_dir = work / "-".join(["up", str(attention), str(expert), *more])
        run_dir.mkdir(exist_ok=True)
        with Cluster(binaries, "up", model, "--attention-workers", str(attention), "--expert-workers", str(expert),
                     *more, *flags, run_dir=run_dir, log=run_dir.with_suffix(".log")) as cluster:
            name = f"troupe up, {attention} attention and {expert} expert workers, {' '.join(more)}"
            compare(name, expected, all_at_once(cluster))

    has_one_expert_worker(binaries, model)
    alone = serve("serve", "--weight-coding", "none")
    for attention, expert, coding in SHAPES:
        up(alone, attention, expert, "--weight-coding", coding)
    with_int8_cache = serve("serve with an int8 KV cache", "--kv-cache-dtype", "int8")
    assert with_int8_cache != alone, "--kv-cache-dtype changed nothing"
    up(with_int8_cache, 2, 2, "--kv-cache-dtype", "int8")


def has_one_expert_worker(binaries, model):
    """`troupe serve` is told so at once instead of waiting for a second one."""
    done = subprocess.run([binaries / "troupe", "serve", model, "--port", "0", "--expert-workers", "2"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "unknown flag '--expert-workers'" in done.stderr, (done.returncode, done.stderr)


def compare(name, expected, actual):
    different = [i for i, (a, b) in enumerate(zip(expected, actual)) if a != b]
    for i in different[:3]:
        print(f"{name}: request {i} differs\n  alone: {expected[i][:2000]}\n  here:  {actual[i][:2000]}")
    assert not different, f"{name}: {len(different)} of {len(expected)} answers differ"
    print(f"{name}: {len(actual)} answers, all byte-identical")


if __name__ == "__main__":
    main()
