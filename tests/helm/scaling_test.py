#!/usr/bin/python3
"""The chart's query for expert workers, run on a real Prometheus during a rollout, with missing scrapes and without
Prometheus.

usage: scaling_test.py BINARIES MODEL_DIR WORK_DIR CACHE   (BINARIES and MODEL_DIR are not used)

Pods are pages of one HTTP server that Prometheus scrapes. The HorizontalPodAutoscaler is a few lines: what Kubernetes does with an External
metric of type AverageValue, tolerance and surge pods of `status.replicas` included, and with a metric that cannot be had, which is what
KEDA gives it for a query without an answer where there is no fallback. Skipped where there is no helm or no prometheus.
"""
import contextlib
import http.server
import json
import math
import pathlib
import shutil
import sys
import threading
import unittest

import chart
import tools

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))
from cluster import wait_for  # noqa: E402
from prometheus_server import Prometheus  # noqa: E402

WORK, CACHE = pathlib.Path(sys.argv[3]), sys.argv[4]
HELM = tools.or_skip(tools.helm, CACHE)
TOLERANCE = 0.1  # of kube-controller-manager


@contextlib.contextmanager
def pages():
    """@returns (port, {path: text of a metrics page})"""
    texts = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            text = texts.get(self.path)
            self.send_response(404 if text is None else 200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, texts
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Autoscaler:
    """What KEDA and the HorizontalPodAutoscaler do with a ScaledObject, one look at a time."""

    def __init__(self, scaled, spec):
        (trigger,) = scaled["spec"]["triggers"]
        assert trigger["metricType"] == "AverageValue" and trigger["metadata"]["ignoreNullValues"] == "false", trigger
        assert "fallback" not in scaled["spec"], "a fallback would be a number of its own"
        self.query, self.threshold = trigger["metadata"]["query"], float(trigger["metadata"]["threshold"])
        self.least, self.most = scaled["spec"]["minReplicaCount"], scaled["spec"]["maxReplicaCount"]
        self.spec = spec

    def look(self, ask, status):
        """@param ask  the question to Prometheus; @param status  pods that there are. @returns pods that there are to be"""
        try:
            samples = ask(self.query)
        except OSError:
            samples = []
        if len(samples) == 1:  # otherwise there is no metric, and the number stays
            value = float(samples[0]["value"][1])
            wanted = status
            if abs(1 - value / (self.threshold * status)) > TOLERANCE:
                wanted = math.ceil(value / self.threshold)
            self.spec = min(max(wanted, self.least), self.most)
        return self.spec


class Stage:
    """A release: its pods as pages, Prometheus, and the query of its pool of expert workers."""

    def __init__(self, port, texts, work):
        self.port, self.texts, self.work, self.pods = port, texts, work, {}
        manifests = chart.render(HELM, settings=[chart.MODEL, 'expert.autoscaling={"enabled": true, "minReplicas": 2, "maxReplicas": 8}'])
        self.scaled = chart.of_kind(manifests, "ScaledObject")[0]

    def set(self, name, role, text, release="r"):
        """A pod, and what it tells; None: it does not answer scrapes."""
        self.pods[name] = (role, release)
        self.texts[f"/{name}"] = text
        self.write_targets()

    def remove(self, name):
        del self.pods[name]
        self.texts.pop(f"/{name}", None)
        self.write_targets()

    def write_targets(self):
        targets = [{"targets": [f"127.0.0.1:{self.port}"], "labels": {
            "__metrics_path__": f"/{name}", "instance": name, "role": role, "namespace": "default", "app_kubernetes_io_instance": release}}
            for name, (role, release) in self.pods.items()]
        new = self.work / "new-targets.json"
        new.write_text(json.dumps(targets), encoding="utf-8")
        new.replace(self.work / "prometheus-targets.json")

    def wait_until_known(self, prometheus):
        """Prometheus knows these pods and no other, as they are now."""
        def is_known():
            up = {sample["metric"]["instance"]: sample["value"][1] == "1" for sample in prometheus.query("up")}
            if up != {name: self.texts[f"/{name}"] is not None for name in self.pods}:
                return False
            told = {sample["metric"]["instance"]: float(sample["value"][1]) for sample in prometheus.query("troupe_placement_wanted_workers")}
            return told == {name: float(text.split()[-1]) for name in self.pods
                            if "wanted_workers" in (text := self.texts[f"/{name}"] or "")}

        wait_for("Prometheus has scraped all", is_known, 120)


def scheduler(wanted=None):
    return "troupe_cluster_ready 1\n" + ("" if wanted is None else f"troupe_placement_wanted_workers {wanted}\n")


HOSTS = "troupe_experts_hosted 48\n"


class Scaling(unittest.TestCase):
    def setUp(self):
        work = WORK / self.id().rsplit(".", maxsplit=1)[-1]
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        resources = contextlib.ExitStack()
        self.addCleanup(resources.close)
        self.stage = Stage(*resources.enter_context(pages()), work)
        self.stage.write_targets()
        self.prometheus_stack = resources.enter_context(contextlib.ExitStack())
        self.prometheus = self.prometheus_stack.enter_context(Prometheus(work, work, []))

    def known(self):
        self.stage.wait_until_known(self.prometheus)

    def test_a_rollout_adds_nobody(self):
        pool = Autoscaler(self.stage.scaled, 2)
        self.stage.set("scheduler-0", "scheduler", scheduler(2))
        for name in ("expert-0", "expert-1"):
            self.stage.set(name, "expert", HOSTS)
        for round_of_all in range(3):
            for old in range(2):  # one more starts, becomes available, and replaces an old one
                before, after = f"expert-{2 * round_of_all + old}", f"expert-{2 * round_of_all + old + 2}"
                self.stage.set(after, "expert", None)
                self.known()
                self.assertEqual(pool.look(self.prometheus.query, status=3), 2)
                self.stage.set(after, "expert", HOSTS)
                self.known()
                self.assertEqual(pool.look(self.prometheus.query, status=3), 2)
                self.stage.remove(before)
                self.known()
                self.assertEqual(pool.look(self.prometheus.query, status=2), 2)

    def test_a_large_pool_is_off_by_the_tolerance_at_most_however_often_it_rolls(self):
        """Kubernetes takes `status.replicas` for the number where it is within the tolerance, surge pods and all."""
        self.stage.scaled["spec"]["maxReplicaCount"] = 64
        pool = Autoscaler(self.stage.scaled, 20)
        self.stage.set("scheduler-0", "scheduler", scheduler(20))
        self.known()
        for _ in range(20):
            pool.look(self.prometheus.query, status=pool.spec + 1)
        self.assertLessEqual(pool.spec, 22)

    def test_what_the_planner_wants_is_what_there_is_to_be(self):
        pool = Autoscaler(self.stage.scaled, 2)
        for wanted, given in ((5, 5), (3, 3), (1, 2), (40, 8)):
            self.stage.set("scheduler-0", "scheduler", scheduler(wanted))
            self.known()
            self.assertEqual(pool.look(self.prometheus.query, status=pool.spec), given)

    def test_missing_scrapes_change_nothing(self):
        pool = Autoscaler(self.stage.scaled, 6)
        self.stage.set("scheduler-0", "scheduler", scheduler(6))
        for number in range(6):
            self.stage.set(f"expert-{number}", "expert", HOSTS if number < 2 else None)
        self.known()
        self.assertEqual(pool.look(self.prometheus.query, status=6), 6, "four expert workers are not scraped")
        self.stage.set("scheduler-0", "scheduler", None)
        self.known()
        self.assertEqual(pool.look(self.prometheus.query, status=6), 6, "nor is the scheduler")
        self.stage.remove("scheduler-0")
        self.known()
        self.assertEqual(pool.look(self.prometheus.query, status=7), 6, "nobody tells anything")
        self.stage.set("scheduler-1", "scheduler", scheduler())
        self.known()
        self.assertEqual(pool.look(self.prometheus.query, status=6), 6, "a new scheduler does not know yet")
        self.stage.set("scheduler-1", "scheduler", scheduler(7))
        self.known()
        self.assertEqual(pool.look(self.prometheus.query, status=6), 7)

    def test_prometheus_that_is_away_changes_nothing(self):
        pool = Autoscaler(self.stage.scaled, 2)
        self.stage.set("scheduler-0", "scheduler", scheduler(6))
        self.known()
        self.assertEqual(pool.look(self.prometheus.query, status=2), 6)
        self.prometheus_stack.close()
        for _ in range(5):
            self.assertEqual(pool.look(self.prometheus.query, status=6), 6)

    def test_of_two_schedulers_the_active_one_counts_and_of_other_releases_none(self):
        pool = Autoscaler(self.stage.scaled, 2)
        self.stage.set("scheduler-0", "scheduler", scheduler())
        self.stage.set("scheduler-1", "scheduler", scheduler(3))
        self.stage.set("other-0", "scheduler", scheduler(7), release="other")
        self.known()
        self.assertEqual(pool.look(self.prometheus.query, status=2), 3)


if __name__ == "__main__":
    if shutil.which("prometheus") is None:
        print("skipped: no prometheus: deploy/install-deps.sh test")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
