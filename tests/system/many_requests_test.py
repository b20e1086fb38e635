#!/usr/bin/env python3
"""A thousand requests at once, and a KV cache smaller than the model's context: one process and a cluster.

usage: many_requests_test.py BINARIES MODEL_DIR WORK_DIR

At the defaults 1,000 requests that come in the same moment must all be served. With a small KV cache a chat without
max_tokens must be served within what the cache holds, /v1/models must say how much that is, and more choices than
fit side by side must say the same as they do where they fit.
"""
import json
import pathlib
import resource
import selectors
import socket
import sys
import time

from cluster import Cluster

NUM_REQUESTS = 1000
DEADLINE = 300  # seconds until all are answered
SMALL_CACHE = ("--kv-cache-memory", "64K")
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "seed": 5, "temperature": 0.8}


def serve_all_at_once(cluster):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    waiting = selectors.DefaultSelector()
    answers = []
    for number in range(NUM_REQUESTS):
        payload = json.dumps({"model": "m", "prompt": [3 + number % 200, 7, 9], "max_tokens": 4, "seed": number}).encode()
        client = socket.create_connection(("127.0.0.1", cluster.port), timeout=DEADLINE)
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                       b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(payload), payload))
        client.setblocking(False)
        waiting.register(client, selectors.EVENT_READ, bytearray())
    end = time.monotonic() + DEADLINE
    while waiting.get_map():
        assert time.monotonic() < end, f"{len(waiting.get_map())} of {NUM_REQUESTS} are not answered"
        for key, _ in waiting.select(1):
            got = key.fileobj.recv(65536)
            key.data.extend(got)
            if not got:
                waiting.unregister(key.fileobj)
                key.fileobj.close()
                answers.append(bytes(key.data))
    refused = [answer for answer in answers if not answer.startswith(b"HTTP/1.1 200 ")]
    assert not refused, f"{len(refused)} of {NUM_REQUESTS} were refused, for example: {refused[0][:1000]}"
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def texts(cluster, **more):
    answer = cluster.post("/v1/chat/completions", {**CHAT, "max_tokens": 12, "n": 9, **more})
    assert [choice["index"] for choice in answer["choices"]] == list(range(9))
    return [choice["message"]["content"] for choice in answer["choices"]]


def context_of(cluster):
    return json.loads(cluster.request("GET", "/v1/models")[2])["data"][0]["max_model_len"]


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    (work / "run").mkdir(parents=True, exist_ok=True)
    (work / "small").mkdir(parents=True, exist_ok=True)
    context = json.loads((model / "config.json").read_text())["max_position_embeddings"]
    name = ("--served-model-name", "m", "--max-queue-wait", str(DEADLINE))  # however slow the build is
    with Cluster(binaries, "serve", model, *name, log=work / "serve.log") as cluster:
        assert context_of(cluster) == context
        serve_all_at_once(cluster)
        wide = texts(cluster)
    two_and_two = ("--attention-workers", "2", "--expert-workers", "2")
    with Cluster(binaries, "up", model, *name, *two_and_two, run_dir=work / "run", log=work / "up.log") as cluster:
        serve_all_at_once(cluster)
    for kind, flags in (("serve", ()), ("up", two_and_two)):
        run_dir = work / "small" if kind == "up" else None
        with Cluster(binaries, kind, model, *name, *flags, *SMALL_CACHE, run_dir=run_dir,
                     log=work / f"small-{kind}.log") as cluster:
            held = context_of(cluster)
            assert held < context, (held, context)
            open_ended = cluster.post("/v1/chat/completions", {**CHAT, "ignore_eos": True})
            assert open_ended["usage"]["total_tokens"] == held, (open_ended["usage"], held)
            assert open_ended["choices"][0]["finish_reason"] == "length"
            status, _, body = cluster.request("POST", "/v1/chat/completions", {**CHAT, "max_tokens": held})
            assert status == 400 and f"maximum context length is {held} tokens" in json.loads(body)["error"]["message"]
            assert texts(cluster) == wide, "choices that do not fit side by side say something else"
            assert f"context {held} tokens" in (work / f"small-{kind}.log").read_text()
    print(f"twice {NUM_REQUESTS} requests at once; a cache of {held} tokens of {context}, in one process and in a cluster")


if __name__ == "__main__":
    main()
