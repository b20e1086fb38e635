#!/usr/bin/env python3
"""The timeline of a whole cluster: `troupe up --trace` under streams, with an expert worker that is killed meanwhile.

usage: timeline_test.py BINARIES MODEL_DIR WORK_DIR

The merged timeline is one that viewers can draw. The events of one request are in gateway, scheduler, attention and expert
processes under its trace id, the killed worker's too, and the time between its tokens is explained by what lies between them.
Clocks that are measured by messages are the one clock that all processes of a machine have. In a cluster without the flag an
operator starts and stops tracing.
"""
import collections
import http.client
import json
import pathlib
import shutil
import subprocess
import sys
import time

import timeline_format
from cluster import Cluster, run_all, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "bench"))
import token_time  # noqa: E402

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE_ID}-00f067aa0ba902b7-01"
STREAMS, TOKENS = 4, 220
FIRST_CHUNKS = 10  # of a stream, before a worker is killed
EXPERT_EVENTS = {"accept expert batch", "batch at host", "answer", "experts"}


def stream(cluster, number, headers=None, on_chunk=None):
    """@returns seconds between the first and the last chunk with a token, and how many there were"""
    body = {"prompt": [3 + (number * 37 + i * 11) % 240 for i in range(8 + number)], "max_tokens": TOKENS, "seed": number,
            "ignore_eos": True, "stream": True}
    connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=120)
    times = []
    try:
        connection.request("POST", "/v1/completions", json.dumps(body).encode(),
                           {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        for line in response:
            if line.startswith(b"data: {"):
                assert b'"error"' not in line, line
                times.append(time.monotonic())
                if on_chunk:
                    on_chunk(len(times))
    finally:
        connection.close()
    return times[-1] - times[0], len(times)


def troupe(binaries, *words):
    done = subprocess.run([binaries / "troupe", *map(str, words)], capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr


def merged(binaries, folder, *flags):
    status, out, errors = troupe(binaries, "trace", "merge", folder, *flags)
    assert status == 0, (out, errors)
    trace = json.loads((folder / "timeline.json").read_text(encoding="utf-8"))
    assert not timeline_format.flaws(trace), timeline_format.flaws(trace)
    return trace


def process_names(trace):
    return {event["pid"]: event["args"]["name"].split(" ")[0] for event in trace["traceEvents"] if event["name"] == "process_name"}


def events_of(trace, trace_id):
    """What each process has of a request: {process: {names}}"""
    names, found = process_names(trace), collections.defaultdict(set)
    for event in trace["traceEvents"]:
        args = event.get("args", {})
        if args.get("trace_id") == trace_id or trace_id in args.get("trace_ids", ()):
            found[names[event["pid"]]].add(event["name"])
    return found


def written(binaries, folder):
    """What the processes' files have of the traced request while the cluster runs, so with ends that are not there yet."""
    status, out, errors = troupe(binaries, "trace", "merge", folder)
    assert status == 0, (out, errors)
    return events_of(json.loads((folder / "timeline.json").read_text(encoding="utf-8")), TRACE_ID)


def check_format_is_checked(trace):
    """The checks above fail where they should."""
    events = trace["traceEvents"]
    slices = [event for event in events if event["ph"] == "X" and event["dur"] > 1]
    for broken in ([event for event in events if event["ph"] != "f"],
                   [event for event in events if event["ph"] != "e"],
                   [event for event in events if event["name"] != "process_name"],
                   [*events, {key: value for key, value in slices[0].items() if key != "dur"}],
                   sorted([*events, {**slices[0], "ts": slices[0]["ts"] + slices[0]["dur"] / 2}], key=lambda e: e.get("ts", 0))):
        assert timeline_format.flaws({"traceEvents": broken})


def check_request(trace):
    found = events_of(trace, TRACE_ID)
    assert {"request", "template and tokenization", "ask for a place", "admission", "submit", "token", "detokenize",
            "write"} <= found["gateway-0"], found
    assert {"admit", "queue"} <= found["scheduler-0"], found
    assert {"accept", "sequence", "wait for a turn", "prefill", "decode", "micro-batch", "attention", "attention and LM head",
            "experts", "send expert batch", "expert batch", "take answer", "send token"} <= found["attention-0"], found
    for worker in ("expert-0", "expert-1"):
        assert EXPERT_EVENTS <= found[worker], (worker, found)
    names = process_names(trace)
    ways = collections.defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] in "stf":
            ways[event["name"]].append((event["id"], names[event["pid"]]))
    batches = collections.defaultdict(list)
    for number, process in ways["expert batch"]:
        batches[number].append(process)
    assert ["attention-0", "expert-0", "expert-0", "attention-0"] in batches.values(), list(batches.values())[:5]
    assert {process for _, process in ways["token"]} == {"attention-0", "gateway-0"}
    assert {process for _, process in ways["request for a place"]} == {"gateway-0", "scheduler-0"}


def check_clocks(binaries, folder):
    """All processes share a clock: what messages show must be within its own bounds of that."""
    trace = merged(binaries, folder, "--clocks", "measured")
    processes = trace["otherData"]["processes"]
    measured = {process["process"]: process for process in processes if process["clock"] == "measured"}
    assert {"attention-0", "expert-0", "scheduler-0"} <= set(measured) | {processes[0]["process"]}, processes
    for process in measured.values():
        assert abs(process["clock_offset_ns"]) <= process["clock_error_ns"] + 1, process
        assert process["clock_error_ns"] < 50e6, process


def check_time_adds_up(trace, clients):
    sums = token_time.account(trace)
    assert sums["tokens"] > STREAMS * TOKENS / 2, sums
    assert abs(sums["residual"]) < token_time.MOST_RESIDUAL, sums
    by_clients = 1e6 * sum(seconds for seconds, _ in clients) / sum(chunks - 1 for _, chunks in clients)
    assert abs(sums["measured_us"] - by_clients) < 0.25 * by_clients, (sums, by_clients)
    for part in ("attention", "router", "compute experts", "sampling", "way to experts", "way back from experts"):
        assert sums["parts_us"][part] > 0, sums


def check_killed_worker(binaries, model, work):
    folder = work / "traces"
    with Cluster(binaries, "up", model, "--expert-workers", "2", "--replicas", "2", "--trace", str(folder), "--trace-sample", "1",
                 "--served-model-name", "m", run_dir=work / "run", log=work / "up.log") as cluster:
        clients = [stream(cluster, 0, {"traceparent": PARENT})]
        wait_for("what expert-1 did for the traced request in its file", lambda: EXPERT_EVENTS <= written(binaries, folder)["expert-1"])

        def kill(chunks):
            if chunks == FIRST_CHUNKS:
                cluster.kill("expert-1")

        clients += run_all([lambda n=n: stream(cluster, n, on_chunk=kill if n == 1 else None) for n in range(1, STREAMS)], STREAMS)
        wait_for("the killed worker's return", lambda: len(cluster.said(r"worker-joined: expert-1")) > 1)
    assert all(chunks >= TOKENS for _, chunks in clients), clients
    trace = merged(binaries, folder)
    check_format_is_checked(trace)
    check_request(trace)
    texts = [event["args"]["text"] for event in trace["traceEvents"] if event["name"] == "event"]
    assert any(text.startswith("worker-gone: expert-1") for text in texts), texts
    assert sorted(process["process"] for process in trace["otherData"]["processes"]).count("expert-1") == 2
    check_clocks(binaries, folder)
    check_time_adds_up(trace, clients)
    status, _, errors = troupe(binaries, "up", model, "--port", "0", "--trace", folder)
    assert status == 2 and "--trace" in errors and "earlier" in errors, (status, errors)


def check_started_by_hand(binaries, model, work):
    with Cluster(binaries, "up", model, "--served-model-name", "m", run_dir=work / "run2", log=work / "up2.log") as cluster:
        url = f"http://127.0.0.1:{cluster.port}"
        stream(cluster, 1, {"X-Request-Id": "before"})
        status, out, errors = troupe(binaries, "trace", "start", "--sample", "1", "--url", url)
        assert status == 0 and {line.split(":")[0] for line in out.splitlines()} == \
            {"scheduler", "gateway-0", "attention-0", "expert-0", "expert-1"}, (out, errors)
        stream(cluster, 2, {"X-Request-Id": "meanwhile"})
        cluster.kill("scheduler-0")
        wait_for("the next scheduler traces as the one before was told",
                 lambda: cluster.said("tracing: traces 1000000 of a million requests, as the scheduler before was told"))
        wait_for("the next scheduler serves", lambda: cluster.request("GET", "/cluster/ready")[0] == 200)
        stream(cluster, 4, {"X-Request-Id": "with-the-next-scheduler"})
        status, out, errors = troupe(binaries, "trace", "stop", "--url", url)
        assert status == 0, (out, errors)
        stream(cluster, 3, {"X-Request-Id": "behind"})
        status, _, raw = cluster.request("POST", "/cluster/trace", {"action": "begin"})
        assert status == 400 and "'action' must be 'start' or 'stop'" in raw.decode(), raw
    trace = merged(binaries, work / "run2" / "trace")
    ids = {event["args"]["request_id"] for event in trace["traceEvents"] if event["name"] == "request" and event["ph"] == "b"}
    assert ids == {"meanwhile", "with-the-next-scheduler"}, ids
    trace_ids = {event["args"]["trace_id"] for event in trace["traceEvents"]
                 if event["name"] == "request" and event["ph"] == "b" and event["args"]["request_id"] == "with-the-next-scheduler"}
    assert {"admit", "queue"} <= events_of(trace, *trace_ids)["scheduler-0"], trace_ids


def check_without_folder(binaries, model, work):
    with Cluster(binaries, "serve", model, log=work / "serve.log") as cluster:
        status, out, _ = troupe(binaries, "trace", "start", "--url", f"http://127.0.0.1:{cluster.port}")
        assert status == 1 and "--trace DIR" in out, out


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    check_killed_worker(binaries, model, work)
    check_started_by_hand(binaries, model, work)
    check_without_folder(binaries, model, work)


if __name__ == "__main__":
    main()
