#!/usr/bin/python3
"""The chart's rendered output, without starting any of it.

usage: chart_test.py BINARIES MODEL_DIR WORK_DIR CACHE   (MODEL_DIR and WORK_DIR are not used)

Skipped where helm or the schemas cannot be fetched; fails under CI then.
"""
import base64
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

import api_server
import chart
import tools

BINARIES, CACHE = pathlib.Path(sys.argv[1]), sys.argv[4]
VALUES = sorted(path.name.removesuffix("-values.yaml") for path in (chart.FOLDER / "ci").iterdir())
STANDBY = ["scheduler.standby.enabled=true", "scheduler.persistence.enabled=true", 'scheduler.persistence.accessModes=["ReadWriteMany"]']
ROLES = ("gateway", "scheduler", "attention", "expert")
HELM = tools.or_skip(tools.helm, CACHE)
SCHEMAS = tools.or_skip(tools.schemas, CACHE)




def render(*values, settings=(), **more):
    """Without a file of values there is a model at least."""
    return chart.render(HELM, *values, settings=[*([] if values else [chart.MODEL]), *settings], **more)


def flags_of(program):
    told = subprocess.run([BINARIES / program, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  (--[a-z0-9-]+)", told, re.MULTILINE))


def role_of(workload):
    return workload["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]


def rules_of(manifests):
    """Alerts and recording rules, in their order."""
    return [rule for one in chart.of_kind(manifests, "PrometheusRule") for group in one["spec"]["groups"] for rule in group["rules"]]


def behavior_of(manifests):
    return chart.of_kind(manifests, "ScaledObject")[0]["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]


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
        manifests += render(settings=['weightsCache.type="ephemeral"', 'model.source="hf://org/m"', "pods.pdb.enabled=true",
                                      'pods.pdb.unhealthyPodEvictionPolicy="AlwaysAllow"', 'pods.antiAffinity="hard"',
                                      'apiKeys.limits={"default": {"weight": 1}}', "network.dualStack=true",
                                      'gateway.service={"ipFamilyPolicy": "PreferDualStack", "sessionAffinity": "ClientIP"}'])
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

    def test_values_that_do_not_go_together_are_refused(self):
        pool = '{"name": "a", "replicas": 1}'
        for setting, words in {
                "network.dataPortFirst=7300": "network.dataPortFirst: 7300 is above network.dataPortLast, 7199",
                "network.port=7150": "network.port: 7150 is one of the data ports",
                "metrics.port=7000": "network.port: 7000 is metrics.port, too",
                "gateway.port=7080": "metrics.port: 7080 is gateway.port, too",
                f"expert.pools=[{pool}, {pool}]": "expert.pools, a: two pools have this name",
                'attention.pools=[{"name": "a"}]': "attention.pools, a: replicas is missing",
                "expert.autoscaling.minReplicas=9": "expert.pools, default: autoscaling.minReplicas is above maxReplicas",
                "gateway.autoscaling.minReplicas=11": "gateway.autoscaling.minReplicas is above maxReplicas"}.items():
            with self.assertRaisesRegex(chart.Refused, words, msg=setting):
                render(settings=[setting])
        render(settings=['attention.pools=[{"name": "a"}]', "attention.autoscaling.enabled=true"])
        with self.assertRaisesRegex(chart.Refused, "1st-troupe: names of Services begin with a letter; set fullnameOverride"):
            render(release="1st")
        self.assertEqual(chart.named(render(release="a.b"), "Service", "a-b-troupe")["kind"], "Service")

    def test_a_wrong_value_is_refused_by_name(self):
        for setting, words in {'gateway.replicas="two"': ("gateway", "replicas", "integer"),
                               "gateway.replica=3": ("gateway", "replica"),
                               'model.config.dtype="fp8"': ("model", "config", "dtype", "bfloat16"),
                               "gateway.port=99999": ("gateway", "port", "65"),
                               "gateway.port=80": ("gateway", "port", "1"),
                               'fullnameOverride="My_App"': ("fullnameOverride",),
                               'expert.pools=[{"name": "a", "config": {"kvCacheMemory": "1G"}}]': ("pools", "kvCacheMemory"),
                               'attention.pools=[{"name": "A_b"}]': ("attention", "pools", "name"),
                               "attention.pools=[]": ("attention", "pools"),
                               'model.source="s3://bucket/m"': ("model", "source"),
                               'model.source="hf://m"': ("model", "source"),
                               "tracing.sample=2": ("tracing", "sample", "1"),
                               'tracing.otlpEndpoint="collector:4318"': ("tracing", "otlpEndpoint", "http"),
                               'antiAffinity="soft"': ("antiAffinity",)}.items():
            with self.assertRaises(chart.Refused, msg=setting) as refused:
                render(settings=[setting])
            for word in words:
                self.assertIn(word, str(refused.exception))


class Memory(unittest.TestCase):
    def test_workers_have_a_limit_from_which_the_programs_take_the_rest(self):
        for workload in chart.workloads(render()):
            container = chart.container(workload)
            self.assertIn("memory", container["resources"]["limits"], role_of(workload))
            self.assertFalse([word for word in container["args"] if "memory" in word], role_of(workload))

    def test_notes_warn_of_experts_without_a_bound(self):
        source = 'model.source="pvc://models/m"'
        self.assertNotIn("WARNING", chart.notes(HELM, [source]))
        told = chart.notes(HELM, [source, "expert.resources=null", 'expert.pools=[{"name": "a", "replicas": 2}, {"name": "b", "replicas": 1, "config": {"expertMemory": "3G"}},'
                                  ' {"name": "c", "replicas": 1, "resources": {"limits": {"memory": "8Gi"}}}]'])
        self.assertIn("WARNING: expert pool a has neither", told)
        self.assertEqual(told.count("WARNING"), 1, told)


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
            ' "maxModelLen": 1000000}', 'model.servedName="m"', 'model.source="pvc://claim/a/b"', 'network.netDevices="mlx5_0:1"',
            'weightsCache.type="emptyDir"', 'metrics.prefix="vllm:"',
            'tracing={"enabled": true, "sample": 0.25, "maxBytes": "1G", "mountPath": "/t", "otlpEndpoint": "http://c:4318"}',
            'gateway.config={"lameDuck": 7, "drainTimeout": 90, "maxConnections": 4096, "templateProcesses": 3, "allowedOrigins": ["a", "b"],'
            ' "maxConnectionsPerPeer": 0, "trustedProxies": ["10.0.0.0/8", "fd00::/8"], "allowedHosts": ["h"], "ssePingInterval": 9,'
            ' "accessLog": false, "trustRequestChatTemplate": true}',
            'gateway.logLevel="debug"', 'gateway.logFormat="json"',
            'scheduler.config={"replicas": 2, "expertWorkers": 3, "maxQueuedBytes": "1G", "maxNumQueuedReqs": 7, "maxQueueWait": 9, "admissionQuantile": 0.7,'
            ' "allowInexact": true, "planner": false, "plannerImbalance": 1.5, "plannerSpare": 0, "history": "/h.json", "plannerUtilization": 0.5}',
            'attention.config={"device": "cpu", "threads": 0, "cores": "any", "cpuIsa": "avx2", "kernelPlan": "default", "drainTimeout": 60, "maxNumSeqs": 8,'
            ' "maxNumBatchedTokens": 16, "microBatches": 2, "kvCacheMemory": 1073741824, "gpuSteps": "kernels"}',
            'expert.config={"drainTimeout": 600, "expertMemory": "3G", "gpuExpertMemory": "2G", "expertLingerUs": 5, "weightsFrom": "peers"}', 'pods.extraArgs=["--net-devices=eth0"]'])
        args = {role_of(w): chart.container(w)["args"] for w in chart.workloads(manifests)}
        model = ["/models/a/b", "--scheduler=r-troupe-scheduler:7000", "--served-model-name=m",
                 "--dtype=bfloat16", "--expert-quant=int4", "--int4-group=64", "--dense-quant=int8",
                 "--activation-quant=int8", "--kv-cache-dtype=int8", "--weight-coding=none", "--max-model-len=1000000"]
        cluster = ["--listen=$(POD_IP):7000", "--name=$(POD_NAME)", "--secret-file=/etc/troupe/cluster/secret",
                   "--data-ports=7100-7199", "--net-devices=mlx5_0:1", "--metrics-prefix=vllm:", "--trace=/t",
                   "--trace-sample=0.25", "--trace-max-bytes=1G"]
        scraped = ["--reload-interval=30", "--metrics-host=0.0.0.0", "--metrics-port=7080", "--net-devices=eth0"]
        self.assertEqual(args["gateway"], [
            *model, "--management-host=0.0.0.0", "--management-port=7080", *cluster, "--log-level=debug", "--log-format=json", "--host=0.0.0.0", "--port=8000", "--reload-interval=30",
            "--lame-duck=7", "--drain-timeout=90", "--max-connections=4096", "--max-connections-per-peer=0",
            "--trusted-proxies=10.0.0.0/8", "--trusted-proxies=fd00::/8", "--allowed-hosts=h", "--sse-ping-interval=9",
            "--access-log=off", "--otlp-endpoint=http://c:4318", "--template-processes=3",
            "--allowed-origins=a", "--allowed-origins=b", "--trust-request-chat-template", "--net-devices=eth0"])
        self.assertEqual(args["scheduler"], [
            "--state-dir=/var/lib/troupe", "--replicas=2", "--max-queued-bytes=1G",
            "--max-num-queued-reqs=7", "--max-queue-wait=9", "--admission-quantile=0.7", "--allow-inexact", "--history=/h.json",
            "--planner-utilization=0.5", "--planner=off", "--planner-imbalance=1.5", "--planner-spare=0", "--served-model-name=m", *cluster, *scraped])
        cached = ["--weights-cache=/var/cache/troupe", "--weights-memory=copied"]
        self.assertEqual(args["attention"], [
            *model, *cached, "--device=cpu", "--threads=0", "--cores=any", "--cpu-isa=avx2", "--kernel-plan=default", "--drain-timeout=60", "--max-num-seqs=8",
            "--max-num-batched-tokens=16", "--micro-batches=2", "--kv-cache-memory=1073741824", "--gpu-steps=kernels", *cluster, *scraped])
        self.assertEqual(args["expert"], [*model, *cached, "--drain-timeout=600", "--expert-memory=3G", "--gpu-expert-memory=2G", "--expert-linger-us=5",
            "--weights-from=peers", "--topology=$(TOPOLOGY)", *cluster, *scraped])

    def test_the_first_placement_waits_for_what_the_pools_have_at_least(self):
        def waited(*values, settings=()):
            manifests = render(*values, settings=settings)
            source = next(entry["valueFrom"]["configMapKeyRef"] for workload in chart.workloads(manifests) if role_of(workload) == "scheduler"
                          for entry in chart.container(workload)["env"] if entry["name"] == "TROUPE_EXPERT_WORKERS")
            return chart.named(manifests, "ConfigMap", source["name"])["data"][source["key"]]

        self.assertEqual(waited(), "2")
        self.assertEqual(waited("gpu"), "8")
        self.assertEqual(waited("mixed"), "4")  # 2 and 1 at least, and 1
        self.assertEqual(waited("mixed", settings=["scheduler.config.expertWorkers=6"]), "6")

    def test_a_pool_that_is_resized_replaces_no_pod(self):
        def templates(size, scales):
            pool = {"name": "default", "replicas": size, "autoscaling": {"enabled": scales, "minReplicas": size}}
            return {w["metadata"]["name"]: w["spec"]["template"] for w in chart.workloads(render(settings=[f"expert.pools=[{json.dumps(pool)}]"]))}

        self.assertEqual(templates(2, False), templates(8, False))
        self.assertEqual(templates(2, False), templates(3, True))

    def test_ipv6(self):
        for workload in chart.workloads(render("oci")):
            args = chart.container(workload)["args"]
            self.assertIn("--listen=[$(POD_IP)]:7000", args)
            self.assertIn("--host=::" if role_of(workload) == "gateway" else "--metrics-host=::", args)

    def test_dual_stack(self):
        manifests = render(settings=["network.dualStack=true", 'gateway.service={"ipFamilyPolicy": "PreferDualStack",'
                                     ' "ipFamilies": ["IPv6", "IPv4"]}'])
        for workload in chart.workloads(manifests):
            args = chart.container(workload)["args"]
            self.assertIn("--listen=$(POD_IP):7000", args)
            self.assertIn("--host=::" if role_of(workload) == "gateway" else "--metrics-host=::", args)
        service = chart.named(manifests, "Service", "r-troupe")["spec"]
        self.assertEqual((service["ipFamilyPolicy"], service["ipFamilies"]), ("PreferDualStack", ["IPv6", "IPv4"]))

    def test_workers_say_where_they_are(self):
        def told(*settings):
            return {role_of(w): chart.container(w) for w in chart.workloads(render(settings=settings))}

        containers = told()
        self.assertIn({"name": "TOPOLOGY", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}, containers["expert"]["env"])
        self.assertNotIn("--topology=$(TOPOLOGY)", containers["attention"]["args"])
        silent = told('expert.topologyField=""')["expert"]
        self.assertNotIn("topology", json.dumps(silent).lower())

    def test_limits_of_keys(self):
        limits = {"default": {"requests_per_minute": 60}, "keys": {"chat": {"weight": 4, "tokens_per_minute": None}}}
        manifests = render(settings=['apiKeys.keys=["one"]', f"apiKeys.limits={json.dumps(limits)}"])
        data = chart.named(manifests, "ConfigMap", "r-troupe-key-limits")["data"]
        self.assertEqual(json.loads(data["limits.json"])["default"], {"requests_per_minute": 60})
        self.assertEqual(json.loads(data["limits.json"])["keys"]["chat"]["weight"], 4)
        pod = chart.named(manifests, "Deployment", "r-troupe-gateway")["spec"]["template"]["spec"]
        self.assertIn({"name": "key-limits", "configMap": {"name": "r-troupe-key-limits"}}, pod["volumes"])

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

    def test_one_scheduler_follows_from_a_lost_node(self):
        manifests = render()
        self.assertEqual(chart.of_kind(manifests, "StatefulSet"), [], "whose pods stay with a lost node")
        self.assertEqual(chart.of_kind(manifests, "PersistentVolumeClaim"), [])
        scheduler = chart.named(manifests, "Deployment", "r-troupe-scheduler")["spec"]
        self.assertEqual((scheduler["replicas"], scheduler["strategy"]), (1, {"type": "Recreate"}), "two would be two clusters")
        pod = scheduler["template"]["spec"]
        self.assertIn({"name": "state", "emptyDir": {}}, pod["volumes"])
        lost = [{"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
                for taint in ("not-ready", "unreachable")]
        self.assertEqual(pod["tolerations"], lost)
        self.assertIs(chart.named(manifests, "Service", "r-troupe-scheduler")["spec"]["publishNotReadyAddresses"], False)
        self.assertNotIn("tolerations", chart.named(manifests, "Deployment", "r-troupe-gateway")["spec"]["template"]["spec"])
        own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
        told = render(settings=[f"pods.tolerations={json.dumps([own])}"])
        tolerations = chart.named(told, "Deployment", "r-troupe-scheduler")["spec"]["template"]["spec"]["tolerations"]
        self.assertEqual(tolerations, [own, lost[1]])
        told = render(settings=['pods.tolerations=[{"operator": "Exists"}]'])
        tolerations = chart.named(told, "Deployment", "r-troupe-scheduler")["spec"]["template"]["spec"]["tolerations"]
        self.assertEqual(tolerations, [{"operator": "Exists"}], "which says it of every taint")

    def test_the_state_of_the_scheduler_on_a_claim(self):
        manifests = render(settings=["scheduler.persistence.enabled=true"])
        claim = chart.named(manifests, "PersistentVolumeClaim", "r-troupe-scheduler-state")
        self.assertEqual(claim["spec"]["accessModes"], ["ReadWriteOnce"])
        pod = chart.named(manifests, "Deployment", "r-troupe-scheduler")["spec"]["template"]["spec"]
        self.assertIn({"name": "state", "persistentVolumeClaim": {"claimName": "r-troupe-scheduler-state"}}, pod["volumes"])

    def test_strategy_recreate(self):
        manifests = render(settings=['pods.strategy.type="Recreate"'])
        self.assertEqual(chart.named(manifests, "Deployment", "r-troupe-gateway")["spec"]["strategy"], {"type": "Recreate"})

    def test_standby(self):
        args = [word for workload in chart.workloads(render()) for word in chart.container(workload)["args"]]
        self.assertNotIn("--standby", args)
        with self.assertRaisesRegex(chart.Refused, "scheduler.standby.enabled: both schedulers use one state directory"):
            render(settings=["scheduler.standby.enabled=true"])
        with self.assertRaisesRegex(chart.Refused, "scheduler.standby.enabled: both schedulers use one state directory"):
            render(settings=["scheduler.standby.enabled=true", "scheduler.persistence.enabled=true"])
        manifests = render(settings=STANDBY)
        self.assertIs(chart.named(manifests, "Service", "r-troupe-scheduler")["spec"]["publishNotReadyAddresses"], True)
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
                    path = "/health"  # a standby must not delay a rollout
                self.assertEqual(container[probe]["httpGet"], {"path": path, "port": port})
            startup = container["startupProbe"]
            self.assertEqual(startup["periodSeconds"] * startup["failureThreshold"], 900)
            pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1]) if "lifecycle" in container else 0
            self.assertEqual(pause, 0)
            if workload["kind"] == "Deployment":  # loading is no failure of its rollout
                budget = startup["periodSeconds"] * startup["failureThreshold"]
                self.assertGreater(workload["spec"]["progressDeadlineSeconds"], 2 * budget)

    def test_the_grace_period_follows_from_what_a_process_may_take_to_drain(self):
        def grace(*settings):
            return {role_of(w): w["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
                    for w in chart.workloads(render(settings=settings))}

        def drain(container, flag):
            return int(next((word for word in container["args"] if word.startswith(flag)), f"{flag}=0").split("=")[1])

        for workload in chart.workloads(render()):
            container = chart.container(workload)
            leaving = 20 if role_of(workload) == "scheduler" else drain(container, "--lame-duck") + drain(container, "--drain-timeout")
            # A process ends 10 s after its draining in any case.
            self.assertGreaterEqual(workload["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], leaving + 10 + 5)
        self.assertEqual(grace(), {"gateway": 320, "scheduler": 45, "attention": 315, "expert": 315})
        self.assertEqual(grace("expert.config.drainTimeout=1200", "gateway.config.lameDuck=30", "pods.preStopSeconds=9"),
                         {"gateway": 345, "scheduler": 54, "attention": 324, "expert": 1224})
        self.assertEqual(grace("pods.terminationGracePeriodSeconds=77", "scheduler.terminationGracePeriodSeconds=88"),
                         {"gateway": 77, "scheduler": 88, "attention": 77, "expert": 77})

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
        self.assertEqual(hard[0]["matchLabelKeys"], ["pod-template-hash"], "or a rollout finds no node")
        soft = terms("r-troupe-expert-cheap", "preferredDuringSchedulingIgnoredDuringExecution")
        self.assertEqual(soft[0]["podAffinityTerm"]["topologyKey"], "kubernetes.io/hostname")
        none = render(settings=['pods.antiAffinity="none"'])
        self.assertNotIn("affinity", none and chart.workloads(none)[0]["spec"]["template"]["spec"])

    def test_budgets(self):
        manifests = render(settings=["pods.pdb.enabled=true", 'pods.pdb.unhealthyPodEvictionPolicy="AlwaysAllow"'])
        budgets = {m["metadata"]["name"]: m["spec"] for m in chart.of_kind(manifests, "PodDisruptionBudget")}
        self.assertEqual(set(budgets), {"r-troupe-gateway", "r-troupe-attention-default", "r-troupe-expert-default"},
                         "none for a lone scheduler, whose node could not be drained")
        self.assertEqual({spec["unhealthyPodEvictionPolicy"] for spec in budgets.values()}, {"AlwaysAllow"})
        both = render(settings=["pods.pdb.enabled=true", *STANDBY])
        self.assertEqual(chart.named(both, "PodDisruptionBudget", "r-troupe-scheduler")["spec"]["maxUnavailable"], 1)

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

    def test_what_people_set_on_pods(self):
        manifests = render(settings=[
            "pods.hostNetwork=true", 'pods.dnsConfig={"options": [{"name": "ndots", "value": "2"}]}',
            'gateway.lifecycle={"postStart": {"exec": {"command": ["true"]}}}', "gateway.preStopSeconds=3",
            'expert.lifecycle={"preStop": {"sleep": {"seconds": 5}}}', "expert.preStopSeconds=3",
            'pods.extraContainers=[{"name": "a", "image": "i"}, {"name": "b", "image": "i", "securityContext": {}}]',
            'pods.initContainers=[{"name": "c", "image": "i"}]'])
        by_role = {role_of(w): w["spec"]["template"]["spec"] for w in chart.workloads(manifests)}
        for spec in by_role.values():
            self.assertEqual((spec["hostNetwork"], spec["dnsPolicy"]), (True, "ClusterFirstWithHostNet"))
            self.assertEqual(spec["dnsConfig"]["options"][0]["name"], "ndots")
            own, first, second = spec["containers"]
            self.assertEqual(first["securityContext"], own["securityContext"])
            self.assertEqual(second["securityContext"], {})
            self.assertEqual(spec["initContainers"][-1]["securityContext"], own["securityContext"])
        self.assertEqual(by_role["gateway"]["containers"][0]["lifecycle"], {
            "preStop": {"exec": {"command": ["sleep", "3"]}}, "postStart": {"exec": {"command": ["true"]}}})
        self.assertEqual(by_role["expert"]["containers"][0]["lifecycle"], {"preStop": {"sleep": {"seconds": 5}}})
        self.assertNotIn("lifecycle", by_role["attention"]["containers"][0])
        self.assertNotIn("dnsPolicy", chart.workloads(render())[0]["spec"]["template"]["spec"])

    def test_labels_of_the_chart_win(self):
        mine = {"app.kubernetes.io/component": "mine", "team": "a"}
        manifests = render(settings=[f"commonLabels={json.dumps(mine)}", f"gateway.podLabels={json.dumps(mine)}",
                                     'image.tag="' + "a" * 62 + '-b"'])
        gateway = chart.named(manifests, "Deployment", "r-troupe-gateway")
        for labels in (gateway["metadata"]["labels"], gateway["spec"]["template"]["metadata"]["labels"]):
            self.assertEqual((labels["app.kubernetes.io/component"], labels["team"]), ("gateway", "a"))
        self.assertEqual(gateway["metadata"]["labels"]["app.kubernetes.io/version"], "a" * 62)

    def test_registry_and_secrets_of_all_charts(self):
        settings = ['global={"imageRegistry": "reg", "imagePullSecrets": ["one", {"name": "two"}], "other": 1}']
        spec = chart.workloads(render(settings=settings))[0]["spec"]["template"]["spec"]
        self.assertEqual(spec["containers"][0]["image"], "reg/troupe:0.1.0")
        self.assertEqual(spec["imagePullSecrets"], [{"name": "one"}, {"name": "two"}])
        own = chart.workloads(render(settings=[*settings, 'image.registry="own"']))[0]["spec"]["template"]["spec"]
        self.assertEqual(own["containers"][0]["image"], "own/troupe:0.1.0")

    def test_what_is_mounted_is_there(self):
        for name in VALUES:
            for workload in chart.workloads(render(name)):
                spec = workload["spec"]["template"]["spec"]
                volumes = {v["name"] for v in spec["volumes"]}
                for container in [*spec["containers"], *spec.get("initContainers", [])]:
                    mounts = [mount["name"] for mount in container.get("volumeMounts", [])]
                    self.assertLessEqual(set(mounts), volumes, f"{name}: {workload['metadata']['name']}")
                    self.assertEqual(len(mounts), len(set(mounts)))


class Model(unittest.TestCase):
    """What model.source means to pods: the folder, its name, its volume."""

    def pod(self, role, *settings):
        manifests = chart.render(HELM, settings=settings)
        return next(w for w in chart.workloads(manifests) if role_of(w) == role)["spec"]["template"]["spec"], manifests

    def test_every_source(self):
        for source, folder, name, volume in (
                ("pvc://c", "/models", "c", {"persistentVolumeClaim": {"claimName": "c", "readOnly": True}}),
                ("pvc://c/hf/m/", "/models/hf/m", "m", {"persistentVolumeClaim": {"claimName": "c", "readOnly": True}}),
                ("oci://reg:5000/models/demo:1", "/models", "demo",
                 {"image": {"reference": "reg:5000/models/demo:1", "pullPolicy": "IfNotPresent"}}),
                ("oci://reg/demo@sha256:" + "0" * 64, "/models", "demo",
                 {"image": {"reference": "reg/demo@sha256:" + "0" * 64, "pullPolicy": "IfNotPresent"}}),
                ("file:///srv/models/m", "/models", "m", {"hostPath": {"path": "/srv/models/m", "type": "Directory"}}),
                ("hf://org/m", "/models/org/m", "m", {"persistentVolumeClaim": {"claimName": "r-troupe-model", "readOnly": True}}),
                ("dir:///mnt/m", "/mnt/m", "m", None)):
            for role in ("gateway", "attention", "expert"):
                spec, _ = self.pod(role, f'model.source="{source}"')
                args = spec["containers"][0]["args"]
                self.assertEqual((args[0], args[2]), (folder, f"--served-model-name={name}"), source)
                found = next((v for v in spec["volumes"] if v["name"] == "model"), None)
                self.assertEqual(found, volume and {"name": "model", **volume}, source)
                mount = {"name": "model", "mountPath": "/models", "readOnly": True}
                self.assertEqual(mount in spec["containers"][0]["volumeMounts"], volume is not None)
        spec, _ = self.pod("scheduler", 'model.source="pvc://c/m"')
        self.assertIn("--served-model-name=m", spec["containers"][0]["args"])
        self.assertNotIn("model", [v["name"] for v in spec["volumes"]])

    def test_none(self):
        with self.assertRaisesRegex(chart.Refused, "model.source: say where the model is"):
            chart.render(HELM)

    def test_a_job_downloads_once_for_all(self):
        settings = ['model.source="hf://org/m@v1"', 'model.download.token.existingSecret="hub"']
        spec, manifests = self.pod("attention", *settings)
        job = chart.of_kind(manifests, "Job")[0]
        container = job["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(container["command"], ["troupe-fetch", "get", "org/m@v1", "/models/org/m@v1"])
        self.assertIn({"name": "model", "mountPath": "/models"}, container["volumeMounts"])
        self.assertIn({"name": "HF_TOKEN_FILE", "value": "/etc/troupe/hub/token"}, container["env"])
        self.assertIn({"name": "model", "persistentVolumeClaim": {"claimName": "r-troupe-model"}},
                      job["spec"]["template"]["spec"]["volumes"])
        claim = chart.named(manifests, "PersistentVolumeClaim", "r-troupe-model")
        self.assertEqual(claim["metadata"]["annotations"], {"helm.sh/resource-policy": "keep"})
        self.assertEqual(spec["initContainers"][0]["command"], ["troupe-fetch", "wait", "/models/org/m@v1"])
        self.assertIn({"name": "model", "mountPath": "/models", "readOnly": True}, spec["initContainers"][0]["volumeMounts"])
        _, same = self.pod("attention", *settings, "gateway.replicas=5")
        self.assertEqual(chart.of_kind(same, "Job"), [job], "it is not run again")
        _, other = self.pod("attention", 'model.source="hf://org/m@v2"')
        self.assertNotEqual(chart.of_kind(other, "Job")[0]["metadata"]["name"], job["metadata"]["name"], "a Job cannot be changed")
        _, kept = self.pod("attention", *settings, 'model.download.claim.existingClaim="mine"')
        self.assertEqual(chart.of_kind(kept, "PersistentVolumeClaim"), [])

    def test_each_node_downloads_once(self):
        settings = ['model.source="hf://org/m"', 'model.download.into="node"', "networkPolicy.enabled=true"]
        spec, manifests = self.pod("expert", *settings)
        self.assertEqual(chart.of_kind(manifests, "Job", "PersistentVolumeClaim"), [])
        prepare, fetch = spec["initContainers"]
        self.assertEqual(prepare["command"], ["chown", "65532:65532", "/models"])
        self.assertEqual(fetch["command"], ["troupe-fetch", "get", "org/m", "/models/org/m"])
        self.assertIn({"name": "model", "hostPath": {"path": "/var/lib/troupe/models", "type": "DirectoryOrCreate"}}, spec["volumes"])
        gateway, _ = self.pod("gateway", *settings)
        self.assertEqual([c["command"] for c in gateway["initContainers"]],
                         [["troupe-fetch", "get", "org/m", "/models/org/m", "--without-weights"]])
        self.assertIn({"name": "model", "emptyDir": {}}, gateway["volumes"])
        for role in ROLES:
            ports = [port["port"] for rule in chart.named(manifests, "NetworkPolicy", f"r-troupe-{role}")["spec"]["egress"]
                     for port in rule["ports"]]
            self.assertEqual(443 in ports, role != "scheduler", role)

    def test_caches_of_packed_weights_can_be_written(self):
        host = ['weightsCache.type="hostPath"', 'weightsCache.hostPath.path="/var/cache/t"']
        spec, _ = self.pod("expert", chart.MODEL, *host)
        self.assertEqual([c["command"] for c in spec["initContainers"]], [["chown", "65532:65532", "/var/cache/troupe"]])
        self.assertEqual(spec["initContainers"][0]["securityContext"], {
            "runAsUser": 0, "runAsNonRoot": False, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}})
        for role, settings in (("expert", ["hostFolders.prepare=false"]), ("gateway", []), ("scheduler", []),
                               ("expert", ["pods.podSecurityContext.runAsUser=null"])):
            self.assertNotIn("initContainers", self.pod(role, chart.MODEL, *host, *settings)[0])
        spec, _ = self.pod("attention", chart.MODEL, 'weightsCache.type="ephemeral"', 'global.storageClass="fast"')
        claim = next(v for v in spec["volumes"] if v["name"] == "weights-cache")["ephemeral"]["volumeClaimTemplate"]["spec"]
        self.assertEqual(claim, {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
                                 "resources": {"requests": {"storage": "50Gi"}}})
        self.assertNotIn("initContainers", spec, "fsGroup does it")


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
        self.assertIn("--key-limits=/etc/troupe/key-limits/limits.json", chart.container(gateway)["args"])
        self.assertEqual(chart.named(made, "ConfigMap", "r-troupe-key-limits")["data"], {"limits.json": "{}"}, "to be changed without a rollout")
        limits = {"keys": {"one": {"concurrent_requests": 4}}}
        bounded = render(settings=['apiKeys.keys=["one", "two"]', f"apiKeys.limits={json.dumps(limits)}"])
        self.assertEqual(json.loads(chart.named(bounded, "ConfigMap", "r-troupe-key-limits")["data"]["limits.json"]), limits)
        self.assertEqual(chart.named(bounded, "Deployment", "r-troupe-gateway"), gateway, "no pod is replaced for it")
        other = chart.named(render(settings=['apiKeys.keys=["three"]']), "Deployment", "r-troupe-gateway")
        self.assertEqual(gateway["spec"]["template"], other["spec"]["template"], "gateways read keys again by themselves")
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
        release = 'namespace="default",app_kubernetes_io_instance="r"'
        self.assertEqual(query_of(manifests, "r-troupe-expert-amx"), f"max(troupe_placement_wanted_workers{{{release}}})")
        renamed = render("mixed", settings=['metrics.prefix="x:"'])
        self.assertIn("max(x:placement_wanted_workers{", query_of(renamed, "r-troupe-expert-amx"))
        plain = chart.named(renamed, "HorizontalPodAutoscaler", "r-troupe-expert-cheap")
        self.assertEqual(plain["spec"]["metrics"][0]["external"]["metric"]["name"], "x_placement_wanted_workers")
        for scaled in chart.of_kind(manifests, "ScaledObject"):
            policy = scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]["policies"]
            self.assertEqual(policy, [{"type": "Pods", "value": 1, "periodSeconds": 60}])
            self.assertNotIn("fallback", scaled["spec"], "it would shrink the pool when Prometheus does not answer")
            for trigger in scaled["spec"]["triggers"]:
                self.assertEqual(trigger["metadata"]["ignoreNullValues"], "false")

    def test_pools_share_what_the_planner_wants(self):
        """A pool gets the share that its size has in all, whoever scales it."""
        def wanted_for_each(manifests, name):
            for scaled in chart.of_kind(manifests, "ScaledObject", "HorizontalPodAutoscaler"):
                if scaled["metadata"]["name"] == name and scaled["kind"] == "ScaledObject":
                    (trigger,) = scaled["spec"]["triggers"]
                    self.assertEqual(trigger["metricType"], "AverageValue")
                    return round(1000 * float(trigger["metadata"]["threshold"]))
                if scaled["metadata"]["name"] == name:
                    (metric,) = scaled["spec"]["metrics"]
                    self.assertEqual(metric["external"]["metric"], {"name": "troupe_placement_wanted_workers", "selector": {
                        "matchLabels": {"namespace": "default", "app_kubernetes_io_instance": "r"}}})
                    self.assertEqual(metric["external"]["target"]["type"], "AverageValue")
                    return int(metric["external"]["target"]["averageValue"].removesuffix("m"))
            self.fail(name)

        exact = {"scaleUp": {"tolerance": "0"}, "scaleDown": {"tolerance": "0", **behavior_of(render(settings=["expert.autoscaling.enabled=true"]))["scaleDown"]}}
        plain = render(settings=['expert.autoscaling={"enabled": true, "kind": "hpa"}', 'attention.autoscaling={"enabled": true, "kind": "hpa"}'], kubernetes="1.35.0")
        self.assertEqual(chart.named(plain, "HorizontalPodAutoscaler", "r-troupe-expert-default")["spec"]["behavior"], exact)
        self.assertNotIn("tolerance", chart.named(plain, "HorizontalPodAutoscaler", "r-troupe-attention-default")["spec"]["behavior"]["scaleDown"])
        older = render(settings=['expert.autoscaling={"enabled": true, "kind": "hpa"}'], kubernetes="1.34.9")
        self.assertNotIn("scaleUp", chart.named(older, "HorizontalPodAutoscaler", "r-troupe-expert-default")["spec"]["behavior"], "it does not know it")

        def targets(each, wanted):
            return [-(-1000 * wanted // one) for one in each]  # as the HorizontalPodAutoscaler rounds

        self.assertEqual(wanted_for_each(render(settings=["expert.autoscaling.enabled=true"]), "r-troupe-expert-default"), 1000)
        self.assertEqual(wanted_for_each(render(settings=["expert.autoscaling={\"enabled\": true, \"kind\": \"hpa\"}"]), "r-troupe-expert-default"), 1000)
        mixed = render("mixed")  # 12, 3 and 1
        each = [wanted_for_each(mixed, f"r-troupe-expert-{pool}") for pool in ("amx", "cheap")]
        self.assertEqual(targets(each, 16), [12, 3])
        self.assertEqual(targets(each, 8), [6, 2])
        for wanted in range(1, 17):
            self.assertGreaterEqual(sum(targets(each, wanted)) + 1, wanted)

    def test_autoscaling_that_is_turned_on_leaves_the_number_that_there_is(self):
        def deployment(name, count):
            owned = {"labels": {"app.kubernetes.io/managed-by": "Helm"},
                     "annotations": {"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "default"}}
            return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default", **owned}, "spec": {"replicas": count}}

        names = ("r-troupe-gateway", "r-troupe-attention-avx512", "r-troupe-expert-amx")
        kinds = {(m["apiVersion"], m["kind"]) for m in render("mixed")}
        with api_server.api_server(kinds, [deployment(name, 8) for name in (*names, "r-troupe-expert-fixed")]) as address:
            found = {w["metadata"]["name"]: w["spec"].get("replicas") for w in chart.workloads(render("mixed", server=address))}
        self.assertEqual({name: found[name] for name in names}, dict.fromkeys(names, 8))
        self.assertEqual(found["r-troupe-expert-cheap"], None, "it is new")
        self.assertEqual(found["r-troupe-expert-fixed"], 1, "a number of the values holds")

    def test_metrics_that_are_asked_for_exist(self):
        documented = (chart.FOLDER.parents[1] / "docs" / "metrics.md").read_text(encoding="utf-8")
        for query in ("kv_cache_usage_perc", "num_requests_waiting", "placement_wanted_workers"):
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
        self.assertIn('x:last_reload_successful{job="default/r-troupe"} == 0', [rule["expr"] for rule in alerts])
        for rule in alerts:
            self.assertTrue(rule["annotations"]["runbook_url"].startswith("https://docs.example/docs/runbooks.md#"), rule)
        endpoint = chart.of_kind(manifests, "ServiceMonitor")[0]["spec"]["endpoints"][0]
        self.assertEqual(endpoint["relabelings"], [
            {"targetLabel": "job", "replacement": "default/r-troupe"},
            {"sourceLabels": ["__meta_kubernetes_service_label_app_kubernetes_io_component"], "targetLabel": "role"},
            {"targetLabel": "team", "replacement": "a"}])

    def test_rules_are_those_of_the_repository_for_this_release(self):
        plain = rules_of(render(settings=["prometheusRules.enabled=true"]))
        files = [rule for path in sorted((chart.FOLDER / "rules").glob("*.yml")) for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
                 for rule in group["rules"]]

        def scoped(text):
            return text.replace('job=~"troupe.*"', 'job="default/r-troupe"').replace('namespace=~".+",pod=~"troupe-', 'namespace="default",pod=~"r-troupe-')

        self.assertEqual(plain, [{**rule, "expr": scoped(rule["expr"])} for rule in files])
        for rule in plain:
            for series in re.findall(r"(?:troupe[_:]|process_|ALERTS|up)[\w:]*\{[^}]*\}", rule["expr"]):
                self.assertIn('job="default/r-troupe"', series, rule)
            self.assertNotRegex(rule["expr"], r"(?<![\w:\"(])(troupe[_:]\w+|up)(?![\w:{(])", "a series of any job")

    def test_rules_follow_the_values(self):
        def changed(*settings):
            """@returns the alerts and records that these settings change"""
            before = rules_of(render(settings=["prometheusRules.enabled=true"]))
            after = rules_of(render(settings=["prometheusRules.enabled=true", *settings]))
            self.assertEqual(len(before), len(after))
            return {old.get("alert") or old["record"]: new for old, new in zip(before, after) if old != new}

        def names(prefix):
            return {rule.get("alert") or rule["record"] for rule in rules_of(render(settings=["prometheusRules.enabled=true"]))
                    if (rule.get("alert") or rule["record"]).startswith(prefix)}

        objectives = "prometheusRules.objectives"
        errors = changed(f"{objectives}.errors.share=0.02")
        self.assertEqual(set(errors), {"TroupeErrorBudgetBurns", "TroupeErrorBudgetBurnsSlowly"})
        self.assertEqual(errors["TroupeErrorBudgetBurns"]["expr"].count("* 0.02\n"), 4)
        first = changed(f"{objectives}.firstTokens.seconds=40")
        self.assertEqual(set(first), names("troupe:slow_first_tokens") | {"TroupeFirstTokensSlow", "TroupeFirstTokensSlowly"})
        self.assertIn("longer than 40 s", first["TroupeFirstTokensSlow"]["annotations"]["summary"])
        self.assertIn('le="40"', first["troupe:slow_first_tokens:ratio_rate5m"]["expr"])
        self.assertEqual(set(changed(f"{objectives}.firstTokens.share=0.1")), {"TroupeFirstTokensSlow", "TroupeFirstTokensSlowly"})
        tokens = changed(f"{objectives}.tokens.seconds=0.05")
        self.assertEqual(set(tokens), names("troupe:slow_tokens") | {"TroupeTokensSlow", "TroupeTokensSlowly"})
        self.assertIn('le="0.05"', tokens["troupe:slow_tokens:increase1h"]["expr"])
        self.assertIn("later than 0.05 s", tokens["TroupeTokensSlow"]["annotations"]["summary"])
        self.assertEqual(set(changed(f"{objectives}.tokens.share=0.1")), {"TroupeTokensSlow", "TroupeTokensSlowly"})
        least = changed(f"{objectives}.leastEvents=100")
        self.assertEqual(set(least), set(errors) | {name for name in (*first, *tokens) if name.startswith("Troupe")})
        self.assertTrue(all(">= 100" in rule["expr"] for rule in least.values()))
        starts = changed('prometheusRules.startTime="3h"')
        self.assertEqual(set(starts), {"TroupeClusterNotReady", "TroupeExpertsWithoutHost"})
        self.assertTrue(all("[3h]" in rule["expr"] and "offset 3h" in rule["expr"] and "1h" not in rule["expr"] for rule in starts.values()))
        labelled = changed('prometheusRules.additionalRuleLabels={"team": "ml"}', 'prometheusRules.severities={"critical": "page", "warning": "ticket"}')
        self.assertEqual(set(labelled), names("Troupe"))
        for rule in labelled.values():
            self.assertEqual(rule["labels"]["team"], "ml")
            self.assertIn(rule["labels"]["severity"], ("page", "ticket"))
        left = rules_of(render(settings=["prometheusRules.enabled=true", 'prometheusRules.disabled=["TroupeTokensSlow", "TroupeTokensSlowly"]']))
        self.assertEqual(names("Troupe") - {rule.get("alert") for rule in left}, {"TroupeTokensSlow", "TroupeTokensSlowly"})
        for setting in ('prometheusRules.disabled=["TroupeTokenSlow"]', f"{objectives}.tokens.seconds=0.12"):
            with self.assertRaises(chart.Refused):
                render(settings=[setting])

    @unittest.skipUnless(shutil.which("promtool"), "no promtool: deploy/install-deps.sh test")
    def test_rules_page_for_this_release_alone(self):
        test = {"evaluation_interval": "30s", "tests": [{"interval": "30s", "input_series": [
            {"series": 'up{job="default/r-troupe",role="gateway",instance="g"}', "values": "1x10 stale"},
            {"series": 'up{job="default/r-troupe",role="scheduler",instance="s"}', "values": "1x60"},
            {"series": 'troupe_cluster_ready{job="default/r-troupe",instance="s"}', "values": "1x60"},
            {"series": 'up{job="default/other-troupe",role="gateway",instance="o"}', "values": "0x60"},
            {"series": 'up{job="airflow",role="scheduler",instance="a"}', "values": "1x60"}], "promql_expr_test": [
                {"expr": 'count by (alertname, job) (ALERTS{alertstate="firing"})', "eval_time": "20m",
                 "exp_samples": [{"labels": '{alertname="TroupeNoGateway", job="default/r-troupe"}', "value": 1}]}]}]}
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for one in chart.of_kind(render(settings=["prometheusRules.enabled=true"]), "PrometheusRule"):
                (folder / f"{one['metadata']['name']}.yml").write_text(yaml.safe_dump(one["spec"]), encoding="utf-8")
            (folder / "test.yaml").write_text(yaml.safe_dump({"rule_files": ["*.yml"], **test}), encoding="utf-8")
            done = subprocess.run(["promtool", "test", "rules", folder / "test.yaml"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

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

    def test_operators_keys_are_the_gateways_alone(self):
        made = render(settings=['operatorKeys.existingSecret="ops"', 'operatorKeys.key="them"'])
        for workload in chart.workloads(made):
            spec = workload["spec"]["template"]["spec"]
            theirs = [v for v in spec["volumes"] if v["name"] == "operator-keys"]
            flags = [a for a in chart.container(workload)["args"] if a.startswith("--operator-key-file")]
            if role_of(workload) != "gateway":
                self.assertEqual((theirs, flags), ([], []))
                continue
            self.assertEqual(flags, ["--operator-key-file=/etc/troupe/operator-keys/keys"])
            self.assertEqual(theirs[0]["secret"], {"secretName": "ops", "items": [{"key": "them", "path": "keys"}], "defaultMode": 0o440})
            self.assertIn({"name": "operator-keys", "mountPath": "/etc/troupe/operator-keys", "readOnly": True},
                          chart.container(workload)["volumeMounts"])

    def test_ingress_and_routes_lead_what_clients_need_by_default(self):
        made = render(settings=["gateway.ingress.enabled=true", "gateway.route.main.enabled=true"])
        paths = chart.of_kind(made, "Ingress")[0]["spec"]["rules"][0]["http"]["paths"]
        self.assertEqual([(p["path"], p["pathType"]) for p in paths],
                         [("/v1", "Prefix"), ("/tokenize", "Exact"), ("/detokenize", "Exact")])
        matches = chart.of_kind(made, "HTTPRoute")[0]["spec"]["rules"][0]["matches"]
        self.assertEqual([(m["path"]["value"], m["path"]["type"]) for m in matches],
                         [("/v1", "PathPrefix"), ("/tokenize", "Exact"), ("/detokenize", "Exact")])
    def test_the_service_is_what_its_values_say(self):
        told = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "loadBalancerClass": "c", "sessionAffinity": "ClientIP",
                "loadBalancerSourceRanges": ["10.0.0.0/8"], "ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]}
        service = chart.named(render(settings=[f"gateway.service={json.dumps(told)}"]), "Service", "r-troupe")["spec"]
        self.assertLessEqual(told.items(), service.items())
        self.assertEqual(set(chart.named(render(), "Service", "r-troupe")["spec"]), {"type", "selector", "ports"})

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
