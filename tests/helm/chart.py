"""The chart as helm renders it."""
import copy
import functools
import pathlib
import subprocess

import yaml

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "helm" / "troupe"
RELEASE = "r"


class Refused(Exception):
    """What helm said."""


def values_file(name):
    return FOLDER / "ci" / f"{name}-values.yaml"


MODEL = 'model.source="pvc://models"'  # for tests of any model


def render(helm, *values, settings=(), release=RELEASE, server=None, kubernetes=None):
    """values: names of files in ci/. settings: "a.b=c". server: address of the API server that `lookup` asks; none: it finds
    nothing. kubernetes: its version; none: what helm takes. @returns the manifests, in the order in which helm applies them"""
    return copy.deepcopy(rendered(str(helm), values, tuple(settings), release, server, kubernetes))


@functools.lru_cache(maxsize=None)
def rendered(helm, values, settings, release, server, kubernetes):
    argv = [helm, "template", release, str(FOLDER), *(["--kube-version", kubernetes] if kubernetes else [])]
    if server:
        argv += ["--namespace", "default", "--dry-run=server", "--disable-openapi-validation", "--kube-apiserver", server]
    for name in values:
        argv += ["-f", str(values_file(name))]
    for setting in settings:
        argv += ["--set-json", setting]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise Refused(done.stderr)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [manifest for manifest in yaml.load_all(done.stdout, Loader=loader) if manifest]


def notes(helm, settings=()):
    """What an installation prints. No cluster is asked."""
    argv = [str(helm), "install", RELEASE, str(FOLDER), "--dry-run=client"]
    for setting in settings:
        argv += ["--set-json", setting]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise Refused(done.stderr)
    return done.stdout.split("\nNOTES:\n", 1)[1]


def named(manifests, kind, name):
    return next(m for m in manifests if m["kind"] == kind and m["metadata"]["name"] == name)


def of_kind(manifests, *kinds):
    return [m for m in manifests if m["kind"] in kinds]


def workloads(manifests):
    return of_kind(manifests, "Deployment", "StatefulSet")


def container(workload):
    return workload["spec"]["template"]["spec"]["containers"][0]
