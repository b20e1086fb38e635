#!/usr/bin/env python3
"""Spans of requests reach an OpenTelemetry collector, and a missing collector costs no request.

usage: otlp_test.py BINARIES MODEL_DIR WORK_DIR
"""
import http.client
import http.server
import json
import pathlib
import sys
import threading
import time

from cluster import Cluster, free_port, wait_for

TRACE_ID, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    """Keeps what is sent to it."""

    def __init__(self):
        self.spans, self.resources, self.paths = [], [], set()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.paths.add((self.path, self.headers["content-type"]))
                for resource in body["resourceSpans"]:
                    outer.resources.append(attributes(resource["resource"]))
                    for scope in resource["scopeSpans"]:
                        outer.spans += scope["spans"]
                self.send_response(200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def attributes(holder):
    def plain(value):
        (kind, content), = value.items()
        if kind == "arrayValue":
            return [plain(entry) for entry in content["values"]]
        return int(content) if kind == "intValue" else content

    return {entry["key"]: plain(entry["value"]) for entry in holder["attributes"]}


def ask(cluster, path, body, headers):
    connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=60)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def check_spans(binaries, model, work):
    collector = Collector()
    begin = time.time_ns()
    with Cluster(binaries, "serve", model, "--served-model-name", "m", "--otlp-endpoint", f"http://127.0.0.1:{collector.port}",
                 log=work / "serve.log") as cluster:
        body = {"prompt": [3, 4, 5], "max_tokens": 7, "ignore_eos": True, "n": 2}
        assert ask(cluster, "/v1/completions", body, {"traceparent": f"00-{TRACE_ID}-{PARENT}-01"}) == 200
        assert ask(cluster, "/v1/completions", body, {"traceparent": f"00-{TRACE_ID[::-1]}-{PARENT}-00"}) == 200
        assert ask(cluster, "/v1/completions", body, {"X-Request-Id": "mine"}) == 200
        assert ask(cluster, "/v1/completions", {"prompt": []}, {"X-Request-Id": "wrong"}) == 400
        assert cluster.request("GET", "/v1/models")[0] == 200
        wait_for("the spans", lambda: len(collector.spans) >= 3)
    assert len(collector.spans) == 3, collector.spans
    assert collector.paths == {("/v1/traces", "application/json")}, collector.paths
    assert all(resource["service.name"] == "troupe" for resource in collector.resources)
    spans = {attributes(span)["troupe.request_id"]: span for span in collector.spans}
    child, = [span for span in collector.spans if "parentSpanId" in span]
    assert (child["traceId"], child["parentSpanId"], child["kind"]) == (TRACE_ID, PARENT, 2), child
    assert child["name"] == "text_completion m" and "status" not in child, child
    known = attributes(child)
    assert {"gen_ai.operation.name": "text_completion", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 3,
            "gen_ai.usage.output_tokens": 14, "gen_ai.response.finish_reasons": ["length", "length"],
            "http.response.status_code": 200}.items() <= known.items(), known
    assert 0 <= known["troupe.queue_seconds"] <= known["troupe.first_token_seconds"], known
    assert begin <= int(child["startTimeUnixNano"]) <= int(child["endTimeUnixNano"]) <= time.time_ns(), child
    assert len(spans["mine"]["traceId"]) == 32 and spans["mine"]["traceId"] != TRACE_ID
    assert spans["wrong"]["status"]["code"] == 2 and spans["wrong"]["status"]["message"], spans["wrong"]
    assert len({span["spanId"] for span in collector.spans}) == 3


def check_without_collector(binaries, model, work):
    log = work / "alone.log"
    with Cluster(binaries, "serve", model, "--otlp-endpoint", f"http://127.0.0.1:{free_port()}", log=log) as cluster:
        assert ask(cluster, "/v1/completions", {"prompt": [3], "max_tokens": 2}, {}) == 200
        wait_for("the line of the log", lambda: cluster.said(r"otlp: 1 spans for the collector at"))


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    work.mkdir(parents=True, exist_ok=True)
    check_spans(binaries, model, work)
    check_without_collector(binaries, model, work)


if __name__ == "__main__":
    main()
