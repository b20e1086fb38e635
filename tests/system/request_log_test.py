#!/usr/bin/env python3
"""The logs tell what happened to a request: kill -9 of the attention worker that computes one with a known X-Request-Id.

usage: request_log_test.py BINARIES MODEL_DIR WORK_DIR

Every line of every process is JSON. The id is in the lines of gateway, scheduler and both attention workers, with the worker
that failed and the one that went on. The access log adds up to what the clients have counted, also where it was moved away
under way and opened anew by SIGHUP.
"""
import collections
import http.client
import json
import pathlib
import signal
import sys
import threading

from cluster import Cluster, run_all, wait_for

ID = "night-shift:1"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
NUM_STREAMS = 8
TOKENS = 120


def ask(cluster, path, body, headers=None, on_chunk=None):
    """@returns (status, usage of the answer or None, request id), of a stream where `body` asks for one"""
    connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=120)
    try:
        connection.request("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        name, usage, chunks = response.headers["x-request-id"], None, 0
        if response.status != 200 or not body.get("stream"):
            return response.status, json.loads(response.read()).get("usage"), name
        for line in response:
            line = line.strip()
            if not line.startswith(b"data: ") or line == b"data: [DONE]":
                continue
            chunk = json.loads(line[6:])
            assert "error" not in chunk, chunk
            usage, chunks = chunk.get("usage") or usage, chunks + 1
            if on_chunk:
                on_chunk(chunks)
        return response.status, usage, name
    finally:
        connection.close()


def body(number, tokens=TOKENS):
    return {"prompt": [3 + (number * 37 + i * 11) % 240 for i in range(5 + 5 * number)], "max_tokens": tokens, "seed": number,
            "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}


def lines_of(path):
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        lines.append(json.loads(line))
        assert {"time", "level", "process", "event", "message"} <= set(lines[-1]), line
    return lines


def steps(lines, process):
    return [line["event"] for line in lines if line.get("request_id") == ID and line["process"] == process]


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    run_dir = work / "run"
    run_dir.mkdir(parents=True, exist_ok=True)
    log, access, moved = work / "up.log", work / "access.log", work / "access.log.1"
    for old in (access, moved):
        old.unlink(missing_ok=True)
    answers = []
    with Cluster(binaries, "up", model, "--attention-workers", "2", "--expert-workers", "2", "--replicas", "2",
                 "--served-model-name", "m", "--log-format", "json", "--log-level", "debug", "--access-log", str(access),
                 run_dir=run_dir, log=log) as cluster:
        answers += [ask(cluster, "/v1/completions", {"prompt": [3, 4], "max_tokens": 5, "ignore_eos": True}),
                    ask(cluster, "/v1/completions", {"prompt": [], "max_tokens": 5}),
                    ask(cluster, "/v1/nothing", {})]
        wait_for("the first lines of the access log", lambda: access.exists() and access.read_text().count('"path":"/v1/') == 3)
        access.rename(moved)
        cluster.process.send_signal(signal.SIGHUP)
        wait_for("the new access log", access.exists)

        far = threading.Event()

        def known():
            return ask(cluster, "/v1/completions", body(1, 2 * TOKENS), {"X-Request-Id": ID, "traceparent": TRACE},
                       lambda chunks: chunks == 20 and far.set())

        def kill():
            assert far.wait(60), "the request that is to lose its worker does not get on"
            placed = [line for line in map(json.loads, log.read_text().splitlines())
                      if line["event"] == "request-placed" and line["process"] == "gateway-0" and line["request_id"] == ID]
            worker = placed[-1]["message"].removeprefix("on ")
            cluster.kill(worker)
            return worker

        *told, lost = run_all([known, *(lambda n=n: ask(cluster, "/v1/completions", body(n)) for n in range(2, NUM_STREAMS)),
                               kill], workers=NUM_STREAMS)
        answers += told
        assert told[0][0] == 200 and told[0][2] == ID, told[0]

    assert not (run_dir / "secret").exists(), "the cluster's secret is left behind"
    lines = lines_of(log)
    other = "attention-1" if lost == "attention-0" else "attention-0"
    told = steps(lines, "gateway-0")
    assert told == ["request-accepted", "request-placed", "request-replayed", "request-finished"], told
    assert steps(lines, "scheduler-0").count("request-queued") == 2, steps(lines, "scheduler-0")
    assert steps(lines, "scheduler-0").count("request-placed") == 2, steps(lines, "scheduler-0")
    assert steps(lines, lost) == ["sequence-started"], steps(lines, lost)
    assert steps(lines, other) == ["sequence-started", "sequence-finished"], steps(lines, other)
    replay = next(line for line in lines if line["event"] == "request-replayed" and line["request_id"] == ID)
    assert replay["level"] == "warning" and f"from {lost} to {other}" in replay["message"], replay
    assert all(line["traceparent"] == TRACE for line in lines if line.get("request_id") == ID), "the traceparent goes with it"
    told = {line["event"]: line for line in lines}
    assert "processes" in told["running"]["message"] and told["cluster-ready"]["level"] == "info", told
    assert told["listening"]["process"] != "gateway-0" or told["listening"]["url"].startswith("http://"), told["listening"]
    assert "context" in told["attention-ready"]["message"] and told["attention-ready"]["kv_tokens"] > 0, told["attention-ready"]

    asked = [line for path in (moved, access) for line in lines_of(path) if line["path"].startswith("/v1/")]
    assert collections.Counter(line["status"] for line in asked) == collections.Counter(status for status, _, _ in answers)
    by_id = {line["request_id"]: line for line in asked}
    assert set(by_id) == {name for _, _, name in answers} and len(asked) == len(answers), (asked, answers)
    for status, usage, name in answers:
        line = by_id[name]
        if status != 200:
            assert line["error"] and "output_tokens" not in line, line
            continue
        assert (line["prompt_tokens"], line["output_tokens"]) == (usage["prompt_tokens"], usage["completion_tokens"]), line
        assert line["finish"] == "length" and line["bytes"] > 0 and line["client"].startswith("127.0.0.1:"), line
        assert 0 <= line["queue_seconds"] <= line["first_token_seconds"] <= line["total_seconds"], line
    assert by_id[ID]["traceparent"] == TRACE, by_id[ID]


if __name__ == "__main__":
    main()
