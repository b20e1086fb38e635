#!/usr/bin/python3
"""Writes troupe/values.schema.json: what `helm` refuses before it renders anything.

  schema.py            writes the file
  schema.py --check    says whether it is current

Every key of values.yaml has a type here. An object of ours has no other keys; what Kubernetes defines (affinity, volumes,
probes and so on) is any object, since the API server looks into it.
"""
import json
import pathlib
import re
import sys

FILE = pathlib.Path(__file__).parent / "troupe" / "values.schema.json"

TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
LIST = {"type": "array"}
MAP = {"type": "object"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
WORDS = {"type": "array", "items": TEXT}
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
POD_PORT = {"type": "integer", "minimum": 1024, "maximum": 65535}  # no user but root may listen below
COUNT = {"type": "integer", "minimum": 0}
SOME = {"type": "integer", "minimum": 1}
NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 20}
SHORT_NAME = {"type": "string", "pattern": "^([a-z]([-a-z0-9]*[a-z0-9])?)?$"}
NAME_OR_NONE = {"type": "string", "pattern": "^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$", "maxLength": 253}
SHARE = {"type": ["integer", "string", "null"], "minimum": 0, "pattern": "^[0-9]+%$"}
QUANTITY = {"type": "string", "pattern": "^([0-9]+(\\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?)?$"}
FOLDER = {"type": "string", "pattern": "^(/.*)?$"}
MOUNT = {"type": "string", "pattern": "^/."}
KEY = {"type": "string", "pattern": "^[-._a-zA-Z0-9]+$"}
RATIO = {"type": "number", "exclusiveMinimum": 0}


def choice(*values):
    return {"enum": list(values)}


def or_none(schema):
    """A value that stands for a flag, which is not given where the value is null or empty."""
    if "enum" in schema:
        return {"enum": [*schema["enum"], None]}
    return {**schema, "type": [schema["type"], "null"]}


def bytes_flag():
    return {"type": ["string", "integer", "null"], "minimum": 0, "pattern": "^([0-9]+[KMGT]?)?$"}


def record(**properties):
    return {"type": "object", "properties": properties, "additionalProperties": False}


POD = {
    "annotations": TEXTS, "podLabels": TEXTS, "podAnnotations": TEXTS, "extraArgs": WORDS,
    "logLevel": or_none(choice("debug", "info", "warning", "error")), "logFormat": or_none(choice("text", "json")),
    "hostNetwork": FLAG, "dnsPolicy": TEXT, "dnsConfig": MAP, "lifecycle": MAP, "env": LIST, "envFrom": LIST,
    "resources": MAP, "nodeSelector": TEXTS,
    "tolerations": {"type": "array", "items": MAP}, "lostNodeSeconds": or_none(COUNT), "affinity": MAP,
    "antiAffinity": choice("soft", "hard", "none"), "topologySpreadConstraints": {"type": "array", "items": MAP},
    "priorityClassName": TEXT, "runtimeClassName": TEXT, "schedulerName": TEXT, "podSecurityContext": MAP,
    "securityContext": MAP, "startupProbe": MAP, "livenessProbe": MAP, "readinessProbe": MAP, "preStopSeconds": COUNT,
    "terminationGracePeriodSeconds": or_none(SOME), "minReadySeconds": COUNT, "progressDeadlineSeconds": SOME, "strategy": MAP, "revisionHistoryLimit": COUNT,
    "pdb": record(enabled=FLAG, minAvailable=SHARE, maxUnavailable=SHARE,
                  unhealthyPodEvictionPolicy=choice("", "AlwaysAllow", "IfHealthyBudget")),
    "extraVolumes": LIST, "extraVolumeMounts": LIST, "initContainers": LIST, "extraContainers": LIST,
}

COMPUTE = {
    "device": or_none({"type": "string", "pattern": "^(auto|cpu|cuda(:[0-9]+)?)?$"}),
    "threads": or_none(COUNT), "cores": or_none(TEXT),
    "cpuIsa": or_none(choice("auto", "portable", "avx2", "avx512", "avx512_bf16", "amx")),
    "kernelPlan": or_none(TEXT),
}
WORKER_CONFIG = {
    "attention": record(**COMPUTE, drainTimeout=COUNT, maxNumSeqs=or_none(SOME), maxNumBatchedTokens=or_none(SOME), microBatches=or_none(SOME),
                        kvCacheMemory=bytes_flag(), gpuSteps=or_none(choice("graphs", "kernels"))),
    "expert": record(**COMPUTE, drainTimeout=COUNT, expertMemory=bytes_flag(), gpuExpertMemory=bytes_flag(), expertLingerUs=or_none(COUNT),
                     weightsFrom=or_none(choice("files", "peers", "auto"))),
}
SCALING = {"enabled": FLAG, "kind": choice("keda", "hpa"), "minReplicas": SOME, "maxReplicas": SOME, "triggers": LIST,
           "behavior": MAP}
