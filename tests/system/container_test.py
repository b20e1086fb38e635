#!/usr/bin/env python3
"""The programs in containers: the variables that Kubernetes sets for a Service named `troupe`; browser pages of allowed
and other origins; and every program's answers to --version and to a mistake.

usage: container_test.py BINARIES MODEL_DIR WORK_DIR
"""
import contextlib
import http.client
import json
import pathlib
import shutil
import subprocess
import sys

from cluster import Cluster

QUESTION = {"model": "m", "prompt": [1, 2, 3], "max_tokens": 4, "temperature": 0, "ignore_eos": True}
ORIGIN = "https://a.example"  # of the pages that may use the API
PROGRAMS = ["troupe", "troupe-attention", "troupe-expert", "troupe-gateway", "troupe-load", "troupe-scheduler"]
SERVICE = {"TROUPE_PORT": "tcp://10.0.0.1:8000", "TROUPE_SERVICE_HOST": "10.0.0.1", "TROUPE_SERVICE_PORT": "8000",
           "TROUPE_PORT_8000_TCP": "tcp://10.0.0.1:8000", "TROUPE_PORT_8000_TCP_PROTO": "tcp",
           "TROUPE_PORT_8000_TCP_PORT": "8000", "TROUPE_PORT_8000_TCP_ADDR": "10.0.0.1"}


def main():
    binaries, model, work = (pathlib.Path(a).absolute() for a in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    command_lines(binaries)
    as_a_service(binaries, model, work)
    print(f"containers: {len(PROGRAMS)} programs' versions and mistakes, variables of a Service, pages of two origins")


def command_lines(binaries):
    for program in PROGRAMS:
        told = subprocess.run([binaries / program, "--version"], capture_output=True, text=True, check=True).stdout
        assert told.startswith(program + " ") and told.count(".") == 2, told
        refused = subprocess.run([binaries / program, "--bogus"], capture_output=True, text=True)
        assert refused.returncode == 2, refused
        assert refused.stderr.startswith(f"{program}: unknown flag '--bogus'"), refused.stderr
        assert refused.stderr.endswith(f"; see '{program} --help'\n"), refused.stderr
    for program, names in (("troupe", "serve, up, status, top, placement, trace, inspect, quantize, tune, tokenize, completion"), ("troupe-load", "run, eval, trace")):
        refused = subprocess.run([binaries / program, "bogus"], capture_output=True, text=True)
        assert refused.returncode == 2, refused
        assert refused.stderr == (f"{program}: unknown command 'bogus': a command comes first, one of {names}; "
                                  f"see '{program} --help'\n"), refused.stderr


def as_a_service(binaries, model, work):
    log = work / "service.log"
    variables = {**SERVICE, "TROUPE_MAX_NUM_SEQUENCES": "4", "TROUPE_ALLOWED_ORIGINS": ORIGIN}
    with Cluster(binaries, "up", model, "--served-model-name", "m", "--max-model-len", "1000000", run_dir=work / "run",
                 log=log, env=variables) as up:
        assert up.post("/v1/completions", QUESTION)["usage"]["completion_tokens"] == QUESTION["max_tokens"]
        pages(up)
        status = subprocess.run([binaries / "troupe", "status", "--url", f"http://127.0.0.1:{up.port}"],
                                capture_output=True, text=True, check=True).stdout
    lines = log.read_text().splitlines()
    for once in ("ignored, since Kubernetes sets them for a Service: ", "no flag is set by TROUPE_MAX_NUM_SEQUENCES; misspelt?",
                 "flag-clamped: --max-model-len 1000000: "):
        assert sum(once in line for line in lines) == 1, (once, lines)
    ignored = next(line for line in lines if "Kubernetes" in line)
    assert all(name in ignored for name in SERVICE), ignored
    assert status.startswith("ready; scheduler: term "), status
    for worker in ("attention-0", "expert-0", "expert-1"):
        assert any(line.startswith(worker + " ") for line in status.splitlines()), status
    assert ", all hosted\n" in status, status


def pages(cluster):
    """What a browser looks at before it lets a page send, or read: whether its origin is named."""
    for origin, named in ((ORIGIN, ORIGIN), ("https://b.example", None)):
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        status, headers = from_page(cluster, "OPTIONS", asked)
        assert (status, headers["Access-Control-Allow-Origin"]) == (204, named), (origin, status, headers.items())
        assert (headers["Access-Control-Allow-Methods"] is None) == (named is None), (origin, headers.items())
        status, headers = from_page(cluster, "POST", {"Origin": origin, "Content-Type": "application/json"}, QUESTION)
        assert (status, headers["Access-Control-Allow-Origin"]) == (200, named), (origin, status, headers.items())
        assert headers["Vary"] == "origin", headers.items()


def from_page(cluster, method, headers, body=None):
    """@returns (status, headers) of what a browser sends to /v1/completions"""
    connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=120)
    with contextlib.closing(connection):
        connection.request(method, "/v1/completions", None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        response.read()
        return response.status, response.headers


if __name__ == "__main__":
    main()
