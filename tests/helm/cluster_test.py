#!/usr/bin/python3
"""The rendered pods, started with exactly their commands, arguments and environment, are a cluster that answers; and a
rolling upgrade of all of them under load loses nothing.

usage: cluster_test.py BINARIES MODEL_DIR WORK_DIR CACHE

ci/one-node-values.yaml: one of each, and the pod of `helm test`.

ci/public-values.yaml: two gateways with keys, two attention and two expert workers, a scheduler and its standby, upgraded to
ci/upgrade-values.yaml: all workloads at once, as their controllers do. Requests come all the time, through whatever gateway
is ready, and must be answered as without an upgrade, byte for byte. One may be refused with 503 only while a scheduler takes
over.

deploy/compose.yaml: one of each role with the variables that stand there.
"""
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import secrets
import shutil
import sys
import time

import yaml

import chart
import open_loop
import pods
import tools
import watch
from cluster import Cluster

RATE = 6  # new requests a second
TOKENS = 48
KEY = "key-of-the-test"
MODEL_FOLDER = "model"  # model.path of the values


def main():
    pods.inside_own_namespaces()
    binaries, model, work = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    helm = tools.or_skip(tools.helm, sys.argv[4])
    models = work / "models"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(model, models / MODEL_FOLDER)
    for path in [work, models, *models.rglob("*")]:  # the pods' user owns nothing here
        path.chmod(0o755 if path.is_dir() else 0o644)
    node = pods.Node(work / "node", binaries=binaries)
    node.folders["/srv/models"] = node.claims["models"] = models
    node.folders["/srv/model"] = models / MODEL_FOLDER
    node.claims["scheduler-state"] = node.claims["r-troupe-scheduler-state"] = pods.Pod.owned(work / "state", 65532)
    for scenario in (one_node, upgrade, compose):
        try:
            print(scenario(node, helm))
        except BaseException:
            sys.stderr.write(node.logs())
            node.kill_all()
            raise


def start_all(node, manifests):
    for workload in chart.workloads(manifests):
        for number in range(workload["spec"]["replicas"]):
            node.start(pod_name(workload, number), workload)
    started = list(node.pods.values())
    with concurrent.futures.ThreadPoolExecutor(len(started)) as waiting:  # in any order: others look for a ready scheduler
        list(waiting.map(pods.Pod.wait_ready, started))


def pod_name(workload, number):
    tag = number if workload["kind"] == "StatefulSet" else f"{secrets.token_hex(2)}{number}"
    return f"{workload['metadata']['name']}-{tag}"


def one_node(node, helm):
    manifests = chart.render(helm, "one-node", settings=["gateway.service.port=8000"])
    node.add(manifests)
    begun = time.monotonic()
    start_all(node, manifests)
    took = time.monotonic() - begun
    helm_test(node, manifests)
    for pod in node.pods.values():
        kept_out(pod)
    moved = move_scheduler(node, manifests)
    assert node.stop_all() == {}
    return (f"one node: {len(chart.workloads(manifests))} pods ready in {took:.1f} s, helm test passes; a request that came when "
            f"the scheduler's pod was evicted was answered after {moved:.1f} s by its successor, which has no state")


