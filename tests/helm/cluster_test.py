#!/usr/bin/python3
"""The rendered pods, started with exactly their commands, arguments and environment, are a cluster that answers; and a
rolling replacement of all of them under load, in the chart's order, loses nothing.

usage: cluster_test.py BINARIES MODEL_DIR WORK_DIR CACHE

ci/one-node-values.yaml: one of each, and the pod of `helm test`.

ci/public-values.yaml: two gateways with keys, two attention and two expert workers, a scheduler and its standby, upgraded to
ci/upgrade-values.yaml: every pod becomes one of the new manifests, a Deployment's before the old one leaves, a
scheduler's after it. Streams run all the time, through whatever gateway is ready, and must come out as without an upgrade,
byte for byte. A request that is refused with 503 before it has begun is asked again, as OpenAI's clients do; that may
happen only while a scheduler takes over.

deploy/compose.yaml: one of each role with the variables that stand there.
"""
import base64
import contextlib
import http.client
import json
import pathlib
import secrets
import shutil
import sys
import threading
import time

import yaml

import chart
import pods
import tools

CLIENTS = 6
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
    for path in [work, models, *models.rglob("*")]:  # the pods' user is nobody here
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
    for pod in list(node.pods.values()):
        pod.wait_ready()


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
    assert node.stop_all() == {}
    return f"one node: {len(chart.workloads(manifests))} pods ready in {took:.1f} s, helm test passes"


def helm_test(node, manifests):
    """The containers of the test's pod, one after the other."""
    test = next(m for m in manifests if m["kind"] == "Pod")
    assert len(test["spec"]["containers"]) == 2, test
    for number, container in enumerate(test["spec"]["containers"]):
        pod = pods.Pod(node, f"test-{number}", f"{pods.NETWORK}.{240 + number}", test, container=number)
        pod.start()
        assert pod.process.wait(120) == 0, (container["name"], pod.log.read_text())