WORKER_SCALING = {
    "attention": record(**SCALING, targetKvCacheUsage={**RATIO, "maximum": 1}, targetWaitingRequests=RATIO),
    "expert": record(**SCALING),
}


def workers(role):
    own = {"config": WORKER_CONFIG[role], "autoscaling": WORKER_SCALING[role]}
    if role == "expert":
        own["topologyField"] = TEXT
    pool = {**record(**POD, **own, name=NAME, replicas=COUNT), "required": ["name"]}
    return record(**POD, **own, pools={"type": "array", "minItems": 1, "items": pool})


# Edges of the histograms as services/metrics/bucket_edges.hpp has them, from what a person notices on.
FIRST_TOKEN_EDGES = [0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560]
TOKEN_EDGES = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80]
SHARE_OF_ONE = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}


def alerts():
    """Names of the alerts in deploy/prometheus/rules."""
    rules = pathlib.Path(__file__).resolve().parents[1] / "deploy" / "prometheus" / "rules" / "alerts.yml"
    return re.findall(r"- alert: (\w+)", rules.read_text(encoding="utf-8"))


SOURCE = {"type": "string", "pattern": "^(pvc://[a-z0-9][-.a-z0-9]*(/.+)?|oci://.+|(file|dir):///.+"
          "|hf://[-._a-zA-Z0-9]+/[-._a-zA-Z0-9]+(@[-._/a-zA-Z0-9]+)?)?$"}
MODEL = record(
    source=SOURCE, servedName=TEXT, mountPath=MOUNT, pullPolicy=choice("Always", "IfNotPresent", "Never"),
    download=record(
        into=choice("claim", "node"),
        claim=record(existingClaim=NAME_OR_NONE, size=QUANTITY, storageClass=TEXT, accessModes=WORDS, annotations=TEXTS),
        nodePath=MOUNT, endpoint={"type": "string", "pattern": "^https?://.+"},
        token=record(existingSecret=NAME_OR_NONE, key=KEY), env=LIST, resources=MAP),
    config=record(
        dtype=or_none(choice("auto", "float32", "bfloat16")),
        expertQuant=or_none(choice("auto", "none", "int8", "int4")),
        int4Group={"type": ["integer", "string", "null"], "pattern": "^(32|64|channel)?$"},
        denseQuant=or_none(choice("auto", "none", "int8", "int4")),
        activationQuant=or_none(choice("none", "int8")), kvCacheDtype=or_none(choice("auto", "int8")),
        weightCoding=or_none(choice("auto", "none", "exponents")), weightsMemory=or_none(choice("auto", "mapped", "copied")),
        maxModelLen=or_none(COUNT)))

ROUTE = record(
    enabled=FLAG, apiVersion=TEXT, kind=choice("HTTPRoute"), labels=TEXTS, annotations=TEXTS, hostnames=WORDS,
    parentRefs=LIST, httpsRedirect=FLAG, matches=LIST, filters=LIST, timeouts=MAP, additionalRules=LIST)

GATEWAY = record(
    **POD, replicas=COUNT, port=POD_PORT,
    config=record(lameDuck=COUNT, drainTimeout=COUNT, maxConnections=or_none(SOME), maxConnectionsPerPeer=or_none(COUNT), trustedProxies=WORDS,
                  allowedHosts=WORDS, ssePingInterval=or_none(COUNT), accessLog={"type": ["string", "boolean", "null"]}, templateProcesses=or_none(SOME), allowedOrigins=WORDS,
                  trustRequestChatTemplate=FLAG, reloadInterval=or_none(COUNT)), chatTemplate=TEXT,
    tls=record(existingSecret=NAME_OR_NONE),
    service=record(type=choice("ClusterIP", "NodePort", "LoadBalancer"), port=PORT, nodePort=or_none(PORT),
                   annotations=TEXTS, ipFamilyPolicy=choice("", "SingleStack", "PreferDualStack", "RequireDualStack"),
                   ipFamilies={"type": "array", "items": choice("IPv4", "IPv6")},
                   externalTrafficPolicy=choice("", "Cluster", "Local"), loadBalancerClass=TEXT,
                   loadBalancerSourceRanges=WORDS, sessionAffinity=choice("", "None", "ClientIP")),
    ingress=record(
        enabled=FLAG, className=TEXT, annotations=TEXTS,
        hosts={"type": "array", "items": record(host=TEXT, paths={"type": "array", "items": record(
            path=TEXT, pathType=choice("Prefix", "Exact", "ImplementationSpecific"))})},
        tls=LIST),
    route={"type": "object", "additionalProperties": ROUTE},
    autoscaling=record(enabled=FLAG, minReplicas=SOME, maxReplicas=SOME, targetCPUUtilizationPercentage=SOME, metrics=LIST,
                       behavior=MAP))

