#!/usr/bin/python3
"""Every entry of the runbooks, carried out on Kubernetes as the chart makes it: fake_kubectl.py knows only what the chart
renders.

usage: runbooks_test.py BINARIES MODEL_DIR WORK_DIR CACHE   (BINARIES and MODEL_DIR are not used)

What the commands do to a cluster is tried with `troupe up` (tests/prometheus/try_runbooks.py); here each must be shell, know its variables and
name pods, Secrets and ConfigMaps that are there, whatever the release and its namespace are called. Skipped where helm cannot be fetched.
"""
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import chart
import tools

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "prometheus"))
from runbook_entries import FILE, Runbooks, lines_of  # noqa: E402

WORK, CACHE = pathlib.Path(sys.argv[3]), sys.argv[4]
HELM = tools.or_skip(tools.helm, CACHE)
FAKE = pathlib.Path(__file__).with_name("fake_kubectl.py")
ALERTS = Runbooks()
ACTS = Runbooks(FILE.with_name("runbooks-kubernetes.md").read_text(encoding="utf-8"))
OWN = re.compile(r"(?<![\w-])(kubectl|systemctl|kill|ss|\$EDITOR)\s")  # commands of only one kind of cluster
RELEASES = {
    "plain": ("default", ['apiKeys.keys=["a key-of-a-0123456789"]', 'gateway.tls.existingSecret="web"', "pods.pdb.enabled=true",
                          "scheduler.persistence.enabled=true"]),
    "renamed": ("ml", ['fullnameOverride="moe"', 'apiKeys.existingSecret="of-ours"', 'apiKeys.key="list"', 'gateway.tls.existingSecret="web"',
                       "scheduler.standby.enabled=true", "scheduler.persistence.enabled=true", 'scheduler.persistence.accessModes=["ReadWriteMany"]']),
}
KEYS = {"plain": "secret/r-troupe-api-keys/api-keys", "renamed": "secret/of-ours/list"}


def pods_of(manifests):
    """The pods that controllers make."""
    for workload in chart.workloads(manifests):
        template, name = workload["spec"]["template"], workload["metadata"]["name"]
        for number in range(workload["spec"].get("replicas") or 2):
            own = f"{name}-{number}" if workload["kind"] == "StatefulSet" else f"{name}-7c9f8d-x{number}"
            yield {"kind": "Pod", "metadata": {"name": own, "labels": template["metadata"]["labels"]}, "spec": template["spec"]}


