#!/usr/bin/env python3
"""A standby takes over: the active scheduler is killed with -9, and then stopped with SIGSTOP, under concurrent streams.

usage: standby_test.py BINARIES MODEL_DIR WORK_DIR

Every stream must complete as in an undisturbed run, a request that comes right after the kill must be admitted by the standby
in under 3 s, what was killed must come back as standby, and what was stopped must end when it goes on.
"""
import http.client
import os
import pathlib
import signal
import shutil
import sys
import threading
import time

from cluster import Cluster, free_ports, run_all, wait_for
from kill_workers_test import TOKENS, body, content

NUM_STREAMS = 8
TAKE_OVER = 3  # seconds from kill -9 to the first newly admitted request
# The same for a stalled one: its lease, its peers' patience, the gateway's next attempt.
TAKE_OVER_STOPPED = 6
PATIENCE = 60
NAMES = ("scheduler-0", "scheduler-1")


class Schedulers:
    def __init__(self, cluster, first_port):
        self.cluster = cluster
        self.ports = {name: first_port + i for i, name in enumerate(NAMES)}

    def ask(self, name, path):
        """@returns (status, text), or (0, "") while it does not answer"""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[name], timeout=1)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def active(self):
        """@returns its name, once one is active and the other one waits"""
        def look():
            ready = {name: self.ask(name, "/ready") for name in NAMES}
            for name, other in (NAMES, NAMES[::-1]):
                if ready[name][0] == 200 and ready[other] == (503, "not ready: standby\n"):
                    return name
            return None
        return wait_for("one scheduler is active and one is its standby", look)


def disturbed_streams(cluster, disturb):
    """@returns what the streams said, and what disturb() returned, which is called when all of them are under way"""
    progress, under_way = [0] * NUM_STREAMS, threading.Condition()
    result = []

    def note(number):
        def on_chunk(count):
            with under_way:
                progress[number] = count
                under_way.notify_all()
        return on_chunk

    def wait_and_disturb():
        with under_way:
            assert under_way.wait_for(lambda: min(progress) >= TOKENS // 10, timeout=PATIENCE), progress
        result.append(disturb())

    disturber = threading.Thread(target=wait_and_disturb)
    disturber.start()
    said = run_all([lambda n=n: content(cluster.stream("/v1/completions", body(n), on_chunk=note(n)))
                    for n in range(NUM_STREAMS)], workers=NUM_STREAMS)
    disturber.join()
    assert result, "the streams ended before anything was done to the scheduler, or that failed"
    return said, result[0]


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    # in the order of `up`: schedulers, expert workers, attention workers
    first_port = free_ports(len(NAMES) + 2 + 2)
    with Cluster(binaries, "up", model, "--schedulers", "2", "--attention-workers", "2", "--expert-workers", "2",
                 "--served-model-name", "m", "--worker-metrics-port", str(first_port), run_dir=work / "run",
                 log=work / "up.log") as cluster:
        assert set(NAMES) <= set(cluster.pids()), cluster.pids()
        schedulers = Schedulers(cluster, first_port)
        undisturbed = run_all([lambda n=n: content(cluster.stream("/v1/completions", body(n)))
                               for n in range(NUM_STREAMS)], workers=NUM_STREAMS)
        question = {"prompt": [1, 2, 3], "max_tokens": 1, "temperature": 0}
        answer = cluster.post("/v1/completions", question)["choices"]

        def disturb(name, number):
            def act():
                os.kill(cluster.pids()[name], number)
                begin = time.monotonic()
                assert cluster.post("/v1/completions", question)["choices"] == answer
                return time.monotonic() - begin
            return act

        first = schedulers.active()
        other = NAMES[1 - NAMES.index(first)]
        assert schedulers.ask(other, "/health")[0] == 200
        killed = cluster.pids()[first]
        said, seconds = disturbed_streams(cluster, disturb(first, signal.SIGKILL))
        assert said == undisturbed, "streams differ after kill -9 of the scheduler"
        assert seconds < TAKE_OVER, f"the standby took {seconds:.2f} s"
        wait_for("it starts again", lambda: cluster.pids().get(first, killed) != killed)
        assert schedulers.active() == other, "the one that was started again waits"

        stopped = cluster.pids()[other]
        try:
            said, seconds_stopped = disturbed_streams(cluster, disturb(other, signal.SIGSTOP))
            assert said == undisturbed, "streams differ after SIGSTOP of the scheduler"
            assert seconds_stopped < TAKE_OVER_STOPPED, f"the standby took {seconds_stopped:.2f} s"
        finally:
            os.kill(stopped, signal.SIGCONT)
        wait_for("what was stopped ends and starts again", lambda: cluster.pids().get(other, stopped) != stopped)
        assert schedulers.active() == first
        assert "lease-lost" in cluster.log_path.read_text(encoding="utf-8")
        assert cluster.post("/v1/completions", question)["choices"] == answer
        print(f"{NUM_STREAMS} streams of {TOKENS} tokens, twice: as undisturbed; a new request was answered {seconds:.2f} s "
              f"after kill -9 and {seconds_stopped:.2f} s after SIGSTOP of the active scheduler")


if __name__ == "__main__":
    main()
