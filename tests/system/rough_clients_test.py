#!/usr/bin/env python3
"""Clients that send garbage or vanish harm no other, and SIGTERM ends no stream: one process and a cluster.

usage: rough_clients_test.py BINARIES MODEL_DIR WORK_DIR

Every bad request must be refused with its status and an error that names the cause. Clients that close or reset their
connection at any moment must leave no sequence and no KV block behind, and whoever asks afterwards must get the same
answer as before. What streams when SIGTERM arrives must end whole.
"""
import contextlib
import json
import pathlib
import random
import signal
import socket
import struct
import sys
import threading
import time

from cluster import Cluster, run_all

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
DEADLINE = 120  # seconds for any wait here

# (path, body, status, expected text in the error)
BAD_BODIES = [
    (COMPLETIONS, b"", 400, "not valid JSON"),
    (COMPLETIONS, b'{"model": "m", "prompt": ', 400, "not valid JSON"),
    (COMPLETIONS, b'{"model": "m", "prompt": "\xff\xfe\xc3"}', 400, "UTF-8"),
    (COMPLETIONS, b'{"model": "m", "prompt": "\\ud800"}', 400, "surrogate"),
    (COMPLETIONS, b'{"model": "m", "prompt": "a", "temperature": 1e999}', 400, "number overflow"),
    (COMPLETIONS, b"[" * 100_000, 400, "deeper"),
    (COMPLETIONS, b"[]", 400, "must be a JSON object"),
    (COMPLETIONS, b'{"model": "nobody", "prompt": "a"}', 404, "nobody"),
    (COMPLETIONS, b'{"model": "m", "prompt": [1, 2, 1000000000000]}', 400, "prompt"),
    (COMPLETIONS, b'{"model": "m", "prompt": [-1]}', 400, "prompt"),
    (COMPLETIONS, b'{"model": "m", "prompt": {"a": 1}}', 400, "prompt"),
    (COMPLETIONS, b'{"model": "m", "prompt": "a", "logit_bias": {"x": 1}}', 400, "logit_bias"),
    (COMPLETIONS, b'{"model": "m", "prompt": "a", "max_tokens": 1000000000}', 400, "maximum context length"),
    (COMPLETIONS, b'{"model": "m", "prompt": "' + b"word " * 5000 + b'"}', 400, "maximum context length"),
    (CHAT, b'{"model": "m", "messages": []}', 400, "messages"),
    (CHAT, b'{"model": "m", "messages": [{}]}', 400, "messages[0].role"),
    (CHAT, b'{"model": "m", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}', 422, "image_url"),
    ("/detokenize", b'{"tokens": [1099511627776]}', 400, "tokens"),
    ("/nowhere", b"{}", 404, "/nowhere"),
]