def kept_out(pod):
    """What the security context keeps a process from."""
    status = pathlib.Path(f"/proc/{pod.process.pid}/status").read_text(encoding="ascii")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {fields[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}, status
    assert fields["NoNewPrivs"] == "1" and set(fields["Uid"].split()) == {"65532"}, status
    written = pod.inside(["sh", "-c", "echo x > /etc/x"])
    assert written.returncode != 0 and "Read-only" in written.stderr, written


class Load:
    """Clients that stream one request after the other through whatever gateway is ready."""

    def __init__(self, node):
        self.node, self.stopping = node, threading.Event()
        self.expected, self.answers, self.refused, self.errors = {}, 0, [], []
        self.lock, self.turn = threading.Lock(), 0
        self.threads = [threading.Thread(target=self.client, args=(n,)) for n in range(CLIENTS)]

    def endpoint(self):
        """A ready gateway, in turn, as a Service would choose."""
        ready = pods.wait_for("a gateway is ready", lambda: [
            p for p in self.node.selected({"app.kubernetes.io/component": "gateway"}) if p.ready])
        with self.lock:
            self.turn += 1
            return ready[self.turn % len(ready)].address

    def ask(self, number):
        """@returns what a client makes of the stream"""
        body = {"prompt": [3 + (number * 37 + i * 11) % 240 for i in range(8 + 5 * number)], "max_tokens": TOKENS,
                "temperature": 0.8, "seed": number, "ignore_eos": True, "logprobs": 1, "return_token_ids": True,
                "stream": True}
        while True:
            connection = http.client.HTTPConnection(self.endpoint(), 8000, timeout=120)
            with contextlib.closing(connection):
                connection.request("POST", "/v1/completions", json.dumps(body),
                                   {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"})
                response = connection.getresponse()
                if response.status == 503:
                    self.refused.append((time.monotonic(), response.read()))
                    self.stopping.wait(float(response.headers["Retry-After"]))
                    continue
                assert response.status == 200, (response.status, response.read())
                return self.stream(response)

    @staticmethod
    def stream(response):
        tokens, logprobs = [], []
        for line in response:
            if line.strip() == b"data: [DONE]":
                assert len(tokens) == TOKENS, tokens
                return tokens, logprobs
            if line.startswith(b"data: "):
                chunk = json.loads(line[6:])
                assert "error" not in chunk, chunk
                for choice in chunk["choices"]:
                    tokens += choice["token_ids"]
                    logprobs += choice["logprobs"]["token_logprobs"]
        raise AssertionError("the stream ended without [DONE]")

    def client(self, number):
        try:
            while not self.stopping.is_set():
                answer = self.ask(number)
                with self.lock:
                    assert self.expected.setdefault(number, answer) == answer, f"answer {number} differs"
                    self.answers += 1
        except BaseException as error:  # handed to stop() below
            self.errors.append(error)

    def start(self):
        for number in range(CLIENTS):
            self.expected[number] = self.ask(number)
        for thread in self.threads:
            thread.start()

    def check(self):
        if self.errors:
            raise self.errors[0]

    def go_on(self, count=CLIENTS):
        """Waits for so many further answers."""
        with self.lock:
            wanted = self.answers + count
        pods.wait_for("answers", lambda: self.errors or self.answers >= wanted)
        self.check()

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        self.check()


def secret(name, key, text):
    data = {key: base64.b64encode(text.encode()).decode()}
    return {"kind": "Secret", "metadata": {"name": name}, "data": data}


def upgrade(node, helm):
    old, new = chart.render(helm, "public"), chart.render(helm, "upgrade")
    node.add([secret("troupe-cluster", "secret", secrets.token_hex(32)), secret("troupe-api-keys", "api-keys", f"{KEY}\n")])
    node.add(old)
    start_all(node, old)
    load = Load(node)
    load.start()
    load.go_on()
    node.add(new)
    replaced, away = 0, []
    for workload in chart.workloads(new):
        leaving = node.selected(workload["spec"]["selector"]["matchLabels"])
        surge = workload["kind"] == "Deployment"
        numbers = range(max(workload["spec"]["replicas"], len(leaving)))
        for number in numbers if surge else reversed(numbers):  # a StatefulSet's last pod is the first to be replaced
            pod = leaving[number] if number < len(leaving) else None
            begun = time.monotonic()
            if pod and not surge:
                assert pod.name == pod_name(workload, number) and pod.terminate() == 0, pod.name
            node.start(pod_name(workload, number), workload).wait_ready()
            if pod and surge:
                assert pod.terminate() == 0, pod.name
            if not surge:
                away.append((begun, time.monotonic() + 3))  # found again by then: defaults::reconnect_max, a new lease
            replaced += pod is not None
            load.go_on()
    load.stop()
    outside = [text for at, text in load.refused if not any(begun <= at <= end for begun, end in away)]
    assert not outside, outside
    assert node.stop_all() == {}
    return (f"upgrade: {replaced} pods replaced under {CLIENTS} clients, {load.answers} streams of {TOKENS} tokens as without "
            f"it; {len(load.refused)} requests were told 503 while a scheduler took over, and asked again")


def compose(node, helm):
    """helm: not used"""
    text = (chart.FOLDER.parents[1] / "deploy" / "compose.yaml").read_text(encoding="utf-8")
    for name, value in {"SERVED_MODEL_NAME:-model": "demo", "MODEL_DIR:?a model folder": "/srv/model",
                        "TROUPE_IMAGE:-troupe:0.1.0": "troupe"}.items():
        text = text.replace(f"${{{name}}}", value)
    services = yaml.safe_load(text)["services"]
    roles = ("scheduler", "expert", "attention", "gateway")
    node.objects.clear()
    shared = node.claims["cluster-secret"] = pods.Pod.owned(node.work / "cluster-secret", 65532)
    shared.chmod(0o777)  # as a volume that takes over the owner of the image's folder
    maker = node.start("secret", workload_of("secret", services["secret"]))
    assert maker.process.wait(60) == 0, maker.log.read_text()
    maker.forget()
    assert (shared / "secret").stat().st_mode & 0o777 == 0o600
    node.add([{"kind": "Service", "metadata": {"name": role}, "spec": {"clusterIP": "None", "selector": {"service": role}}}
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
