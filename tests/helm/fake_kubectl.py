#!/usr/bin/python3
"""kubectl, helm, troupe, promtool and openssl, as far as runbooks use them, on the objects of a file.

Called by one of these names. FAKE_CLUSTER: a JSON file {"namespace", "nodes", "objects": [manifests], "log"}, which `patch` changes.
Whatever names an object that is not there, forgets the namespace or forces a deletion is an error, as is a command that this does not know.
"""
import base64
import json
import os
import pathlib
import re
import sys

FILE = pathlib.Path(os.environ["FAKE_CLUSTER"])
CLUSTER = json.loads(FILE.read_text(encoding="utf-8"))
KINDS = {"pod": "Pod", "pods": "Pod", "secret": "Secret", "configmap": "ConfigMap", "statefulsets": "StatefulSet",
         "poddisruptionbudgets": "PodDisruptionBudget", "persistentvolumeclaims": "PersistentVolumeClaim", "persistentvolumeclaim": "PersistentVolumeClaim"}
IN_THE_IMAGE = {"ls", "df", "prlimit", "sh", "cat", "rm"}


def fail(text):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}: {text}")


def named(kind, name):
    for item in CLUSTER["objects"]:
        if (item["kind"], item["metadata"]["name"]) == (KINDS[kind], name):
            return item
    return fail(f"there is no {kind} {name}")


def selected(kind, selector):
    wanted = dict(pair.split("=") for pair in selector.split(","))
    return [item for item in CLUSTER["objects"] if item["kind"] == KINDS[kind] and wanted.items() <= item["metadata"]["labels"].items()]


def json_path(item, path):
    """{.a.b[?(@.name=="x")].c[0].d} of a manifest."""
    value = item
    for step in re.findall(r"\.(\w+)|\[\?\(@\.name==\"([^\"]+)\"\)\]|\[(\d+)\]", path.strip("{}")):
        if step[0]:
            value = value[step[0]]
        elif step[1]:
            found = [one for one in value if one["name"] == step[1]]
            if not found:
                return ""
            value = found[0]
        else:
            value = value[int(step[2])]
    return value


def options(words):
    """@returns ({option: value}, the other words)"""
    found, rest, at = {}, [], 0
    while at < len(words):
        word = words[at]
        if word.startswith("--") and "=" in word:
            name, value = word.split("=", 1)
            found[name] = value
        elif word in ("-o", "-l", "--patch", "--patch-file", "--type", "--field-selector"):
            at += 1
            found[word] = words[at]
        elif word.startswith("-"):
            found[word] = ""
        else:
            rest.append(word)
        at += 1
    return found, rest


def get(chosen, words):
    kind, output = words[0], chosen.get("-o", "")
    if kind == "node":
        return words[1] if words[1] in CLUSTER["nodes"] else fail("no such node")
    items = selected(kind, chosen["-l"]) if "-l" in chosen else [named(kind, words[1])]
    if kind == "pods" and not items:
        fail("no such pods")
    if output.startswith("go-template="):
        key = re.search(r'index \.data "([^"]+)"', output)[1]
        data = items[0]["data"]
        if key not in data:
            fail(f"it has no {key}")
        return base64.b64decode(data[key]).decode() if "base64decode" in output else data[key]
    if output == "jsonpath={.items[*].metadata.name}":
        return " ".join(item["metadata"]["name"] for item in items)
    if output.startswith("jsonpath="):
        return json_path(items[0], output.removeprefix("jsonpath="))
    return "\n".join(item["metadata"]["name"] for item in items)


def patch(chosen, words):
    text = sys.stdin.read() if chosen.get("--patch-file") == "/dev/stdin" else chosen["--patch"]
    item = named(*words)
    for member, value in json.loads(text).items():
        if member in ("data", "spec"):
            item.setdefault(member, {}).update(value)
    FILE.write_text(json.dumps(CLUSTER), encoding="utf-8")
    return f"{words[0]}/{words[1]} patched"


def create(chosen, words):
    kind, name = words[0], words[-1]
    key, file = chosen["--from-file"].split("=", 1)
    content = pathlib.Path(file).read_bytes()
    text = base64.b64encode(content).decode() if kind == "secret" else content.decode()
    if chosen["--dry-run"] != "client":
        fail("it would be made")
    return json.dumps({"apiVersion": "v1", "kind": KINDS[kind], "metadata": {"name": name}, "data": {key: text}})


def inside(words):
    pod, command = words[0], words[words.index("--") + 1:]
    named("pod", pod)
    if command[0] not in IN_THE_IMAGE:
        fail(f"{command[0]} is not in the image")
    return {"prlimit": "4096", "cat": "  sl  local rem st\n   0: 0100007F:1F40 0200000A:D431 01 0"}.get(command[0], "a line")


def kubectl(words):
    if words[0] in ("get", "taint", "drain", "uncordon", "describe") and {"node", "nodes", "taint", "drain", "uncordon"} & set(words[:2]):
        node = next(word for word in words[1:] if word not in ("node", "nodes"))
        return f"{node}: DiskPressure False" if node in CLUSTER["nodes"] else fail("no such node")
    if words[:2] != ["-n", CLUSTER["namespace"]]:
        fail("no namespace, or another one")
    verb, words = words[2], words[3:]
    if verb == "exec":
        return inside(words)
    chosen, rest = options(words)
    if "--force" in chosen:
        fail("a forced deletion")
    if verb in ("delete", "describe"):
        return named(*rest)["metadata"]["name"]
    if verb == "logs":
        if "-l" not in chosen:
            return f"the last line of {named('pod', rest[0])['metadata']['name']}"
        return CLUSTER["log"] if selected("pods", chosen["-l"]) else fail("no such pods")
    return {"get": get, "patch": patch, "create": create}[verb](chosen, rest)


def main():
    program, words = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
    worker = selected("pods", "app.kubernetes.io/component=expert")[0]["metadata"]["name"]
    if program == "kubectl":
        print(kubectl(words))
    elif program == "troupe":
        print(f"planner: on\nloading: {worker}\ndrained: {worker}")
    elif program == "promtool":
        print(f'{{instance="10.0.0.1:7080", pod="{worker}"}} => 0.1 @[1.5]')
    elif program == "openssl":
        print("notAfter=soon" if sys.stdin.read().strip() else fail("no certificate"))
    elif program == "helm":
        assert words[:2] == ["-n", CLUSTER["namespace"]], words
    else:
        fail("an unknown program")


if __name__ == "__main__":
    main()
