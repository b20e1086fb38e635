#!/usr/bin/env python3
"""The processors to which compute threads are pinned: by --cores, and by `troupe up` if it has all of
them.

usage: pinned_threads_test.py BINARIES MODEL_DIR WORK_DIR

Skipped (status 77) on a machine with one processor, where being pinned and not being pinned look the same.
"""
import collections
import os
import pathlib
import sys

from cluster import Cluster

WORKERS = ("attention-0", "expert-0", "expert-1")


def pinned(pid):
    """@returns Counter: processor -> threads of the process that may run on it alone"""
    counts = collections.Counter()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        allowed = os.sched_getaffinity(int(task.name))
        if len(allowed) == 1:
            counts.update(allowed)
    return counts


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) == 1:
        print("skipped: there is one processor only")
        sys.exit(77)
    first, last = processors[0], processors[-1]
    one_each = collections.Counter(processors)
    cases = [
        ("all", (), one_each),
        ("any", ("--cores", "any"), collections.Counter()),
        ("fewer", ("--threads", "1"), collections.Counter()),
        ("list", ("--cores", f"{last}"), collections.Counter([last])),
    ]
    for name, flags, wanted in cases:
        run_dir = work / name
        run_dir.mkdir(parents=True, exist_ok=True)
        with Cluster(binaries, "up", model, "--expert-workers", "2", *flags, run_dir=run_dir,
                     log=work / f"{name}.log") as cluster:
            pids = cluster.pids()
            for worker in WORKERS:
                assert pinned(pids[worker]) == wanted, (name, worker, pinned(pids[worker]), wanted)
            answer = cluster.post("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 2, "ignore_eos": True})
            assert answer["usage"]["completion_tokens"] == 2, answer
        print(f"troupe up {' '.join(flags)}: {dict(wanted)}")
    both = ("--cores", f"{last},{first}")
    for flags, wanted in (((), collections.Counter()), (both, collections.Counter([first, last]))):
        with Cluster(binaries, "serve", model, *flags, log=work / "serve.log") as cluster:
            assert pinned(cluster.process.pid) == wanted, (flags, pinned(cluster.process.pid), wanted)
        print(f"troupe serve {' '.join(flags)}: {dict(wanted)}")


if __name__ == "__main__":
    main()