POST = b"POST " + COMPLETIONS.encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
# (bytes, status)
BAD_BYTES = [
    (b"\0\1\2\3\r\n\r\n", 400),
    (b"GET / HTTP/9.9\r\n\r\n", 400),
    (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", 431),
    (b"GET / HTTP/1.1\r\n" + b"".join(b"h%d: v\r\n" % i for i in range(5000)) + b"\r\n", 431),
    (POST + b"Content-Length: -5\r\n\r\n", 400),
    (POST + b"Content-Length: 99999999999\r\n\r\n", 413),
    (POST + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n", 400),
]


def body(number, **more):
    return {"model": "m", "prompt": [3 + (number * 37 + i * 11) % 240 for i in range(4 + number % 9)], "max_tokens": 100,
            "temperature": 0.8, "seed": number, "ignore_eos": True, "return_token_ids": True, **more}


def post(path, payload):
    return b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        path.encode(), len(payload), payload)


@contextlib.contextmanager
def connection(cluster):
    with socket.create_connection(("127.0.0.1", cluster.port), timeout=DEADLINE) as s:
        yield s


def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close() then sends RST


def refuse_bad_requests(cluster):
    for path, payload, status, text in BAD_BODIES:
        with connection(cluster) as s:
            s.sendall(post(path, payload))
            head, _, rest = answer(s).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 %d " % status), (payload[:80], head)
            assert text in json.loads(rest)["error"]["message"], (payload[:80], rest)
    for raw, status in BAD_BYTES:
        with connection(cluster) as s:
            with contextlib.suppress(OSError):  # it may close before all is sent
                s.sendall(raw)
            assert s.recv(64).startswith(b"HTTP/1.1 %d " % status), raw[:80]


def answer(s):
    """Head and body of one answer of known length."""
    got = b""
    while b"\r\n\r\n" not in got:
        got += receive(s)
    length = next(int(line.split(b":")[1]) for line in got.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(got.partition(b"\r\n\r\n")[2]) < length:
        got += receive(s)
    return got


def receive(s):
    got = s.recv(65536)
    assert got, "the server closed the connection"
    return got


def vanish(cluster, number):
    """A client that asks and goes: in the body, before the answer, or after some chunks of it."""
    rng = random.Random(number)
    request = post(COMPLETIONS, json.dumps(body(number, n=1 + number % 3, stream=number % 4 != 0)).encode())
    with connection(cluster) as s:
        if number % 5 == 0:
            s.sendall(request[:rng.randrange(20, len(request))])
        else:
            s.sendall(request)
            got, chunks = b"", rng.choice([0, 1, 2, 5, 17]) if number % 4 else 0
            while got.count(b"data: ") < chunks:
                got += receive(s)
        if rng.random() < 0.5:
            reset(s)


def wait_until_idle(cluster):
    start = time.monotonic()
    while True:
        waited_ms = (time.monotonic() - start) * 1000
        page = json.loads(cluster.request("GET", "/cluster")[2])
        left = [page["scheduler"]["assigned"], page["scheduler"]["queued"]]
        for worker in page["workers"]:
            left += [worker["load"][what] for what in ("running", "waiting", "kv_tokens_used")]
            left.append(worker["lease_age_ms"] >= waited_ms)  # its load predates the start
        if not any(left):
            return
        assert waited_ms < DEADLINE * 1000, f"somebody still works for clients that are gone: {page}"
        time.sleep(0.1)  # the page is another process's


def tokens(chunks):
    return [token for chunk in chunks for choice in chunk["choices"] for token in choice.get("token_ids") or []]


def check(cluster):
    streams = [lambda n=n: tokens(cluster.stream(COMPLETIONS, body(n))) for n in range(4)]
    before = run_all(streams, workers=4)
    assert all(len(got) == 100 for got in before), [len(got) for got in before]
    refuse_bad_requests(cluster)
    run_all([lambda n=n: vanish(cluster, n) for n in range(60)], workers=12)
    wait_until_idle(cluster)
    assert run_all(streams, workers=4) == before, "other answers after clients that vanished"

    first_chunks = [threading.Event() for _ in streams]

    def to_the_end(number):
        return tokens(cluster.stream(COMPLETIONS, body(number), on_chunk=lambda _: first_chunks[number].set()))

    def stop():
        for event in first_chunks:
            assert event.wait(DEADLINE)
        cluster.process.send_signal(signal.SIGTERM)
        assert cluster.process.wait(DEADLINE) == 0, "SIGTERM: " + str(cluster.process.returncode)

    *at_the_end, _ = run_all([lambda n=n: to_the_end(n) for n in range(4)] + [stop], workers=5)
    assert at_the_end == before, "SIGTERM changed what streamed"


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    run_dir = work / "run"
    run_dir.mkdir(parents=True, exist_ok=True)
    with Cluster(binaries, "serve", model, "--served-model-name", "m", log=work / "serve.log") as cluster:
        check(cluster)
    with Cluster(binaries, "up", model, "--served-model-name", "m", "--attention-workers", "2", "--expert-workers", "2",
                 "--replicas", "2", run_dir=run_dir, log=work / "up.log") as cluster:
        check(cluster)
    print(f"{len(BAD_BODIES) + len(BAD_BYTES)} bad requests refused, 60 clients vanished, SIGTERM ended no stream; twice")


if __name__ == "__main__":
    main()