SCHEDULER = record(
    **POD, standby=record(enabled=FLAG),
    config=record(replicas=SOME, expertWorkers=or_none(SOME), maxQueuedBytes=bytes_flag(), maxNumQueuedReqs=or_none(COUNT),
                  maxQueueWait=or_none(COUNT), admissionQuantile={"type": ["number", "null"], "minimum": 0.05, "maximum": 1},
                  allowInexact=FLAG, planner=or_none(choice("on", "off", True, False)), plannerImbalance=or_none({"type": "number", "minimum": 1}),
                  plannerSpare=or_none({"type": "number", "minimum": 0}), history=FOLDER,
                  plannerUtilization={"type": ["number", "null"], "minimum": 0.05, "maximum": 1}),
    persistence=record(enabled=FLAG, existingClaim=NAME_OR_NONE, size=QUANTITY, storageClass=TEXT, accessModes=WORDS, keep=FLAG))

VALUES = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Values of the troupe chart",
    **record(
        **{"global": {"type": "object", "properties": {"imageRegistry": TEXT, "imagePullSecrets": LIST, "storageClass": TEXT}}},
        nameOverride=SHORT_NAME, fullnameOverride=SHORT_NAME, commonLabels=TEXTS, commonAnnotations=TEXTS,
        image=record(registry=TEXT, repository=TEXT, tag=TEXT, digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
                     pullPolicy=choice("Always", "IfNotPresent", "Never")),
        imagePullSecrets={"type": "array", "items": record(name=TEXT)}, model=MODEL,
        weightsCache=record(type=choice("none", "emptyDir", "ephemeral", "hostPath", "existingClaim"), mountPath=MOUNT,
                            emptyDir=record(sizeLimit=QUANTITY), ephemeral=record(size=QUANTITY, storageClass=TEXT), hostPath=record(path=FOLDER),
                            existingClaim=record(name=NAME_OR_NONE)),
        hostFolders=record(prepare=FLAG),
        network=record(ipFamily=choice("IPv4", "IPv6"), dualStack=FLAG, port=POD_PORT, dataPortFirst=POD_PORT,
                       dataPortLast=POD_PORT, netDevices=TEXT),
        clusterSecret=record(existingSecret=NAME_OR_NONE, key=KEY, reloadInterval=or_none(COUNT)),
        apiKeys=record(existingSecret=NAME_OR_NONE, key=KEY, keys=WORDS,
                       limits=record(default=MAP, keys={"type": "object", "additionalProperties": MAP})),
        operatorKeys=record(existingSecret=NAME_OR_NONE, key=KEY),
        metrics=record(port=POD_PORT, prefix=TEXT),
        tracing=record(enabled=FLAG, sample={"type": "number", "minimum": 0, "maximum": 1}, maxBytes=bytes_flag(),
                       type=choice("emptyDir", "existingClaim"), mountPath=MOUNT, emptyDir=record(sizeLimit=QUANTITY),
                       existingClaim=record(name=NAME_OR_NONE, subPath={"type": "string", "pattern": "^([^/].*)?$"}),
                       otlpEndpoint={"type": "string", "pattern": "^(http://.+)?$"}),
        pods=record(**POD), gateway=GATEWAY, scheduler=SCHEDULER,
        attention=workers("attention"), expert=workers("expert"),
        keda=record(serverAddress=TEXT, pollingInterval=SOME),
        serviceMonitor=record(enabled=FLAG, additionalLabels=TEXTS, interval=TEXT, scrapeTimeout=TEXT, honorLabels=FLAG,
                              metricRelabelings=LIST, relabelings=LIST),
        networkPolicy=record(enabled=FLAG, gatewayFrom=LIST, metricsFrom=LIST, restrictEgress=FLAG, extraEgress=LIST),
        serviceAccount=record(create=FLAG, name=NAME_OR_NONE, annotations=TEXTS),
        grafanaDashboards=record(enabled=FLAG, labels=TEXTS, annotations=TEXTS),
        prometheusRules=record(
            enabled=FLAG, additionalLabels=TEXTS, runbookBase=TEXT, additionalRuleLabels=TEXTS,
            disabled={"type": "array", "items": {"enum": alerts()}}, severities=record(critical=TEXT, warning=TEXT),
            startTime={"type": "string", "pattern": "^[1-9][0-9]*[smhd]$"},
            objectives=record(errors=record(share=SHARE_OF_ONE),
                              firstTokens=record(seconds={"enum": FIRST_TOKEN_EDGES}, share=SHARE_OF_ONE),
                              tokens=record(seconds={"enum": TOKEN_EDGES}, share=SHARE_OF_ONE), leastEvents=COUNT)),
        extraObjects={"type": "array", "items": {"type": ["string", "object"]}}),
}


def main():
    text = json.dumps(VALUES, indent=1) + "\n"
    if sys.argv[1:] == ["--check"]:
        if not FILE.exists() or FILE.read_text(encoding="utf-8") != text:
            sys.exit(f"{FILE} is not what helm/schema.py writes; run it")
        return
    FILE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
