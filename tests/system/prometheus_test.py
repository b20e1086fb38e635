#!/usr/bin/env python3
"""A real Prometheus scrapes a cluster of `troupe up` under load, while an expert worker is killed and a client goes beyond the
limit of its key. Then it is asked for every expression of every panel and every rule: none may be empty, but for what this
cluster has not (see MISSING). Every process' page passes `promtool check metrics` and has what the catalogue says, and no more.
The same for the expressions that vLLM's dashboards use, of a cluster with `--metrics-prefix vllm:`.

usage: prometheus_test.py BINARIES MODEL_DIR WORK_DIR
Skipped (77) where there is no prometheus. It runs as a child with a folder of its own, not as a service.
"""
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import re
import shutil
import subprocess
import sys
import threading

import yaml

from cluster import Cluster, free_port, run_all, wait_for
from prometheus_server import PATIENCE, Prometheus

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "prometheus"))
from promql import of_panels, selectors  # noqa: E402  (beside the tests of the rules)
from vllm_expressions import Expressions  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = sorted((ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"))
DASHBOARDS = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
MISSING = {"troupe_tls_certificate_not_after_seconds": "this cluster has no certificates",
           "troupe_tls_handshake_failures_total": "nor handshakes",
           "troupe_placement_wanted_workers": "it is known after five minutes",
           "kube_pod_container_status_restarts_total": "there is no Kubernetes",
           "ALERTS": "no alert fires"}
KEYS = "alice key-of-alice-0123456789\nbob key-of-bob-0123456789\n"
LIMITS = {"keys": {"bob": {"requests_per_minute": 1}}}


def targets_of(run_dir):
    """@returns [(role, process, host:port)] that `up` has written"""
    groups = json.loads((run_dir / "prometheus-targets.json").read_text(encoding="utf-8"))
    return [(group["labels"]["role"], group["labels"]["process"], group["targets"][0]) for group in groups]


def page_of(address):
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        return answer.read().decode()
    finally:
        connection.close()


def ask(cluster, key, path, body):
    """@returns the status of an answer that was read to its end"""
    connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=120)
    try:
        connection.request("POST", path, json.dumps(body).encode(),
                           {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def load(cluster, num_requests):
    """Completions, streams and conversations of alice."""
    def one(number):
        body = {"model": "m", "max_tokens": 24, "temperature": 0, "ignore_eos": True, "stream": number % 2 == 0}
        if number % 3 == 0:
            return ask(cluster, "key-of-alice-0123456789", "/v1/chat/completions",
                       body | {"messages": [{"role": "user", "content": "a b c"}]})
        return ask(cluster, "key-of-alice-0123456789", "/v1/completions", body | {"prompt": list(range(1, 20 + number))})

    statuses = run_all([lambda n=n: one(n) for n in range(num_requests)], workers=4)
    assert set(statuses) == {200}, statuses


@contextlib.contextmanager
def loaded(cluster):
    """Requests all the time: what runs is seen by a scrape only while it runs."""
    is_over = threading.Event()

    def go_on():
        while not is_over.is_set():
            load(cluster, 8)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        loading = pool.submit(go_on)
        try:
            yield
        finally:
            is_over.set()
            loading.result()


def families_of(page):
    """@returns {family: (type, names of the labels that its series have)} of a page"""
    result = {name: (kind, set()) for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE)}
    for name, labels in re.findall(r"^([\w:]+)(?:\{(.*)\})? \S+$", page, re.MULTILINE):
        family = name if name in result else re.sub(r"_(bucket|sum|count)$", "", name)
        result[family][1].update(re.findall(r'(\w+)="(?:[^"\\]|\\.)*"', labels))
    return result


def check_pages(binaries, run_dir, work):
    """promtool takes each page, and together they have what the catalogue says."""
    tool = binaries.parent / "tests" / "metrics_table"
    listed = json.loads(subprocess.run([tool, "--json"], capture_output=True, check=True).stdout)["families"]
    catalogue = {("troupe_" if one["prefix"] else "") + one["name"]: one for one in listed}
    seen = set()
    for role, process, address in targets_of(run_dir):
        page = page_of(address)
        (work / f"{process}.metrics").write_text(page, encoding="utf-8")
        done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{process}: {done.stdout}{done.stderr}"
        for family, (kind, labels) in families_of(page).items():
            spec = catalogue[family]
            assert kind == spec["type"], f"{process}: {family} is a {kind}, not a {spec['type']}"
            assert spec["process"] in (role, "every"), f"{family} of the {spec['process']} is on the page of {process}"
            assert labels <= {*spec["labels"], "le", "model_name"}, f"{process}: {family} has the labels {labels}"
            assert "model_name" in labels, f"{process}: {family} has no model_name"
            seen.add(family)
        missing = [name for name, spec in catalogue.items()
                   if spec["process"] in (role, "every") and not spec["condition"] and name not in families_of(page)]
        # A new worker has computed nothing.
        missing = [name for name in missing if not re.search(r"expert_(layer_)?rows_total$", name)]
        assert not missing, f"{process} does not show {missing}"
    optional = {name for name, spec in catalogue.items() if spec["condition"]}
    never = set(catalogue) - seen - optional
    assert not never, f"no process shows {never}"


def expressions_of_ours():
    """@returns ([(where, expression)] that must have samples, [(where, expression)] that must be understood)"""
    filled, understood = [], []
    for path in DASHBOARDS:
        for title, expression in of_panels(json.loads(path.read_text(encoding="utf-8"))):
            missing = any(name in MISSING for name, _ in selectors(expression))
            (understood if missing else filled).append((f"{path.name}, {title}", expression))
    for path in RULES:
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            for rule in group["rules"]:
                where = rule.get("alert") or rule["record"]
                if "record" in rule:
                    filled.append((where, rule["expr"]))
                    filled.append((where, rule["record"]))
                else:  # most do not fire here, but their series must exist
                    understood.append((where, rule["expr"]))
                    filled += [(where, selector) for name, selector in selectors(rule["expr"]) if name not in MISSING]
    return filled, understood


def ours(binaries, model, work):
    keys, limits = work / "keys", work / "limits.json"
    keys.write_text(KEYS, encoding="utf-8")
    keys.chmod(0o600)
    limits.write_text(json.dumps(LIMITS), encoding="utf-8")
    with Cluster(binaries, "up", model, "--served-model-name", "m", "--expert-workers", "2", "--replicas", "2",
                 "--api-key-file", str(keys), "--key-limits", str(limits), "--management-port", str(free_port()), "--expert-memory", "256M",
                 "--max-num-queued-reqs", "100", run_dir=work / "run", log=work / "up.log") as cluster, \
            Prometheus(work / "run", work, RULES) as prometheus:
        assert {role for role, _, _ in targets_of(work / "run")} == {"gateway", "scheduler", "attention", "expert"}
        assert cluster.said(r"ready: expert-0 \S+, metrics at http://127\.0\.0\.1:\d+/metrics")
        prometheus.wait_for_all([("all processes", 'count(up == 1) == 5')])
        load(cluster, 24)
        # A new series has no rate: the next events must come after its first scrape.
        prometheus.wait_for_all([("rows of experts", "sum(troupe_expert_layer_rows_total) > 0")])
        assert [ask(cluster, "key-of-bob-0123456789", "/v1/completions", {"model": "m", "prompt": [1], "max_tokens": 1})
                for _ in range(2)] == [200, 429]
        before = cluster.pids()["expert-1"]
        started = prometheus.value('process_start_time_seconds{process="expert-1"}')
        cluster.kill("expert-1")
        wait_for("expert-1 is started again", lambda: cluster.pids().get("expert-1", before) != before)
        load(cluster, 24)
        wait_for("Prometheus sees the new process",
                 lambda: prometheus.value('process_start_time_seconds{process="expert-1"}') > started, PATIENCE)
        filled, understood = expressions_of_ours()
        prometheus.wait_for_all(filled)
        for _, expression in understood:
            prometheus.query(expression)
        unwell = {name: health for name, health in prometheus.rule_health().items() if health[0] != "ok"}
        assert not unwell, unwell
        # The faults must be visible, and so must their end: at the next scrape, or when the new worker has joined and loaded.
        prometheus.wait_for_all([(f"{series} {is_so}", f"{series} {is_so}") for series, is_so in (
            ('sum(troupe_key_rejections_total{key="bob",reason="requests"})', "== 1"),
            ('sum(troupe_http_requests_total{handler="/v1/completions",status="429"})', "== 1"),
            ('sum(troupe_transport_peers_lost_total{role="scheduler"})', ">= 1"),
            ('changes(process_start_time_seconds{process="expert-1"}[5m])', "== 1"),
            ("sum(troupe_experts_without_host)", "== 0"),
            ('troupe_cluster_workers{member="expert"}', "== 2"),
            ("troupe_expert_copies / troupe_experts_placed", "== 2"),
            ("min(troupe_transport_peers)", ">= 1"),
            ('troupe_transport_slowest_round_trip_seconds{role="attention",peer="expert"}', "> 0"),
            ('troupe_transport_mean_round_trip_seconds{role="expert",peer="scheduler"}', "> 0"),
            ('count(troupe_transport_slowest_round_trip_seconds{peer="other"} > 0) or vector(0)', "== 0"),
            ("troupe_kv_cache_capacity_tokens / troupe_kv_cache_blocks", ">= 1"),
            ("troupe_num_requests_waiting_limit", "== 100"),
            ("max(troupe_expert_memory_limit_bytes)", f"== {256 << 20}"))])
        check_pages(binaries, work / "run", work)
        print(f"{len(filled)} expressions of panels and rules have samples, {len(understood)} more are understood")


def vllms(binaries, model, work):
    expressions = Expressions()
    with Cluster(binaries, "up", model, "--served-model-name", "m", "--expert-workers", "1", "--metrics-prefix", "vllm:",
                 run_dir=work / "run", log=work / "up.log") as cluster, Prometheus(work / "run", work, RULES) as prometheus:
        # Events before the first scrape are not in a rate.
        prometheus.wait_for_all([("all processes", "count(up == 1) == 4"), ("the first scrape", "count(vllm:request_success_total) > 0")])
        with loaded(cluster):
            prometheus.wait_for_all([(dashboard, expression) for dashboard, expression, _ in expressions.asked])
        for dashboard, series, _, why in expressions.missing:
            assert not prometheus.query(series), f"{dashboard}: there is {series} after all, though the list says: {why}"
    answered, missing = expressions.counts()
    print(f"{answered} expressions of vLLM's dashboards have samples; {missing} ask for what there is not")


def main():
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        print("no prometheus: deploy/install-deps.sh test")
        sys.exit(77)
    binaries, model, work = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    for part in (ours, vllms):
        (work / part.__name__).mkdir(parents=True)
        part(binaries, model, work / part.__name__)


if __name__ == "__main__":
    main()
