#!/usr/bin/env python3
"""`troupe up` keeps serving however often its processes are killed, and leaves nothing behind when it is killed itself.

usage: restarts_test.py BINARIES MODEL_DIR WORK_DIR [--seconds N]

The only attention worker is killed 20 times in a row, each time as soon as it is ready and has answered again: no request is
lost, no token is another. When the supervisor is killed, all processes end with it, and another `troupe up` serves at the same port at once.

--seconds N: instead, for so long, kills one process each second, any but the gateway, and says what that cost.
"""
import argparse
import contextlib
import os
import pathlib
import random
import signal
import threading
import time

from cluster import Cluster, free_port, run_all, wait_for
from workload import essence, requests

KILLS = 20
CLIENTS = 4
VOCABULARY = 256


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("binaries", "model", "work"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--seconds", type=int)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    if arguments.seconds:
        with start(arguments, "soak", "--attention-workers", "2", "--expert-workers", "3", "--replicas", "2") as cluster:
            clients = Clients(cluster)
            print(clients.say(kill_each_second(cluster, arguments.seconds, clients)))
            assert not clients.failures
        return
    with start(arguments, "kills", "--attention-workers", "1", "--expert-workers", "2") as cluster:
        clients = Clients(cluster)
        print(clients.say(kill_in_a_row(cluster, "attention-0", clients)))
        assert not clients.failures, clients.failures[:3]
    supervisor_is_killed(arguments)
    print("a killed supervisor took all with it, and another one serves at its port")


def start(arguments, name, *flags, port=None):
    return Cluster(arguments.binaries, "up", arguments.model, "--served-model-name", "m", *flags, port=port,
                   run_dir=arguments.work / name, log=arguments.work / f"{name}.log")


class Clients:
    """Threads that ask the same requests again and again, and compare the answers with those of an undisturbed cluster."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.asked = requests(seed=7, count=16, vocab_size=VOCABULARY)
        self.expected = run_all([lambda one=one: essence(cluster.post(*one)) for one in self.asked], workers=CLIENTS)
        self.failures, self.answered, self.slowest = [], 0, 0.0
        self.lock = threading.Lock()

    def ask(self, number):
        began = time.monotonic()
        try:
            failure = None if essence(self.cluster.post(*self.asked[number])) == self.expected[number] else "another answer"
        except Exception as error:  # any failure means that the request was lost
            failure = repr(error)
        with self.lock:
            self.slowest = max(self.slowest, time.monotonic() - began)
            if failure:
                self.failures.append(f"request {number}: {failure}")
            else:
                self.answered += 1

    @contextlib.contextmanager
    def asking(self, pause=0):
        """pause: seconds of each client between two requests"""
        done = threading.Event()

        def go_on(number):
            while not done.is_set():
                self.ask(number % len(self.asked))
                number += 1
                done.wait(pause)

        threads = [threading.Thread(target=go_on, args=(5 * n,)) for n in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            done.set()
            for thread in threads:
                thread.join()

    def say(self, kills):
        return (f"{kills} processes killed, {self.answered} requests answered as undisturbed, {len(self.failures)} failed, "
                f"slowest {self.slowest:.1f} s" + "".join(f"\n  {failure}" for failure in self.failures[:10]))


def kill_in_a_row(cluster, name, clients):
    def times_ready():
        return len(cluster.said(rf"worker-joined: {name} at"))

    with clients.asking():
        for _ in range(KILLS):
            before = times_ready()
            killed = cluster.kill(name)
            wait_for(f"{name} joins again", lambda: times_ready() > before and cluster.pids().get(name, killed) != killed)
            answered = clients.answered
            wait_for("requests are answered", lambda: clients.answered > answered)
    waits = [int(wait) for wait in cluster.said(rf"{name} was killed by signal 9; starting it again in (\d+) ms")]
    assert len(waits) == KILLS and max(waits) <= 800, waits  # no other process does its work
    return KILLS


def kill_each_second(cluster, seconds, clients):
    generator, kills = random.Random(1), 0
    began = time.monotonic()
    with clients.asking(pause=0.25):
        for second in range(seconds):
            time.sleep(max(0.0, began + second - time.monotonic()))
            running = sorted(name for name in cluster.pids() if not name.startswith("gateway"))
            if running:
                name = generator.choice(running)
                with contextlib.suppress(ProcessLookupError, KeyError):
                    pid = cluster.kill(name)
                    kills += 1
            if second % 60 == 59:
                print(f"{second + 1} s: {clients.say(kills)}", flush=True)
    wait_for(f"{name} is started again", lambda: cluster.pids().get(name, pid) != pid)
    cluster.wait_ready()
    return kills


def supervisor_is_killed(arguments):
    port = free_port()
    first = start(arguments, "orphans", port=port)
    under_way, broken = threading.Event(), threading.Event()

    def stream():
        try:
            first.stream("/v1/completions", {"model": "m", "prompt": [1, 2, 3], "max_tokens": 200, "ignore_eos": True},
                         on_chunk=lambda count: under_way.set())
        except Exception:  # however it ends: with its gateway
            broken.set()

    try:
        first.wait_ready()
        pids = first.pids()
        client = threading.Thread(target=stream)
        client.start()
        assert under_way.wait(60)
        os.kill(pids["attention-0"], signal.SIGSTOP)  # keeps it from finishing before the supervisor is dead
    finally:
        first.process.kill()
        first.process.wait()
    with start(arguments, "orphans", port=port) as second:
        second.post("/v1/completions", {"model": "m", "prompt": [1, 2, 3], "max_tokens": 4})
        for name, pid in pids.items():
            assert not pathlib.Path(f"/proc/{pid}/exe").exists(), f"{name} lives on as {pid}"
    client.join()
    assert broken.is_set(), "the stream ended well without its cluster"


if __name__ == "__main__":
    main()
