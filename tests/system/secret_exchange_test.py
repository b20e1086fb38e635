#!/usr/bin/env python3
"""The cluster's secret is replaced while it serves: both secrets in the file, then the new one first, then the new one
alone.

usage: secret_exchange_test.py BINARIES MODEL_DIR WORK_DIR

Between two steps each process reads the file again, one after the other, and after each a worker is killed, so that processes meet
that have read and that have not. No request is lost, and nobody is refused. Who has another secret is.
"""
import os
import pathlib
import shutil
import signal
import sys

from cluster import Cluster, wait_for
from restarts_test import Clients

OLD, NEW, OTHER = "an old secret of the cluster", "a new secret of the cluster", "a secret of somebody else"
VICTIMS = ("expert-0", "attention-1", "expert-1", "attention-0")


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    with Cluster(binaries, "up", model, "--served-model-name", "m", "--attention-workers", "2", "--expert-workers", "2",
                 "--replicas", "2", run_dir=work / "run", log=work / "up.log") as cluster:
        exchange = Exchange(cluster, work / "run" / "secret")
        exchange.step([OLD])  # replaces the secret drawn by `up`: no connections meanwhile
        clients = Clients(cluster)
        with clients.asking():
            for secrets in ([OLD, NEW], [NEW, OLD], [NEW]):
                exchange.step(secrets, kills=True)
        assert not clients.failures, clients.failures[:3]
        assert not cluster.said("guest-refused"), cluster.said("guest-refused.*")
        exchange.stranger()
        print(clients.say(exchange.kills))


class Exchange:
    def __init__(self, cluster, file):
        self.cluster, self.file, self.kills = cluster, file, 0

    def write(self, secrets):
        beside = self.file.with_suffix(".new")
        beside.write_text("".join(f"{secret}\n" for secret in secrets), encoding="utf-8")
        beside.chmod(0o600)
        os.replace(beside, self.file)

    def times(self, event, name):
        return len(self.cluster.said(rf"{event}.*\b{name}\b" if event == "worker-joined" else rf"{name} {event}"))

    def step(self, secrets, kills=False):
        self.write(secrets)
        for name, pid in sorted(self.cluster.pids().items()):
            if self.cluster.pids()[name] == pid:  # otherwise it was restarted, and has read the file
                before = self.times("secret-read", name)
                os.kill(pid, signal.SIGHUP)
                wait_for(f"{name} reads the file", lambda: self.times("secret-read", name) > before)
            if kills:
                self.kill(VICTIMS[self.kills % len(VICTIMS)])

    def kill(self, name):
        before = self.times("worker-joined", name)
        self.cluster.kill(name)
        self.kills += 1
        wait_for(f"{name} joins again", lambda: self.times("worker-joined", name) > before)

    def stranger(self):
        """A worker whose file has another secret is refused, until it has the right one."""
        self.write([OTHER])
        before = self.times("worker-joined", "expert-0")
        self.cluster.kill("expert-0")
        wait_for("the stranger is refused", lambda: self.cluster.said("guest-refused: authentication failed"))
        assert self.times("worker-joined", "expert-0") == before
        self.write([NEW])
        self.cluster.kill("expert-0")  # it was never ready, and may not wait for SIGHUP yet
        wait_for("it joins with the right one", lambda: self.times("worker-joined", "expert-0") > before)


if __name__ == "__main__":
    main()
