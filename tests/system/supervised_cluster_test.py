#!/usr/bin/env python3
"""`troupe up` from its first second on: what is killed while it starts is started again, a port that is taken ends it with
one clear line, SIGTERM while it starts stops everything with status 0, and /cluster/ready says so when the scheduler stands still.
What a file says that the environment names reaches all processes, and a gateway keeps the free port that it found.

usage: supervised_cluster_test.py BINARIES MODEL_DIR WORK_DIR
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

from cluster import Cluster, free_port

PATIENCE = 60  # seconds
QUESTION = {"model": "m", "prompt": [1, 2, 3], "max_tokens": 4, "temperature": 0}


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)

    def cluster(name):
        return Cluster(binaries, "up", model, "--served-model-name", "m", run_dir=work / name, log=work / f"{name}.log")

    port_is_taken(binaries, model, work)
    for victim in ("scheduler-0", "expert-1", "attention-0", "gateway-0"):
        starting = cluster(f"killed-{victim}")
        try:
            killed = pid_of(starting, victim)
            os.kill(killed, signal.SIGKILL)
        except BaseException:
            starting.stop(check=False)
            raise
        with starting:
            assert starting.pids()[victim] != killed
            starting.post("/v1/completions", QUESTION)
    told_to_stop(cluster("told"))
    scheduler_stands_still(cluster("still"))
    as_configured(binaries, model, work)
    print("up: 4 roles killed while they started, a taken port, a stop while starting, a scheduler that stood still, "
          "a file of flags")


def wait_for(what, question):
    end = time.monotonic() + PATIENCE
    while not (answer := question()):
        assert time.monotonic() < end, f"{what}: not within {PATIENCE} s"
        time.sleep(0.002)  # polls another process
    return answer


def pid_of(cluster, name):
    """As soon as the supervisor has started it."""
    return wait_for(f"{name} starts", lambda: (cluster.run_dir / "pids.json").exists() and cluster.pids().get(name))


def port_is_taken(binaries, model, work):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run([binaries / "troupe", "up", model, "--port", str(port), "--run-dir", work / "taken"],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert done.stderr == f"troupe: http: cannot listen on 127.0.0.1:{port}: Address already in use\n", done.stderr
    assert not (work / "taken").exists(), "it was looked at before anything was started"


def told_to_stop(cluster):
    try:
        pid_of(cluster, "expert-0")
        cluster.process.send_signal(signal.SIGTERM)
        status = cluster.process.wait(PATIENCE)
    finally:
        cluster.process.kill()
    log = cluster.log_path.read_text(encoding="utf-8")
    assert status == 0, f"ended with {status}:\n{log}"
    assert cluster.pids() == {}, cluster.pids()


def scheduler_stands_still(cluster):
    def ready():
        status, _, body = cluster.request("GET", "/cluster/ready")
        return status, json.loads(body)

    with cluster:
        scheduler = cluster.pids()["scheduler-0"]
        os.kill(scheduler, signal.SIGSTOP)
        try:
            wait_for("/cluster/ready sees it", lambda: ready()[0] == 503)
            assert ready()[1] == {"ready": False, "reason": "the scheduler is away"}, ready()
            assert json.loads(cluster.request("GET", "/cluster")[2])["ready"] is False
            assert cluster.request("GET", "/ready")[0] == 200
        finally:
            os.kill(scheduler, signal.SIGCONT)
        wait_for("/cluster/ready sees it come back", lambda: ready()[0] == 200)
        cluster.post("/v1/completions", QUESTION)


def page_of(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
        return answer.read().decode()


def as_configured(binaries, model, work):
    """With flags that only `up` has, an empty one, keys and any free port."""
    keys, operators, config = work / "keys", work / "operators", work / "config.json"
    keys.write_text("# of this test\n\n the-first \nthe-second\n", encoding="utf-8")
    keys.chmod(0o600)
    operators.write_text("olga the-operators\n", encoding="utf-8")
    operators.chmod(0o600)
    management = free_port()
    config.write_text(json.dumps({"served-model-name": "m", "expert-workers": 1, "attention-workers": 1,
                                  "metrics-prefix": "", "api-key-file": str(keys), "operator-key-file": str(operators),
                                  "management-port": management}), encoding="utf-8")
    cluster = Cluster(binaries, "up", model, run_dir=work / "configured", log=work / "configured.log", port=0,
                      env={"TROUPE_CONFIG": str(config)})

    def port_of_gateway():
        assert cluster.process.poll() is None, cluster.log_path.read_text(encoding="utf-8")
        said = re.search(r"ready: gateway-0 http://127\.0\.0\.1:(\d+)\n", cluster.log_path.read_text(encoding="utf-8"))
        return said and int(said[1])

    try:
        cluster.port = wait_for("the gateway says its port", port_of_gateway)
    except BaseException:
        cluster.stop(check=False)
        raise
    with cluster:
        assert set(cluster.pids()) == {"scheduler-0", "expert-0", "attention-0", "gateway-0"}, cluster.pids()
        assert cluster.request("GET", "/metrics")[0] == 401
        page = page_of(management, "/metrics")
        assert re.search(r"^prompt_tokens_total\b", page, re.MULTILINE), page

        status = [binaries / "troupe", "status", "--url", f"http://127.0.0.1:{cluster.port}"]
        refused = subprocess.run(status, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert refused.returncode == 1 and "status 401" in refused.stderr, (refused.returncode, refused.stderr)
        refused = subprocess.run([*status, "--api-key-file", keys], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert refused.returncode == 1 and "needs one of --operator-key-file" in refused.stderr, (refused.returncode, refused.stderr)
        assert json.loads(page_of(management, "/cluster"))["ready"] is True
        shown = subprocess.run([*status, "--json", "--api-key-file", operators], capture_output=True, text=True,
                               timeout=PATIENCE, check=False)
        assert shown.returncode == 0 and json.loads(shown.stdout)["ready"] is True, (shown.returncode, shown.stderr)

        killed = cluster.kill("gateway-0")
        wait_for("the gateway starts again", lambda: cluster.pids().get("gateway-0", killed) != killed)
        cluster.wait_ready()  # at its old address


if __name__ == "__main__":
    main()
