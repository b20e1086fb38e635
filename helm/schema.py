#!/usr/bin/python3
"""Writes troupe/values.schema.json: what `helm` refuses before it renders anything.

  schema.py            writes the file
  schema.py --check    says whether it is current

Every key of values.yaml has a type here. An object of ours has no other keys; what Kubernetes defines (affinity, volumes,
probes and so on) is any object, since the API server looks into it.
"""
import json
import pathlib
import sys

FILE = pathlib.Path(__file__).parent / "troupe" / "values.schema.json"

TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
LIST = {"type": "array"}
MAP = {"type": "object"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
WORDS = {"type": "array", "items": TEXT}
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
COUNT = {"type": "integer", "minimum": 0}
SOME = {"type": "integer", "minimum": 1}
NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 20}
NAME_OR_NONE = {"type": "string", "pattern": "^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$", "maxLength": 253}
SHARE = {"type": ["integer", "string", "null"], "minimum": 0, "pattern": "^[0-9]+%$"}
QUANTITY = {"type": "string", "pattern": "^([0-9]+(\\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?)?$"}
FOLDER = {"type": "string", "pattern": "^(/.*)?$"}
MOUNT = {"type": "string", "pattern": "^/."}
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
    "annotations": TEXTS, "podLabels": TEXTS, "podAnnotations": TEXTS, "extraArgs": WORDS, "env": LIST, "envFrom": LIST,
    "resources": MAP, "nodeSelector": TEXTS, "tolerations": LIST, "affinity": MAP,
    "antiAffinity": choice("soft", "hard", "none"), "topologySpreadConstraints": {"type": "array", "items": MAP},
    "priorityClassName": TEXT, "runtimeClassName": TEXT, "schedulerName": TEXT, "podSecurityContext": MAP,
    "securityContext": MAP, "startupProbe": MAP, "livenessProbe": MAP, "readinessProbe": MAP, "preStopSeconds": COUNT,
    "terminationGracePeriodSeconds": SOME, "minReadySeconds": COUNT, "strategy": MAP, "revisionHistoryLimit": COUNT,
    "pdb": record(enabled=FLAG, minAvailable=SHARE, maxUnavailable=SHARE),
    "extraVolumes": LIST, "extraVolumeMounts": LIST, "initContainers": LIST, "extraContainers": LIST,
}

COMPUTE = {
    "device": or_none({"type": "string", "pattern": "^(auto|cpu|cuda(:[0-9]+)?)?$"}),
    "threads": or_none(COUNT), "cores": or_none(TEXT),
    "cpuIsa": or_none(choice("auto", "portable", "avx2", "avx512", "avx512_bf16", "amx")),
    "kernelPlan": or_none(TEXT),
}
WORKER_CONFIG = {
    "attention": record(**COMPUTE, maxNumSeqs=or_none(SOME), maxNumBatchedTokens=or_none(SOME), microBatches=or_none(SOME),
                        kvCacheMemory=bytes_flag(), gpuSteps=or_none(choice("graphs", "kernels"))),
    "expert": record(**COMPUTE, expertMemory=bytes_flag(), gpuExpertMemory=bytes_flag(), expertLingerUs=or_none(COUNT)),
}
SCALING = {"enabled": FLAG, "kind": choice("keda", "hpa"), "minReplicas": SOME, "maxReplicas": SOME, "triggers": LIST,
           "behavior": MAP}
WORKER_SCALING = {
    "attention": record(**SCALING, targetKvCacheUsage={**RATIO, "maximum": 1}, targetWaitingRequests=RATIO),
    "expert": record(**SCALING, gainMetric=TEXT, gainThreshold=RATIO, wasteMetric=TEXT, wasteThreshold=RATIO,
                     targetQueueRows=SOME),
}


def workers(role):
    own = {"config": WORKER_CONFIG[role], "autoscaling": WORKER_SCALING[role]}
    pool = {**record(**POD, **own, name=NAME, replicas=COUNT), "required": ["name"]}
    return record(**POD, **own, pools={"type": "array", "minItems": 1, "items": pool})


