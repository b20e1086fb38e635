"""A local cluster with a Prometheus and the shortened rules, for causing faults and carrying out runbooks."""
import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import shortened_rules
from runbook_entries import lines_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))
from cluster import Cluster, free_port, wait_for  # noqa: E402
from prometheus_server import Prometheus  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = sorted((ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"))
KEYS = {name: f"key-of-{name}-0123456789" for name in ("alice", "crowd", "mallory")}
OPERATORS_KEY = "key-of-an-operator-0123456789"
PATIENCE = 90  # seconds until an alert fires, or no longer does
COMMANDS_MAY_TAKE = 120  # seconds, those of one entry together


class Stage:
    """Its files: `keys`, `limits` (of API keys), `state` (directory of the scheduler), `run` (of `troupe up`)."""

    def __init__(self, binaries, model, work, flags=(), state_dir=None, trusted=None, scheme="http"):
        """@param trusted  certificate that clients need; @param state_dir  default: a folder of its own"""
        self.binaries, self.model, self.work = pathlib.Path(binaries).resolve(), model, work
        work.mkdir(parents=True, exist_ok=True)
        self.keys, self.limits, self.state = work / "keys", work / "limits.json", state_dir or work / "state"
        self.keys.write_text("".join(f"{name} {key}\n" for name, key in KEYS.items()), encoding="utf-8")
        self.keys.chmod(0o600)
        operators = work / "operators"
        operators.write_text(f"{OPERATORS_KEY}\n", encoding="utf-8")
        operators.chmod(0o600)
        self.limits.write_text("{}\n", encoding="utf-8")
        rules = []
        for path in RULES:
            rules.append(work / path.name)
            rules[-1].write_text(shortened_rules.shorten(path.read_text(encoding="utf-8")), encoding="utf-8")
        self.rules = rules
        # Hung processes are not ended by a supervisor: that is the runbook's task.
        self.cluster = Cluster(self.binaries, "up", model, "--served-model-name", "m", "--hung-after", "0", "--api-key-file", str(self.keys),
                               "--operator-key-file", str(operators), "--management-port", str(free_port()),
                               "--key-limits", str(self.limits), "--state-dir", str(self.state), "--attention-workers", "1", "--expert-workers", "2",
                               *flags, run_dir=work / "run", log=work / "up.log", trusted=trusted)
        self.url = f"{scheme}://127.0.0.1:{self.cluster.port}"
        self.resources = contextlib.ExitStack()

    def __enter__(self):
        self.resources.enter_context(self.cluster)
        try:
            self.prometheus = self.resources.enter_context(Prometheus(self.work / "run", self.work, self.rules))
            self.wait_until_calm()
        except BaseException:
            self.resources.close()
            raise
        return self

    def __exit__(self, *error):
        return self.resources.__exit__(*error)

    def pid(self, name):
        return self.cluster.pids()[name]

    def firing(self, alert=None):
        """@returns the labels of each alert that fires, of one name or of any"""
        name = f'alertname="{alert}",' if alert else ""
        return [sample["metric"] for sample in self.prometheus.query(f'ALERTS{{{name}alertstate="firing"}}')]

    def wait_until_calm(self):
        def is_calm():
            up = self.prometheus.query("up == 1")
            return len(up) == 5 and not self.firing() and self.prometheus.value("max(troupe_cluster_ready)") == 1

        wait_for("no alert fires, all processes are there, and the cluster serves", is_calm, PATIENCE)

    def mend(self):
        """Ends processes that stand still: the supervisor starts them again. For alerts whose runbook has failed."""
        for pid in self.cluster.pids().values():
            with contextlib.suppress(FileNotFoundError):
                if "\nState:\tT" in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8"):
                    os.kill(pid, signal.SIGKILL)
        self.wait_until_calm()

    def ask(self, key, body, timeout=60):
        """@returns the status of an answer that was read to its end; 0: the connection has broken"""
        connection = self.cluster.connect(timeout)
        try:
            connection.request("POST", "/v1/completions", json.dumps({"model": "m", "ignore_eos": True, **body}).encode(),
                               {"Content-Type": "application/json", "Authorization": f"Bearer {KEYS[key]}"})
            answer = connection.getresponse()
            answer.read()
            return answer.status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    @contextlib.contextmanager
    def load(self, key, bodies, clients):
        """So many clients that ask one request after another, the N-th one bodies[N % len(bodies)]."""
        over = threading.Event()

        def ask_on(number):
            while not over.is_set():
                status = self.ask(key, bodies[number % len(bodies)])
                if status != 200:
                    over.wait(0.2)  # like a client that returns
                number += clients

        threads = [threading.Thread(target=ask_on, args=(number,), daemon=True) for number in range(clients)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def editor(self, commands):
        """@returns a program that does with the file of its argument what an operator would"""
        path = self.work / f"editor-{time.monotonic_ns()}"
        path.write_text(f"#!/bin/sh\nset -e\n{commands}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def carry_out(self, preamble, blocks, labels, variables):
        """Runs blocks of commands in one shell, as somebody who pastes them. @returns what it said; @errors AssertionError"""
        env = {**os.environ, "PATH": f"{self.binaries}:{os.environ['PATH']}", "GATEWAY": self.url, "RUN_DIR": str(self.work / "run"),
               "PROMETHEUS": f"http://127.0.0.1:{self.prometheus.port}", "LOG": str(self.work / "up.log"), "STATE_DIR": str(self.state),
               "OPENAI_API_KEY": OPERATORS_KEY, "API_KEYS": str(self.keys), "KEY_LIMITS": str(self.limits),
               **{name.upper(): value for name, value in labels.items()}, **{name: str(value) for name, value in variables.items()}}
        script = "set -euo pipefail\n" + preamble + "".join(blocks)
        done = subprocess.run(["bash", "-c", script], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=COMMANDS_MAY_TAKE, check=False)
        commands = "\n  ".join(line for block in blocks for line in lines_of(block))
        assert done.returncode == 0, f"a command has failed (status {done.returncode}) of\n  {commands}\nThey said:\n{done.stdout[-3000:]}"
        return done.stdout
