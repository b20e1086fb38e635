#!/usr/bin/env python3
"""A cluster is replaced by the next version, process by process, under load, and then by the previous version again.

usage: rolling_upgrade_test.py BINARIES MODEL_DIR WORK_DIR

The next version is built from the same sources with TROUPE_NEXT_VERSION, into the folder `next` beside BINARIES: its protocol
version is one higher, every structure in its messages has one more field, every kind of message one more version, and there is one
more kind. The arithmetic is the same. Each program file is replaced, then each process is told to stop (SIGTERM), and starts again
from the new file. No request may fail or be sent twice, and every stream must be as in the undisturbed cluster; clients do not go
to a gateway once it has been told to stop, as a load balancer would not send them there; it serves on for a second (`--lame-duck`).
"""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import sys
import threading
import time

from cluster import Cluster, counters, free_ports, run_all, total, wait_for
from kill_workers_test import body, content

PROGRAMS = ("troupe-scheduler", "troupe-expert", "troupe-attention", "troupe-gateway")
COUNT = 2  # processes of each role
CLIENTS = 4
ROLES = ("scheduler", "expert", "attention", "gateway")


def install(binaries, folder):
    """Puts the programs of a version where the cluster finds them. What runs goes on with the file that it was started from."""
    for program in PROGRAMS:
        beside = folder / f".{program}"
        os.link(binaries / program, beside)
        os.replace(beside, folder / program)


def program_of(pid):
    """@returns what tells one program file from another"""
    with contextlib.suppress(OSError):
        found = os.stat(f"/proc/{pid}/exe")
        return found.st_dev, found.st_ino
    return None


def answer_of(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()


class Load:
    """Clients that stream one answer after the other, through the gateways that are not being replaced."""

    def __init__(self, cluster):
        self.ports = {f"gateway-{i}": cluster.port + i for i in range(COUNT)}
        self.cluster, self.changed, self.errors, self.answers = cluster, threading.Condition(), [], [0] * CLIENTS
        self.turn, self.stopping = 0, False
        self.expected = run_all([lambda n=n: self.ask(n) for n in range(CLIENTS)], workers=CLIENTS)
        self.threads = [threading.Thread(target=self.client, args=(n,)) for n in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def ask(self, number):
        with self.changed:
            ports = list(self.ports.values())
            self.turn += 1
            port = ports[self.turn % len(ports)]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        with contextlib.closing(connection):
            connection.request("POST", "/v1/completions", json.dumps({**body(number), "stream": True}),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.status == 200, (port, response.status, response.read())
            chunks = []
            for line in response:
                if line.strip() == b"data: [DONE]":
                    return content(chunks)
                if line.startswith(b"data: "):
                    chunks.append(json.loads(line[6:]))
                    assert "error" not in chunks[-1], (port, chunks[-1])
            raise AssertionError(f"a stream of the gateway at {port} ended without [DONE]")

    def client(self, number):
        try:
            while not self.stopping:
                answer = self.ask(number)
                with self.changed:
                    assert answer == self.expected[number], f"answer {number} differs"
                    self.answers[number] += 1
                    self.changed.notify_all()
        except BaseException as error:  # raised by the waiting caller below
            with self.changed:
                self.errors.append(error)
                self.changed.notify_all()

    def go_on(self):
        """Waits until every client has begun and ended an answer."""
        with self.changed:
            wanted = [count + 2 for count in self.answers]
            assert self.changed.wait_for(lambda: self.errors or all(a >= w for a, w in zip(self.answers, wanted)), timeout=120)
            if self.errors:
                raise self.errors[0]

    @contextlib.contextmanager
    def without(self, name):
        """Nobody is sent to this process meanwhile."""
        with self.changed:
            port = self.ports.pop(name, None)
        yield
        if port:
            with self.changed:
                self.ports[name] = port

    def stop(self):
        self.stopping = True
        for thread in self.threads:
            thread.join()
        if self.errors:
            raise self.errors[0]


class Processes:
    def __init__(self, cluster, first_port):
        # in the order of `up`: schedulers, expert workers, attention workers
        self.cluster = cluster
        self.ports = {f"{role}-{i}": first_port + COUNT * at + i for at, role in enumerate(ROLES[:3]) for i in range(COUNT)}
        self.ports.update({f"gateway-{i}": cluster.port + i for i in range(COUNT)})

    def is_up(self, name, pid):
        """Does another process than `pid` run under the name, and serve?"""
        if self.cluster.pids().get(name, pid) == pid:
            return False
        status, text = answer_of(self.ports[name], "/ready")
        return status == 200 or (status, text) == (503, "not ready: standby\n")

    def replace_all(self, binaries, load):
        """Every process, one after the other: it stops in order and starts again from the file that is there now."""
        seconds = {}
        for name in [f"{role}-{i}" for role in ROLES for i in range(COUNT)]:
            begin = time.monotonic()
            with load.without(name):
                pid = self.cluster.pids()[name]
                os.kill(pid, signal.SIGTERM)
                wait_for(f"{name} comes back", lambda: load.errors or self.is_up(name, pid), patience=120)
            load.go_on()
            program = os.stat(binaries / f"troupe-{name.rsplit('-', 1)[0]}")
            assert program_of(self.cluster.pids()[name]) == (program.st_dev, program.st_ino), f"{name} is not of {binaries}"
            seconds[name] = time.monotonic() - begin
        return seconds

    def pages(self):
        return [counters(port) for port in self.ports.values()]


def main():
    binaries, model, work = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    following = binaries.parent / "next"
    shutil.rmtree(work, ignore_errors=True)
    programs = work / "bin"
    programs.mkdir(parents=True)
    for program in ("troupe", "troupe-template"):
        os.link(binaries / program, programs / program)
    install(binaries, programs)
    first_port = free_ports(3 * COUNT)
    begin = time.monotonic()
    with Cluster(programs, "up", model, "--schedulers", str(COUNT), "--gateways", str(COUNT), "--attention-workers", str(COUNT),
                 "--expert-workers", str(COUNT), "--replicas", str(COUNT), "--served-model-name", "m", "--drain-timeout", "60",
                 "--worker-metrics-port", str(first_port), port=free_ports(COUNT), run_dir=work / "run",
                 log=work / "up.log", env={"TROUPE_LAME_DUCK": "1"}) as cluster:
        processes = Processes(cluster, first_port)
        wait_for("all gateways are ready", lambda: all(
            answer_of(cluster.port + i, "/ready")[0] == 200 for i in range(COUNT)))
        load = Load(cluster)
        try:
            load.go_on()
            for version in (following, binaries):
                install(version, programs)
                processes.replace_all(version, load)
        finally:
            load.stop()
        pages = processes.pages()
        # The next version has a kind that this one lacks, and never sent it; no process got an unreadable message.
        assert total(pages, "transport_messages_unknown_total") == 0
        assert cluster.said(r"peer-of-other-version.*version 9 of the protocol"), "both versions have met"
    print(f"{2 * len(processes.ports)} processes replaced under {CLIENTS} clients, by the next version and back; "
          f"{sum(load.answers)} streams, none failed or changed; {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