MODEL = record(
    servedName=TEXT, mountPath=MOUNT, path={"type": "string", "pattern": "^([^/].*)?$"},
    volume=record(
        type=choice("pvc", "existingClaim", "image", "hostPath", "emptyDir", "none"),
        pvc=record(size=QUANTITY, storageClass=TEXT, accessModes=WORDS, annotations=TEXTS),
        existingClaim=record(name=NAME_OR_NONE, subPath=TEXT),
        image=record(reference=TEXT, pullPolicy=choice("Always", "IfNotPresent", "Never")),
        hostPath=record(path=FOLDER), emptyDir=record(sizeLimit=QUANTITY)),
    initContainer=MAP,
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
    **POD, replicas=COUNT, port=PORT,
    config=record(maxConnections=or_none(SOME), templateProcesses=or_none(SOME), allowedOrigins=WORDS,
                  trustRequestChatTemplate=FLAG, reloadInterval=or_none(COUNT)), chatTemplate=TEXT,
    tls=record(existingSecret=NAME_OR_NONE),
    service=record(type=choice("ClusterIP", "NodePort", "LoadBalancer"), port=PORT, nodePort=or_none(PORT),
                   annotations=TEXTS),
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
                  allowInexact=FLAG, history=FOLDER),
    persistence=record(enabled=FLAG, existingClaim=NAME_OR_NONE, size=QUANTITY, storageClass=TEXT, accessModes=WORDS, keep=FLAG))

VALUES = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Values of the troupe chart",
    **record(
        **{"global": MAP}, nameOverride=TEXT, fullnameOverride=TEXT, commonLabels=TEXTS, commonAnnotations=TEXTS,
        image=record(registry=TEXT, repository=TEXT, tag=TEXT, digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
                     pullPolicy=choice("Always", "IfNotPresent", "Never")),
        imagePullSecrets={"type": "array", "items": record(name=TEXT)}, model=MODEL,
        weightsCache=record(type=choice("none", "emptyDir", "hostPath", "existingClaim"), mountPath=MOUNT,
                            emptyDir=record(sizeLimit=QUANTITY), hostPath=record(path=FOLDER),
                            existingClaim=record(name=NAME_OR_NONE)),
        network=record(ipFamily=choice("IPv4", "IPv6"), port=PORT, dataPortFirst=PORT, dataPortLast=PORT, netDevices=TEXT),
        clusterSecret=record(existingSecret=NAME_OR_NONE, key={"type": "string", "pattern": "^[-._a-zA-Z0-9]+$"}),
        apiKeys=record(existingSecret=NAME_OR_NONE, key={"type": "string", "pattern": "^[-._a-zA-Z0-9]+$"}, keys=WORDS),
        metrics=record(port=PORT, prefix=TEXT),
        tracing=record(enabled=FLAG, sample={"type": "number", "minimum": 0, "maximum": 1}, maxBytes=bytes_flag(),
                       type=choice("emptyDir", "existingClaim"), mountPath=MOUNT, emptyDir=record(sizeLimit=QUANTITY),
                       existingClaim=record(name=NAME_OR_NONE, subPath={"type": "string", "pattern": "^([^/].*)?$"}),
                       otlpEndpoint={"type": "string", "pattern": "^(http://.+)?$"}),
        pods=record(**POD), gateway=GATEWAY, scheduler=SCHEDULER,
        attention=workers("attention"), expert=workers("expert"),
        keda=record(serverAddress=TEXT, pollingInterval=SOME, fallbackFailureThreshold=SOME, fallbackReplicas=or_none(COUNT)),
        serviceMonitor=record(enabled=FLAG, additionalLabels=TEXTS, interval=TEXT, scrapeTimeout=TEXT, honorLabels=FLAG,
                              metricRelabelings=LIST, relabelings=LIST),
        networkPolicy=record(enabled=FLAG, gatewayFrom=LIST, metricsFrom=LIST, restrictEgress=FLAG, extraEgress=LIST),
        serviceAccount=record(create=FLAG, name=NAME_OR_NONE, annotations=TEXTS),
        grafanaDashboards=record(enabled=FLAG, labels=TEXTS, annotations=TEXTS),
        prometheusRules=record(enabled=FLAG, additionalLabels=TEXTS, runbookBase=TEXT),
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