def secret(name, **data):
    return {"kind": "Secret", "metadata": {"name": name, "labels": {}}, "data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}}


class Kubernetes:
    """A release, and a shell in which its runbooks run."""

    def __init__(self, name, work):
        self.namespace, settings = RELEASES[name]
        manifests = chart.render(HELM, settings=[chart.MODEL, *settings])
        pods = list(pods_of(manifests))
        self.pods = [pod["metadata"]["name"] for pod in pods]
        self.worker = next(pod["metadata"]["name"] for pod in pods if pod["metadata"]["labels"]["app.kubernetes.io/component"] == "expert")
        self.gateway = next(pod["metadata"]["name"] for pod in pods if pod["metadata"]["labels"]["app.kubernetes.io/component"] == "gateway")
        self.claim = chart.of_kind(manifests, "PersistentVolumeClaim")[0]["metadata"]["name"]
        log = [f"T{number} info scheduler {event}: {self.worker} at 10.0.0.1" for number, event in enumerate(("worker-joined", "worker-hung", "worker-gone"))]
        log += [f"T8 info {name} failed: all at once\nT8 info {name} supervisor: {name} ended" for name in self.pods]
        log += ["T9 warning a reload-failed: f", "T9 info s cluster-not-ready: 1", "T9 info s standby: 1", "T9 info s placement-change: 1",
                "T9 info s request-replayed: again request_id=1", "T9 info a request: request_id=1 status=500 key_name=a"]
        self.file = work / "cluster.json"
        self.file.write_text(json.dumps({
            "namespace": self.namespace, "nodes": ["node-1"], "log": "\n".join(log),
            "objects": pods + manifests + [secret("web", **{"tls.crt": "certificate"}), secret("of-ours", list="a key-of-a-0123456789\n")]}), encoding="utf-8")
        programs = work / "programs"
        shutil.rmtree(programs, ignore_errors=True)
        programs.mkdir()
        for program in ("kubectl", "helm", "troupe", "promtool", "openssl"):
            (programs / program).symlink_to(FAKE)
        editor = programs / "editor"
        editor.write_text("#!/bin/sh\nset -e\ntest -s \"$1\"\nprintf changed > \"$1\"\n", encoding="utf-8")
        editor.chmod(0o755)
        self.environment = {
            "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(work), "TMPDIR": str(work), "FAKE_CLUSTER": str(self.file), "RELEASE": "r",
            "NAMESPACE": self.namespace, "GATEWAY": "http://gateway:8000", "PROMETHEUS": "http://prometheus:9090", "OPENAI_API_KEY": "k",
            "EDITOR": str(editor), "RENEW": "true", "NODE": "node-1", "CLAIM": self.claim, "SIZE": "100Gi", "JOB": "default/r-troupe",
            "INSTANCE": "10.0.0.1:7080", "ROLE": "expert"}

    def run(self, commands, process, **more):
        done = subprocess.run(["bash", "-c", f"set -euo pipefail\n{ALERTS.preamble('Kubernetes')}\n{commands}\n"], text=True, check=False,
                              capture_output=True, env={**self.environment, "PROCESS": process, **more}, timeout=120)
        return done.returncode, done.stdout, done.stderr

    def data(self, kind, name):
        objects = json.loads(self.file.read_text(encoding="utf-8"))["objects"]
        return next(item["data"] for item in objects if (item["kind"], item["metadata"]["name"]) == (kind, name))


class RunbooksOnKubernetes(unittest.TestCase):
    def clusters(self):
        for name in RELEASES:
            work = WORK / name
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            yield name, Kubernetes(name, work)

    def test_every_entry_runs(self):
        for name, cluster in self.clusters():
            for runbooks in (ALERTS, ACTS):
                for entry in runbooks.entries:
                    look, do = runbooks.commands(entry)
                    self.assertTrue(look and do, entry)
                    concerns_gateways = "Gateway" in entry or "Reload" in entry or "Connections" in entry
                    status, said, errors = cluster.run("".join(look + do), cluster.gateway if concerns_gateways else cluster.worker, FILE=KEYS[name])
                    self.assertEqual((status, errors), (0, ""), f"{name}, {entry}: {said}")

    def test_what_is_edited_is_what_gateways_read(self):
        for name, cluster in self.clusters():
            status, said, errors = cluster.run("edit $API_KEYS; edit $KEY_LIMITS; content $API_KEYS; content $CERT", cluster.gateway)
            self.assertEqual((status, errors), (0, ""))
            self.assertEqual(said.splitlines()[-2:], ["changed", "certificate"])
            _, of_keys, key = KEYS[name].split("/")
            self.assertEqual(base64.b64decode(cluster.data("Secret", of_keys)[key]), b"changed")
            limits = "moe-key-limits" if name == "renamed" else "r-troupe-key-limits"
            self.assertEqual(cluster.data("ConfigMap", limits)["limits.json"], "changed")

    def test_names_are_those_of_the_release(self):
        for name, cluster in self.clusters():
            status, said, errors = cluster.run("echo $SCHEDULER; echo $GATEWAYS; echo $API_PORT", cluster.gateway)
            self.assertEqual((status, errors), (0, ""))
            scheduler, gateways, port = said.splitlines()
            self.assertTrue(scheduler.startswith("moe-scheduler-0" if name == "renamed" else "r-troupe-scheduler-"), scheduler)
            self.assertIn(scheduler, cluster.pods)
            self.assertEqual(len(gateways.split()), 2)
            self.assertLessEqual(set(gateways.split()), set(cluster.pods))
            self.assertEqual(port, "8000")

    def test_entries_of_alerts_have_no_command_of_one_kind_of_cluster(self):
        for entry in ALERTS.entries:
            for block in [one for blocks in ALERTS.commands(entry) for one in blocks]:
                for line in lines_of(block):
                    self.assertIsNone(OWN.search(line), f"{entry}: {line}")

    def test_what_is_not_there_is_an_error(self):
        (_, cluster), *_ = self.clusters()
        for command in ("k get pod nobody", "k exec nobody -- ls", f"k exec {cluster.worker} -- top", f"k delete pod {cluster.worker} --force",
                        f"kubectl delete pod {cluster.worker}", "content secret/nothing/a", "content secret/web/tls.key", "kubectl drain node-9"):
            self.assertNotEqual(cluster.run(command, cluster.worker)[0], 0, command)

    def test_acts_have_all_four_parts(self):
        for name, text in ACTS.entries.items():
            for part in ("**Means.**", "**Look.**", "**Do.**", "**Otherwise.**"):
                self.assertIn(part, text, name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
