#!/usr/bin/python3
"""What the chart renders, without starting any of it.

usage: chart_test.py BINARIES MODEL_DIR WORK_DIR CACHE   (MODEL_DIR and WORK_DIR are not used)

Skipped where helm or the schemas cannot be fetched; fails under CI then.
"""
import base64
import json
import pathlib
import re
import subprocess
import sys
import unittest

import chart
import tools

BINARIES, CACHE = pathlib.Path(sys.argv[1]), sys.argv[4]
VALUES = sorted(path.name.removesuffix("-values.yaml") for path in (chart.FOLDER / "ci").iterdir())
STANDBY = ["scheduler.standby.enabled=true", 'scheduler.persistence.accessModes=["ReadWriteMany"]']
ROLES = ("gateway", "scheduler", "attention", "expert")
HELM = tools.or_skip(tools.helm, CACHE)
SCHEMAS = tools.or_skip(tools.schemas, CACHE)


def render(*values, **more):
    return chart.render(HELM, *values, **more)


def flags_of(program):
    told = subprocess.run([BINARIES / program, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  (--[a-z0-9-]+)", told, re.MULTILINE))


def role_of(workload):
    return workload["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]


def query_of(manifests, name, number=0):
    return chart.named(manifests, "ScaledObject", name)["spec"]["triggers"][number]["metadata"]["query"]


class Files(unittest.TestCase):
    def test_what_is_generated_is_current(self):
        for script in ("schema.py", "readme.py"):
            done = subprocess.run([sys.executable, chart.FOLDER.parent / script, "--check"], capture_output=True, text=True,
                                  check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_lint(self):
        for name in VALUES:
            done = subprocess.run([HELM, "lint", "--strict", chart.FOLDER, "-f", chart.values_file(name)],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, f"{name}: {done.stdout}{done.stderr}")

    def test_schemas_of_kubernetes(self):
        self.assertEqual(VALUES, ["gpu", "mixed", "oci", "one-node", "public", "upgrade"])
        manifests = render()
        for name in VALUES:
            manifests += render(name)
        manifests += render(settings=STANDBY)
        done = subprocess.run(["node", pathlib.Path(__file__).with_name("check_schemas.mjs"), SCHEMAS],
                              input=json.dumps(manifests), capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_the_check_of_schemas_finds_faults(self):
        manifests = render("mixed")
        gateway = chart.named(manifests, "Deployment", "r-troupe-gateway")
        chart.container(gateway)["readinesProbe"] = {}
        chart.named(manifests, "ServiceMonitor", "r-troupe")["spec"]["endpoints"][0]["interval"] = "often"
        del chart.named(manifests, "HorizontalPodAutoscaler", "r-troupe-gateway")["spec"]["maxReplicas"]
        done = subprocess.run(["node", pathlib.Path(__file__).with_name("check_schemas.mjs"), SCHEMAS],
                              input=json.dumps(manifests), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Deployment/r-troupe-gateway: /spec/template/spec/containers/0/readinesProbe: unknown member", done.stdout)
        self.assertIn("ServiceMonitor/r-troupe: /spec/endpoints/0/interval: pattern", done.stdout)
        self.assertIn('HorizontalPodAutoscaler/r-troupe-gateway: /spec: required "maxReplicas"', done.stdout)
        self.assertEqual(len(done.stdout.splitlines()), 3, done.stdout)

    def test_a_wrong_value_is_refused_by_name(self):
        for setting, words in {'gateway.replicas="two"': ("gateway", "replicas", "integer"),
                               "gateway.replica=3": ("gateway", "replica"),
                               'model.config.dtype="fp8"': ("model", "config", "dtype", "bfloat16"),
                               "gateway.port=99999": ("gateway", "port", "65"),
                               'expert.pools=[{"name": "a", "config": {"kvCacheMemory": "1G"}}]': ("pools", "kvCacheMemory"),
                               'attention.pools=[{"name": "A_b"}]': ("attention", "pools", "name"),
                               "attention.pools=[]": ("attention", "pools"),
                               "tracing.sample=2": ("tracing", "sample", "1"),
                               'tracing.otlpEndpoint="collector:4318"': ("tracing", "otlpEndpoint", "http"),
                               'antiAffinity="soft"': ("antiAffinity",)}.items():
            with self.assertRaises(chart.Refused, msg=setting) as refused:
                render(settings=[setting])
            for word in words:
                self.assertIn(word, str(refused.exception))


class CommandLines(unittest.TestCase):
    def test_every_flag_is_one_of_the_program(self):
        for name in VALUES:
            for workload in chart.workloads(render(name)):
                container = chart.container(workload)
                program = container["command"][0]
                self.assertEqual(container["command"], [f"troupe-{role_of(workload)}"])
                given = {word.split("=")[0] for word in container["args"] if word.startswith("--")}
                self.assertEqual(given - flags_of(program), set(), f"{name}: {program}")
                self.assertEqual(len([w for w in container["args"] if not w.startswith("--")]), program != "troupe-scheduler")

    def test_every_flag_of_a_value_reaches_its_program(self):
        manifests = render(settings=[
            'model.config={"dtype": "bfloat16", "expertQuant": "int4", "int4Group": 64, "denseQuant": "int8",'
            ' "activationQuant": "int8", "kvCacheDtype": "int8", "weightCoding": "none", "weightsMemory": "copied",'
            ' "maxModelLen": 1000000}', 'model.servedName="m"', 'model.path="a/b"', 'network.netDevices="mlx5_0:1"',
            'weightsCache.type="emptyDir"', 'metrics.prefix="vllm:"',
            'tracing={"enabled": true, "sample": 0.25, "maxBytes": "1G", "mountPath": "/t", "otlpEndpoint": "http://c:4318"}',
            'gateway.config={"maxConnections": 4096, "templateProcesses": 3, "allowedOrigins": ["a", "b"],'
            ' "trustRequestChatTemplate": true}',
            'scheduler.config={"replicas": 2, "expertWorkers": 3, "maxQueuedBytes": "1G", "maxNumQueuedReqs": 7, "maxQueueWait": 9, "admissionQuantile": 0.7,'
            ' "allowInexact": true, "history": "/h.json"}',
            'attention.config={"device": "cpu", "threads": 0, "cores": "any", "cpuIsa": "avx2", "kernelPlan": "default", "maxNumSeqs": 8,'
            ' "maxNumBatchedTokens": 16, "microBatches": 2, "kvCacheMemory": 1073741824, "gpuSteps": "kernels"}',
            'expert.config={"expertMemory": "3G", "gpuExpertMemory": "2G", "expertLingerUs": 5}', 'pods.extraArgs=["--net-devices=eth0"]'])
        args = {role_of(w): chart.container(w)["args"] for w in chart.workloads(manifests)}
        model = ["/models/a/b", "--scheduler=r-troupe-scheduler-0.r-troupe-scheduler:7000", "--served-model-name=m",
                 "--dtype=bfloat16", "--expert-quant=int4", "--int4-group=64", "--dense-quant=int8",
                 "--activation-quant=int8", "--kv-cache-dtype=int8", "--weight-coding=none", "--max-model-len=1000000"]
        cluster = ["--listen=$(POD_IP):7000", "--name=$(POD_NAME)", "--secret-file=/etc/troupe/cluster/secret",
                   "--data-ports=7100-7199", "--net-devices=mlx5_0:1", "--metrics-prefix=vllm:", "--trace=/t",
                   "--trace-sample=0.25", "--trace-max-bytes=1G"]
        scraped = ["--metrics-host=0.0.0.0", "--metrics-port=7080", "--net-devices=eth0"]
        self.assertEqual(args["gateway"], [
            *model, "--management-host=0.0.0.0", "--management-port=7080", *cluster, "--host=0.0.0.0", "--port=8000", "--reload-interval=30", "--max-connections=4096", "--otlp-endpoint=http://c:4318", "--template-processes=3",
            "--allowed-origins=a", "--allowed-origins=b", "--trust-request-chat-template", "--net-devices=eth0"])
        self.assertEqual(args["scheduler"], [
            "--state-dir=/var/lib/troupe", "--replicas=2", "--expert-workers=3", "--max-queued-bytes=1G",
            "--max-num-queued-reqs=7", "--max-queue-wait=9", "--admission-quantile=0.7", "--allow-inexact", "--history=/h.json", "--served-model-name=m", *cluster, *scraped])
        cached = ["--weights-cache=/var/cache/troupe", "--weights-memory=copied"]
        self.assertEqual(args["attention"], [
            *model, *cached, "--device=cpu", "--threads=0", "--cores=any", "--cpu-isa=avx2", "--kernel-plan=default", "--max-num-seqs=8",
            "--max-num-batched-tokens=16", "--micro-batches=2", "--kv-cache-memory=1073741824", "--gpu-steps=kernels", *cluster, *scraped])
        self.assertEqual(args["expert"], [*model, *cached, "--expert-memory=3G", "--gpu-expert-memory=2G", "--expert-linger-us=5", *cluster, *scraped])

    def test_the_first_placement_waits_for_what_the_pools_have_at_least(self):
        def waited(*values, settings=()):
            args = chart.container(chart.of_kind(render(*values, settings=settings), "StatefulSet")[0])["args"]
            return next(word for word in args if word.startswith("--expert-workers="))

        self.assertEqual(waited(), "--expert-workers=2")
        self.assertEqual(waited("gpu"), "--expert-workers=8")
        self.assertEqual(waited("mixed"), "--expert-workers=4")  # 2 and 1 at least, and 1
        self.assertEqual(waited("mixed", settings=["scheduler.config.expertWorkers=6"]), "--expert-workers=6")

    def test_ipv6(self):
        for workload in chart.workloads(render("oci")):
            args = chart.container(workload)["args"]
            self.assertIn("--listen=[$(POD_IP)]:7000", args)
            self.assertIn("--host=::" if role_of(workload) == "gateway" else "--metrics-host=::", args)

    def test_tracing(self):
        words = [word for workload in chart.workloads(render()) for word in chart.container(workload)["args"]]
        self.assertEqual([word for word in words if "trace" in word or "otlp" in word], [])
        for name, volume, mount in (
                ("public", {"emptyDir": {"sizeLimit": "32Mi"}}, {}),
                ("oci", {"persistentVolumeClaim": {"claimName": "traces"}}, {"subPath": "november"})):
            for workload in chart.workloads(render(name)):
                container, spec = chart.container(workload), workload["spec"]["template"]["spec"]
                self.assertLessEqual({"--trace=/var/lib/troupe-trace", "--trace-sample=0"}, set(container["args"]))
                self.assertIn({"name": "trace", **volume}, spec["volumes"])
                self.assertIn({"name": "trace", "mountPath": "/var/lib/troupe-trace", **mount}, container["volumeMounts"])
                self.assertEqual("--otlp-endpoint=http://collector.monitoring:4318" in container["args"],
                                 (name, role_of(workload)) == ("oci", "gateway"))
        with self.assertRaisesRegex(chart.Refused, "tracing.existingClaim.name: name the claim"):
            render(settings=["tracing.enabled=true", 'tracing.type="existingClaim"'])

    def test_standby(self):
        args = [word for workload in chart.workloads(render()) for word in chart.container(workload)["args"]]
        self.assertNotIn("--standby", args)
        with self.assertRaisesRegex(chart.Refused, "scheduler.standby.enabled: both schedulers use one state directory"):
            render(settings=["scheduler.standby.enabled=true"])
        manifests = render(settings=STANDBY)
        both = "--scheduler=r-troupe-scheduler-0.r-troupe-scheduler:7000,r-troupe-scheduler-1.r-troupe-scheduler:7000"
        for workload in chart.workloads(manifests):
            args = chart.container(workload)["args"]
            if role_of(workload) == "scheduler":
                self.assertEqual(workload["spec"]["replicas"], 2)
                self.assertIn("--standby", args)
                self.assertNotIn(both, args)
            else:
                self.assertIn(both, args)
        claim = chart.named(manifests, "PersistentVolumeClaim", "r-troupe-scheduler-state")
        self.assertEqual(claim["spec"]["accessModes"], ["ReadWriteMany"])
        volumes = chart.of_kind(manifests, "StatefulSet")[0]["spec"]["template"]["spec"]["volumes"]
        self.assertIn({"name": "state", "persistentVolumeClaim": {"claimName": "r-troupe-scheduler-state"}}, volumes)


class Pods(unittest.TestCase):
    def test_every_pod_is_confined(self):
        for name in VALUES:
            manifests = render(name)
            specs = [w["spec"]["template"]["spec"] for w in chart.workloads(manifests)]
            specs += [m["spec"] for m in chart.of_kind(manifests, "Pod")]
            for spec in specs:
                self.assertFalse(spec["automountServiceAccountToken"] or spec["enableServiceLinks"])
                pod = spec["securityContext"]
                self.assertEqual((pod["runAsNonRoot"], pod["runAsUser"], pod["seccompProfile"]["type"]),
                                 (True, 65532, "RuntimeDefault"))
                for container in spec["containers"]:
                    self.assertEqual(container["securityContext"], {
                        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}})
                    for entry in container.get("env", []):
                        self.assertNotIn("secretKeyRef", entry.get("valueFrom", {}))
                    for mount in container.get("volumeMounts", []):
                        if mount["name"] in ("model", "cluster-secret", "api-keys", "chat-template"):
                            self.assertTrue(mount["readOnly"], mount)

    def test_probes_and_grace(self):
        for workload in chart.workloads(render("public")):
            container, spec = chart.container(workload), workload["spec"]["template"]["spec"]
            port = "metrics"
            self.assertIn(port, [entry["name"] for entry in container["ports"]])
            for probe, path in (("startupProbe", "/health"), ("livenessProbe", "/health"), ("readinessProbe", "/ready")):
                if (probe, role_of(workload)) == ("readinessProbe", "scheduler"):
                    path = "/health"  # a standby must not hold up a rollout
                self.assertEqual(container[probe]["httpGet"], {"path": path, "port": port})
            startup = container["startupProbe"]
            self.assertEqual(startup["periodSeconds"] * startup["failureThreshold"], 900)
            pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1]) if "lifecycle" in container else 0
            self.assertEqual(pause, 0)
            drain = 30  # defaults::drain; a gateway's --lame-duck, --drain-timeout and what follows
            self.assertGreaterEqual(spec["terminationGracePeriodSeconds"], pause + drain + 5)

    def test_a_pool_is_its_role_and_its_own(self):
        manifests = render("mixed")
        spec = chart.named(manifests, "Deployment", "r-troupe-expert-cheap")["spec"]["template"]["spec"]
        self.assertEqual(spec["tolerations"], [{"key": "spot", "operator": "Exists"}])
        self.assertIn("--expert-memory=12G", spec["containers"][0]["args"])
        self.assertIn({"name": "scratch", "mountPath": "/scratch"}, spec["containers"][0]["volumeMounts"])
        attention = chart.named(manifests, "Deployment", "r-troupe-attention-avx512")["spec"]["template"]["spec"]
        self.assertNotIn("tolerations", attention)
        self.assertIn("--threads=8", attention["containers"][0]["args"])
        gpu = chart.named(render("gpu"), "Deployment", "r-troupe-expert-gpu")["spec"]
        self.assertEqual(gpu["replicas"], 8)
        self.assertEqual(gpu["strategy"]["rollingUpdate"], {"maxSurge": 0, "maxUnavailable": 1})
        self.assertEqual(gpu["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], 1)
        self.assertEqual(gpu["template"]["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
                         gpu["selector"]["matchLabels"])

    def test_replicas_keep_apart(self):
        def terms(name, kind):
            spec = chart.named(render("mixed"), "Deployment", name)["spec"]["template"]["spec"]
            return spec["affinity"]["podAntiAffinity"][kind]

        hard = terms("r-troupe-expert-amx", "requiredDuringSchedulingIgnoredDuringExecution")
        self.assertEqual(hard[0]["labelSelector"]["matchLabels"]["troupe-pool"], "amx")
        soft = terms("r-troupe-expert-cheap", "preferredDuringSchedulingIgnoredDuringExecution")
        self.assertEqual(soft[0]["podAffinityTerm"]["topologyKey"], "kubernetes.io/hostname")
        none = render(settings=['pods.antiAffinity="none"'])
        self.assertNotIn("affinity", none and chart.workloads(none)[0]["spec"]["template"]["spec"])

    def test_selectors_are_apart_and_match_their_pods(self):
        for name in VALUES:
            manifests = render(name)
            workloads = chart.workloads(manifests)
            for workload in workloads:
                wanted = workload["spec"]["selector"]["matchLabels"].items()
                matched = [w for w in workloads if wanted <= w["spec"]["template"]["metadata"]["labels"].items()]
                self.assertEqual(matched, [workload])
            for service in chart.of_kind(manifests, "Service"):
                wanted = service["spec"]["selector"].items()
                for workload in [w for w in workloads if wanted <= w["spec"]["template"]["metadata"]["labels"].items()]:
                    names = {port["name"] for port in chart.container(workload)["ports"]}
                    self.assertLessEqual({port["targetPort"] for port in service["spec"]["ports"]}, names)

    def test_what_is_mounted_is_there(self):
        for name in VALUES:
            for workload in chart.workloads(render(name)):
                spec = workload["spec"]["template"]["spec"]
                volumes = {v["name"] for v in spec["volumes"]}
                for container in [*spec["containers"], *spec.get("initContainers", [])]:
                    mounts = [mount["name"] for mount in container.get("volumeMounts", [])]
                    self.assertLessEqual(set(mounts), volumes, f"{name}: {workload['metadata']['name']}")
                    self.assertEqual(len(mounts), len(set(mounts)))


class Objects(unittest.TestCase):
    def test_names_are_unique_and_short(self):
        for name in VALUES:
            manifests = render(name, release="a-release-with-quite-a-long-name-indeed-yes", settings=['fullnameOverride=""'])
            names = [(m["kind"], m["metadata"]["name"]) for m in manifests]
            self.assertEqual(len(names), len(set(names)))
            self.assertLessEqual(max(len(n) for _, n in names), 63)

    def test_secrets(self):
        made = render(settings=['apiKeys.keys=["one", "two"]'])
        secret = base64.b64decode(chart.named(made, "Secret", "r-troupe-cluster")["data"]["secret"])
        self.assertEqual(len(secret), 48)
        self.assertEqual(chart.named(made, "Secret", "r-troupe-cluster")["metadata"]["annotations"],
                         {"helm.sh/resource-policy": "keep"})
        self.assertEqual(base64.b64decode(chart.named(made, "Secret", "r-troupe-api-keys")["data"]["api-keys"]), b"one\ntwo\n")
        gateway = chart.named(made, "Deployment", "r-troupe-gateway")
        self.assertIn("--api-key-file=/etc/troupe/api-keys/keys", chart.container(gateway)["args"])
        self.assertEqual(chart.of_kind(render("public"), "Secret"), [])

    def test_no_replicas_where_something_else_sets_them(self):
        scaled = {w["metadata"]["name"]: w["spec"].get("replicas") for w in chart.workloads(render("mixed"))}
        self.assertEqual(scaled, {"r-troupe-gateway": None, "r-troupe-scheduler": 1, "r-troupe-attention-avx512": None,
                                  "r-troupe-attention-old": None, "r-troupe-expert-amx": None, "r-troupe-expert-cheap": None,
                                  "r-troupe-expert-fixed": 1})

    def test_autoscaling(self):
        manifests = render("mixed")
        targets = {(m["kind"], m["metadata"]["name"]): (m["spec"]["scaleTargetRef"]["name"], m["spec"].get("minReplicaCount", m[
            "spec"].get("minReplicas"))) for m in chart.of_kind(manifests, "ScaledObject", "HorizontalPodAutoscaler")}
        self.assertEqual(targets, {
            ("HorizontalPodAutoscaler", "r-troupe-gateway"): ("r-troupe-gateway", 2),
            ("HorizontalPodAutoscaler", "r-troupe-attention-old"): ("r-troupe-attention-old", 1),
            ("HorizontalPodAutoscaler", "r-troupe-expert-cheap"): ("r-troupe-expert-cheap", 1),
            ("ScaledObject", "r-troupe-attention-avx512"): ("r-troupe-attention-avx512", 1),
            ("ScaledObject", "r-troupe-expert-amx"): ("r-troupe-expert-amx", 2)})
        pool = 'namespace="default",app_kubernetes_io_instance="r",troupe_pool="amx",app_kubernetes_io_component="expert"'
        release = 'namespace="default",app_kubernetes_io_instance="r"'
        self.assertEqual(query_of(manifests, "r-troupe-expert-amx"),
                         f"count(troupe_experts_hosted{{{pool}}})"
                         f" + (max(troupe_placement_gain_of_one_more_worker{{{release}}}) >= bool 0.1)"
                         f" - (max(troupe_placement_waste_of_one_worker{{{release}}}) >= bool 0.5)")
        renamed = render("mixed", settings=['expert.autoscaling.gainMetric="gain"', 'metrics.prefix="x:"'])
        self.assertIn("max(x:gain{", query_of(renamed, "r-troupe-expert-amx"))
        for scaled in chart.of_kind(manifests, "ScaledObject"):
            policy = scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]["policies"]
            self.assertEqual(policy, [{"type": "Pods", "value": 1, "periodSeconds": 60}])
            for trigger in scaled["spec"]["triggers"]:
                self.assertEqual(trigger["metadata"]["ignoreNullValues"], "false")

    def test_metrics_that_are_asked_for_exist(self):
        documented = (chart.FOLDER.parents[1] / "docs" / "metrics.md").read_text(encoding="utf-8")
        for query in ("kv_cache_usage_perc", "num_requests_waiting", "experts_hosted", "expert_queue_rows"):
            self.assertIn(f"`{query}`", documented)

    def test_monitoring(self):
        manifests = render("mixed", settings=['metrics.prefix="x:"', 'prometheusRules.runbookBase="https://docs.example/"',
                                              'serviceMonitor.relabelings=[{"targetLabel": "team", "replacement": "a"}]'])
        repository = chart.FOLDER.parents[1] / "deploy"
        boards = [m for m in chart.of_kind(manifests, "ConfigMap") if m["metadata"].get("labels", {}).get("grafana_dashboard")]
        self.assertEqual({name for board in boards for name in board["data"]},
                         {path.name for path in (repository / "grafana" / "dashboards").glob("*.json")})
        for board in boards:
            text = next(iter(board["data"].values()))
            self.assertIn("x:build_info", text)
            self.assertNotIn("troupe_", text)
            json.loads(text)
        rules = chart.of_kind(manifests, "PrometheusRule")
        self.assertEqual(len(rules), len(list((repository / "prometheus" / "rules").glob("*.yml"))))
        alerts = [rule for one in rules for group in one["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
        self.assertIn("max by (job) (x:cluster_ready) == 0", [rule["expr"] for rule in alerts])
        for rule in alerts:
            self.assertTrue(rule["annotations"]["runbook_url"].startswith("https://docs.example/docs/runbooks.md#"), rule)
        endpoint = chart.of_kind(manifests, "ServiceMonitor")[0]["spec"]["endpoints"][0]
        self.assertEqual(endpoint["relabelings"], [
            {"targetLabel": "job", "replacement": "default/r-troupe"},
            {"sourceLabels": ["__meta_kubernetes_service_label_app_kubernetes_io_component"], "targetLabel": "role"},
            {"targetLabel": "team", "replacement": "a"}])

    def test_network_policies_admit_what_the_transport_needs(self):
        manifests = render("public")
        policies = {m["metadata"]["name"]: m["spec"] for m in chart.of_kind(manifests, "NetworkPolicy")}
        self.assertEqual(set(policies), {f"r-troupe-{role}" for role in ROLES})
        own = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "troupe", "app.kubernetes.io/instance": "r"}}}
        transport = [{"protocol": "TCP", "port": 7000}, {"protocol": "TCP", "port": 7100, "endPort": 7199}]
        for name, spec in policies.items():
            self.assertEqual(spec["ingress"][0], {"from": [own], "ports": transport})
            self.assertEqual(spec["egress"][0], {"to": [own], "ports": transport})
            self.assertEqual([port["port"] for port in spec["egress"][1]["ports"]], [53, 53])
            self.assertEqual(len(spec["egress"]), 2)
            self.assertEqual([rule["ports"] for rule in spec["ingress"][1:]], [
                [{"protocol": "TCP", "port": port}] for port in ([8000, 7080] if "gateway" in name else [7080])])
        self.assertIn({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}}},
                      policies["r-troupe-gateway"]["ingress"][1]["from"])
        labels = chart.of_kind(manifests, "Pod")[0]["metadata"]["labels"]
        self.assertLessEqual(own["podSelector"]["matchLabels"].items(), labels.items(), "the pod of helm test may ask")

    def test_gateways_speak_tls_with_the_secret_that_is_named(self):
        manifests = render("public", settings=['gateway.tls.existingSecret="api-example-com"', "metrics.port=7080"])
        gateway = next(w for w in chart.workloads(manifests) if role_of(w) == "gateway")
        container = chart.container(gateway)
        self.assertLessEqual({"--tls-cert-file=/etc/troupe/tls/tls.crt", "--tls-key-file=/etc/troupe/tls/tls.key"},
                             set(container["args"]))
        self.assertIn({"name": "tls", "mountPath": "/etc/troupe/tls", "readOnly": True}, container["volumeMounts"])
        volume = next(v for v in gateway["spec"]["template"]["spec"]["volumes"] if v["name"] == "tls")
        self.assertEqual(volume["secret"]["secretName"], "api-example-com")
        self.assertEqual(container["readinessProbe"]["httpGet"]["port"], "metrics", "where probes need no certificate")
        self.assertEqual(chart.named(manifests, "Service", "r-troupe")["spec"]["ports"][0]["appProtocol"], "https")
        for asking in chart.named(manifests, "Pod", "r-troupe-test")["spec"]["containers"]:
            self.assertIn("--url=https://r-troupe:80", asking["command"])
            self.assertIn("--insecure", asking["command"])
        plain = chart.named(render("public"), "Service", "r-troupe")["spec"]["ports"][0]
        self.assertEqual(plain["appProtocol"], "http")

    def test_ingress_and_routes_lead_to_the_gateways(self):
        ingress = chart.of_kind(render("public"), "Ingress")[0]["spec"]
        backend = ingress["rules"][0]["http"]["paths"][0]["backend"]["service"]
        self.assertEqual(ingress["tls"][0]["secretName"], "api-example-com")
        self.assertEqual(backend, {"name": "r-troupe", "port": {"name": "http"}})
        manifests = render("oci")
        main = chart.named(manifests, "HTTPRoute", "moe")["spec"]
        self.assertEqual(main["rules"][0]["backendRefs"], [{"name": "moe", "port": 8080}])
        redirect = chart.named(manifests, "HTTPRoute", "moe-redirect")["spec"]["rules"][0]
        self.assertEqual(redirect["filters"][0]["requestRedirect"]["scheme"], "https")
        self.assertNotIn("backendRefs", redirect)
        self.assertEqual(chart.named(manifests, "ConfigMap", "r-extra")["data"], {"serves": "demo"})

    def test_one_service_monitor_finds_every_pod(self):
        manifests = render("mixed")
        monitor = chart.of_kind(manifests, "ServiceMonitor")
        self.assertEqual(len(monitor), 1)
        wanted = monitor[0]["spec"]["selector"]["matchLabels"].items()
        services = [s for s in chart.of_kind(manifests, "Service") if wanted <= s["metadata"]["labels"].items()]
        found = {w["metadata"]["name"] for s in services for w in chart.workloads(manifests)
                 if s["spec"]["selector"].items() <= w["spec"]["template"]["metadata"]["labels"].items()}
        self.assertEqual(found, {w["metadata"]["name"] for w in chart.workloads(manifests)})

    def test_an_upgrade_changes_nothing_that_cannot_be_changed(self):
        fixed = {"Deployment": ("selector",), "StatefulSet": ("selector", "serviceName", "volumeClaimTemplates", "podManagementPolicy")}
        for before, after in (("public", "upgrade"), ("one-node", "public"), ("one-node", "gpu"), ("mixed", "gpu")):
            old = {(w["kind"], w["metadata"]["name"]): w["spec"] for w in chart.workloads(render(before))}
            for workload in chart.workloads(render(after)):
                was = old.get((workload["kind"], workload["metadata"]["name"]))
                for member in fixed[workload["kind"]] if was else ():
                    self.assertEqual(workload["spec"].get(member), was.get(member), (workload["metadata"]["name"], member))

    def test_a_new_chart_alone_replaces_no_pod(self):
        def templates(settings):
            return [w["spec"]["template"] for w in chart.workloads(render("public", settings=settings))]

        self.assertEqual(templates([]), templates(["pods.pdb.enabled=true", "networkPolicy.enabled=false"]))
        for template in templates([]):
            self.assertNotIn("helm.sh/chart", template["metadata"]["labels"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
