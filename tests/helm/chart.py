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


def render(helm, *values, settings=(), release=RELEASE):
    """values: names of files in ci/. settings: "a.b=c". @returns the manifests, in the order in which helm applies them"""
    return copy.deepcopy(rendered(str(helm), values, tuple(settings), release))


@functools.lru_cache(maxsize=None)
def rendered(helm, values, settings, release):
    argv = [helm, "template", release, str(FOLDER)]
    for name in values:
        argv += ["-f", str(values_file(name))]
    for setting in settings:
        argv += ["--set-json", setting]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise Refused(done.stderr)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [manifest for manifest in yaml.load_all(done.stdout, Loader=loader) if manifest]


def named(manifests, kind, name):
    return next(m for m in manifests if m["kind"] == kind and m["metadata"]["name"] == name)


def of_kind(manifests, *kinds):
    return [m for m in manifests if m["kind"] in kinds]


def workloads(manifests):
    return of_kind(manifests, "Deployment", "StatefulSet")


def container(workload):
    return workload["spec"]["template"]["spec"]["containers"][0]
