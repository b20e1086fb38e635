#!/usr/bin/env python3
"""Experts change their hosts under load, by an operator's commands: move, replicate, pin, assign, drain, rebalance.

usage: placement_test.py BINARIES MODEL_DIR WORK_DIR

Streams run all the time, and every one of them says what it said before anything was changed, byte for byte. Dry runs change
nothing, a drained worker holds nothing, also after `kill -9` of the scheduler, and what makes no sense is refused by name.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import threading

from cluster import Cluster, counters, free_ports, run_all, total, wait_for
from kill_workers_test import content

NUM_STREAMS = 8
TOKENS = 96
NUM_EXPERTS = 3
PATIENCE = 60  # seconds
PATH = "/cluster/placement"


def body(number):
    return {"prompt": [3 + (number * 37 + i * 11) % 240 for i in range(5 + 5 * number)], "max_tokens": TOKENS,
            "temperature": 0.8, "seed": number, "ignore_eos": True, "logprobs": 2, "return_token_ids": True}


class Load:
    """Streams that begin again until they are told to end; each must say what it said undisturbed."""

    def __init__(self, cluster):
        self.streams = [lambda n=n: content(cluster.stream("/v1/completions", body(n))) for n in range(NUM_STREAMS)]
        self.undisturbed = run_all(self.streams, workers=NUM_STREAMS)
        assert len(set(self.undisturbed)) == NUM_STREAMS
        self.rounds, self.is_over, self.error = 0, False, None
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.is_over:
                again = run_all(self.streams, workers=NUM_STREAMS)
                different = [n for n in range(NUM_STREAMS) if again[n] != self.undisturbed[n]]
                assert not different, f"streams {different} differ from an undisturbed run"
                self.rounds += 1
        except BaseException as error:  # raised in __exit__
            self.error = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self.is_over = True
        self.thread.join()
        if self.error and kind is None:
            raise self.error


class Operator:
    """Asks one cluster for changes, and looks at what comes of them."""

    def __init__(self, cluster, program):
        self.cluster, self.program = cluster, program

    def state(self):
        status, _, raw = self.cluster.request("GET", PATH)
        return json.loads(raw) if status == 200 else None

    def pages(self):
        """What GET /cluster says: {(layer, expert): [hosts]} and {worker: what it holds}; None while the scheduler is away"""
        status, _, raw = self.cluster.request("GET", "/cluster")
        page = json.loads(raw)
        if status != 200 or not page["scheduler"]["reachable"]:
            return None
        hosts = {(layer["layer"], index): sorted(names) for layer in page["placement"]["layers"]
                 for index, names in enumerate(layer["experts"])}
        return hosts, {worker["name"]: worker.get("hosted", []) for worker in page["workers"] if worker["role"] == "expert"}

    def hosts(self):
        return self.pages()[0]

    def command(self, action, **members):
        answer = self.cluster.post(PATH, {"action": action, **members})
        self.wait()
        return answer

    def refusal(self, action, **members):
        status, _, raw = self.cluster.request("POST", PATH, {"action": action, **members})
        assert status == 400, (action, members, status, raw)
        return json.loads(raw)["error"]["message"]

    def wait(self):
        return wait_for("the change is over", lambda: (state := self.state()) and state["change"] is None and state)

    def troupe(self, *words, status=0):
        done = subprocess.run([self.program, "placement", *words, "--url", f"http://127.0.0.1:{self.cluster.port}"],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == status, (words, done.stdout, done.stderr)
        return done.stdout if status == 0 else done.stderr


def changed(before, after):
    assert before.keys() == after.keys()
    return {expert: (before[expert], after[expert]) for expert in before if before[expert] != after[expert]}


def moves_and_copies(operator, names):
    expert, (old,) = next((expert, hosts) for expert, hosts in sorted(operator.hosts().items()) if len(hosts) == 1)
    new, other = [name for name in names if name != old]
    one = {"layer": expert[0], "expert": expert[1]}
    before = operator.hosts()
    for action, members in {"move": {**one, "from": old, "to": new}, "replicate": {**one, "replicas": 2},
                            "pin": {**one, "hosts": [new, other]}, "drain": {"worker": old}, "rebalance": {},
                            "assign": {"experts": [{**one, "hosts": [other]}]}}.items():
        answer = operator.command(action, **members, dry_run=True)
        assert answer["change"] == 0 and answer["dry_run"] is True and answer["reason"] == action, answer
        if action != "rebalance":
            assert any((moved["layer"], moved["expert"]) == expert for moved in answer["experts"]), answer
    assert changed(before, operator.hosts()) == {}, "a dry run changes nothing"
    state = operator.state()
    assert (state["last"], state["pins"], state["replicas"], state["drained"]) == (None, [], [], []), state

    answer = operator.command("move", **one, **{"from": old, "to": new})
    assert answer["change"] > 0 and answer["moves"] == 1 and answer["bytes"] > 0, answer
    assert answer["experts"] == [{**one, "from": [old], "to": [new]}], answer
    difference = changed(before, operator.hosts())
    assert difference == {expert: ([old], [new])}, (expert, old, new, difference)
    last = operator.state()["last"]
    assert (last["id"], last["moves_done"], last["moves_given_up"]) == (answer["change"], 1, 0), last
    assert operator.refusal("move", **one, **{"from": old, "to": other}) == f"the expert is not on '{old}'"
    assert operator.refusal("move", **one, **{"from": new, "to": new}) == f"the expert is on '{new}' already"

    operator.command("replicate", **one, replicas=2)
    assert operator.state()["replicas"] == [{**one, "replicas": 2}]
    assert len(operator.hosts()[expert]) == 2, operator.hosts()[expert]
    operator.command("unpin", **one)
    assert operator.state()["replicas"] == []

    operator.command("pin", **one, hosts=[other])
    assert operator.hosts()[expert] == [other]
    assert operator.state()["pins"] == [{**one, "hosts": [other]}]
    pinned = f"expert {expert[1]} of layer {expert[0]} is pinned; unpin it first"
    assert operator.refusal("move", **one, **{"from": other, "to": old}) == pinned
    operator.command("unpin", **one)
    operator.command("assign", experts=[{**one, "hosts": [old, new]}])
    assert operator.hosts()[expert] == sorted([old, new])
    return expert


def refusals(operator, names):
    unknown = operator.refusal("drain", worker="expert-9")
    assert unknown == "no expert worker is named 'expert-9'; there are " + ", ".join(names), unknown
    assert operator.refusal("shuffle").startswith("there is no action 'shuffle'; there are 'rebalance'")
    assert operator.refusal("unpin", layer=99, expert=0).startswith("the model has no layer 99")
    assert "is neither pinned nor replicated" in operator.refusal(
        "unpin", **dict(zip(("layer", "expert"), min(operator.hosts()))))
    assert operator.refusal("undrain", worker=names[0]) == f"'{names[0]}' is not drained"
    assert "no expert worker is named 'x'" in operator.troupe("drain", "--worker", "x", status=1)
    assert "--worker is missing" in operator.troupe("drain", status=2)


def drained(operator, cluster, worker):
    """Empty, by the placement and by its own word, and so after another scheduler has taken over."""
    def holds_nothing():
        hosts, held = operator.pages() or ({}, {})
        return hosts and all(hosts.values()) and not any(worker in names for names in hosts.values()) and held.get(worker) == []

    assert "hosts" in operator.troupe("drain", "--worker", worker)
    assert f"drained: {worker}\n" in operator.troupe("wait")
    wait_for(f"{worker} holds nothing", holds_nothing)
    killed = cluster.kill("scheduler-0")
    wait_for("the scheduler is started again", lambda: cluster.pids().get("scheduler-0", killed) != killed)
    cluster.wait_ready()
    assert wait_for("the rebalancer is back", operator.state)["drained"] == [worker]
    wait_for(f"{worker} still holds nothing", holds_nothing)
    assert operator.state()["planner"] == "paused", "that is remembered too"
    operator.troupe("undrain", "--worker", worker)
    assert operator.state()["drained"] == []


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    metrics = free_ports(2 + NUM_EXPERTS)
    with Cluster(binaries, "up", model, "--attention-workers", "1", "--expert-workers", str(NUM_EXPERTS),
                 "--served-model-name", "m", "--worker-metrics-port", str(metrics), run_dir=work / "run",
                 log=work / "up.log") as cluster:
        operator = Operator(cluster, binaries / "troupe")
        names = [f"expert-{i}" for i in range(NUM_EXPERTS)]
        operator.command("pause")  # only ordered moves
        assert operator.state()["planner"] == "paused"
        with Load(cluster) as load:
            moves_and_copies(operator, names)
            refusals(operator, names)
            done = total([counters(metrics)], "placement_moves_total", result="done")
            drained(operator, cluster, names[1])
            operator.command("rebalance")
            assert all(operator.hosts().values())
            operator.command("resume")
            assert operator.state()["planner"] == "on"
            rounds = load.rounds
            wait_for("the streams go on", lambda: load.error or load.rounds > rounds)
        assert done == 4, f"{done} moves, not move, replicate, pin and assign"
        attention = [counters(metrics + 1 + NUM_EXPERTS)]
        assert total(attention, "sequence_failures_total") == 0, attention
        print(f"{load.rounds} rounds of {NUM_STREAMS} streams of {TOKENS} tokens, all as undisturbed, while experts moved")


if __name__ == "__main__":
    main()