def move_scheduler(node, manifests):
    """The scheduler's pod is evicted, and its Deployment starts another one at once. @returns how long requests had no answer"""
    workload = next(w for w in chart.workloads(manifests) if "scheduler" in w["metadata"]["name"])
    leaving = node.selected(workload["spec"]["selector"]["matchLabels"])[0]
    gateway = next(pod.address for pod in node.pods.values() if "gateway" in pod.name)
    begun = time.monotonic()
    successor = node.start(pod_name(workload, 1), workload)
    assert leaving.terminate() == 0
    successor.wait_ready()  # from then on its name is known

    def answered():
        connection = http.client.HTTPConnection(gateway, 8000, timeout=60)
        with contextlib.closing(connection):
            connection.request("POST", "/v1/completions", json.dumps({"prompt": [1, 2], "max_tokens": 4, "ignore_eos": True}),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read()
            assert response.status in (200, 503), text
            return response.status == 200

    pods.wait_for("the new scheduler admits requests", answered)
    return time.monotonic() - begun


def helm_test(node, manifests):
    """The containers of the test's pod, one after the other."""
    test = next(m for m in manifests if m["kind"] == "Pod")
    assert len(test["spec"]["containers"]) == 1, test
    for number, container in enumerate(test["spec"]["containers"]):
        pod = pods.Pod(node, f"test-{number}", f"{pods.NETWORK}.{240 + number}", test, container=number)
        pod.prepare()
        pod.launch()
        assert pod.process.wait(120) == 0, (container["name"], pod.log.read_text())
        pod.forget()


def kept_out(pod):
    """What the security context keeps a process from."""
    status = pathlib.Path(f"/proc/{pod.process.pid}/status").read_text(encoding="ascii")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {fields[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}, status
    assert fields["NoNewPrivs"] == "1" and set(fields["Uid"].split()) == {"65532"}, status
    written = pod.inside(["sh", "-c", "echo x > /etc/x"])
    assert written.returncode != 0 and "Read-only" in written.stderr, written


def upgrade(node, helm):
    old, new = chart.render(helm, "public"), chart.render(helm, "upgrade")
    node.add([pods.secret("troupe-cluster", "secret", secrets.token_hex(32)),
              pods.secret("troupe-api-keys", "api-keys", f"{KEY}\n")])
    cluster = Cluster(node, 1, lambda line: None)
    cluster.apply(old)
    pods.wait_for("the old release", cluster.done)
    before = set(node.pods)
    clients = open_loop.OpenLoop(lambda: cluster.endpoints("gateway"), RATE, TOKENS, KEY)
    clients.learn()
    looks = watch.Watch(cluster)
    clients.start()
    cluster.apply(new)
    pods.wait_for("the new release", cluster.done)
    outcomes = clients.stop()
    looks.stopping.set()
    failed = looks.failed(outcomes)
    assert not failed, failed
    right = sum(outcome.kind == open_loop.OK for outcome in outcomes)
    assert right > len(outcomes) // 2, outcomes
    assert cluster.stop() == {} and cluster.restarts() == 0
    return (f"upgrade: {len(before)} pods replaced, all workloads at once; {right} streams of {TOKENS} tokens as without it; "
            f"{len(outcomes) - right} requests were told 503 while a scheduler took over")


def compose(node, helm):
    """helm: not used"""
    text = (chart.FOLDER.parents[1] / "deploy" / "compose.yaml").read_text(encoding="utf-8")
    for name, value in {"SERVED_MODEL_NAME:-model": "demo", "MODEL_DIR:?a model folder": "/srv/model",
                        "TROUPE_IMAGE:-troupe:0.1.0": "troupe"}.items():
        text = text.replace(f"${{{name}}}", value)
    services = yaml.safe_load(text.replace("$$", "$"))["services"]
    roles = ("scheduler", "expert", "attention", "gateway")
    node.objects.clear()
    shared = node.claims["cluster-secret"] = pods.Pod.owned(node.work / "cluster-secret", 65532)
    shared.chmod(0o777)  # like a volume that takes over the owner of the image's folder
    maker = node.start("secret", workload_of("secret", services["secret"]))
    assert maker.process.wait(60) == 0, maker.log.read_text()
    maker.forget()
    assert (shared / "secret").stat().st_mode & 0o777 == 0o600
    node.add([{"kind": "Service", "metadata": {"name": role},
               "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"service": role}}}
              for role in roles])
    for role in roles:
        node.start(role, workload_of(role, services[role]))
    gateway = node.pods["gateway"].address

    def answer():
        ended = {name: pod.process.returncode for name, pod in node.pods.items() if pod.process.poll() is not None}
        assert not ended, ended
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection(gateway, 8000, timeout=60)
            with contextlib.closing(connection):
                connection.request("POST", "/v1/completions", json.dumps({"prompt": [1, 2], "max_tokens": 4, "ignore_eos": True}),
                                   {"Content-Type": "application/json"})
                response = connection.getresponse()
                return response.status == 200 and json.loads(response.read())
        return None

    told = pods.wait_for("compose answers", answer)
    assert (told["model"], told["usage"]["completion_tokens"]) == ("demo", 4), told
    scraped = yaml.safe_load((chart.FOLDER.parents[1] / "deploy" / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    targets = [target for job in scraped["scrape_configs"] for one in job["static_configs"] for target in one["targets"]]
    for target in targets:
        name, port = target.split(":")
        connection = http.client.HTTPConnection(node.pods[name].address, int(port), timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            assert b"troupe_" in connection.getresponse().read(), target
    assert {target.split(":")[0] for target in targets} == set(roles)
    assert node.stop_all() == {}
    return f"compose: {len(roles)} services answer, {len(targets)} are scraped"


def workload_of(name, service):
    """A service of the compose file as a manifest that Pod takes. The user is the image's."""
    assert (service["read_only"], service["cap_drop"], service["security_opt"]) == (True, ["ALL"], ["no-new-privileges:true"])
    mounts, volumes = [], []
    for number, mount in enumerate(service["volumes"]):
        source, target, *options = mount.split(":")
        mounts.append({"name": f"v{number}", "mountPath": target, "readOnly": "ro" in options})
        kind = {"hostPath": {"path": source}} if source.startswith("/") else {"persistentVolumeClaim": {"claimName": source}}
        volumes.append({"name": f"v{number}", **kind})
    confined = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}
    variables = [{"name": key, "value": str(value)} for key, value in service.get("environment", {}).items()]
    return {"metadata": {"labels": {"service": name}}, "spec": {
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532},
        "volumes": volumes, "containers": [{"name": name, "command": service["command"], "env": variables, "volumeMounts": mounts,
                                            "securityContext": confined}]}}


if __name__ == "__main__":
    main()
