#!/usr/bin/env python3
"""`troupe-load trace` with real processes: its output counts each token of its load once, and load/trace_figures.py draws
it.

usage: trace_test.py BINARIES MODEL_DIR WORK_DIR

The model is the demo model, which is in the repository, and not MODEL_DIR: what is random uses all experts alike.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import time

from cluster import Cluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "deploy" / "demo-model" / "model"
DOMAINS = ("python_code", "spanish_prose")
REQUESTS, TOKENS = 12, 16
PATIENCE = 60  # seconds


def main():
    binaries, work = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[3])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    config = json.loads((MODEL / "config.json").read_text(encoding="utf-8"))
    trace = work / "trace.jsonl"
    with Cluster(binaries, "up", MODEL, "--served-model-name", "m", "--expert-workers", "2", run_dir=work / "run",
                 log=work / "up.log") as cluster:
        # Earlier tokens of others, which are not part of the trace.
        usage = cluster.post("/v1/completions", {"model": "m", "prompt": "def ", "max_tokens": 3})["usage"]
        before = wait_for_tokens(cluster, usage["total_tokens"] - 1)
        load = [binaries / "troupe-load", "trace", "--url", f"http://127.0.0.1:{cluster.port}", "--output", trace]
        for domain in DOMAINS:
            load += ["--prompts", ROOT / "load" / "prompts" / f"{domain}.jsonl"]
        load += ["--num-prompts", str(REQUESTS), "--random-output-len", str(TOKENS), "--interval", "0.5"]
        done = subprocess.run(load, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        after = history_of(cluster)
    header, *windows = map(json.loads, trace.read_text(encoding="utf-8").splitlines())
    assert header["format"] == "troupe-trace 1" and header["fingerprint"] == after["fingerprint"], header
    assert [window["domain"] for window in windows] == sorted(window["domain"] for window in windows), windows
    assert {window["domain"] for window in windows} == set(DOMAINS), windows
    told = {line.split(":")[0]: int(line.split()[-2]) for line in done.stdout.splitlines()}
    for domain in DOMAINS:
        counted = sum(window["tokens"] for window in windows if window["domain"] == domain)
        assert counted == told[domain] > REQUESTS * TOKENS, (counted, done.stdout)
    assert sum(window["tokens"] for window in windows) == after["tokens"] - before["tokens"]
    for window in windows:
        assert [len(rows) for rows in window["rows"]] == [config["num_experts"]] * len(header["layers"]), window
        for rows in window["rows"]:
            assert sum(rows) == window["tokens"] * config["num_experts_per_tok"], window
    figures = work / "figures"
    draw = [ROOT / "load" / "trace_figures.py", trace, "--out", figures]
    done = subprocess.run(["/usr/bin/python3", *draw], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (figures / "summary.txt").read_text(encoding="utf-8")
    for name in ("popularity", "windows", "sparsity", "locality", "correlation", "domains", "capacity"):
        assert (figures / f"{name}.png").read_bytes().startswith(b"\x89PNG"), name
    print(f"trace: {len(windows)} windows of {told} tokens")


def wait_for_tokens(cluster, count):
    end = time.monotonic() + PATIENCE
    while (history := history_of(cluster))["tokens"] < count:
        assert time.monotonic() < end, f"{count} tokens were not counted within {PATIENCE} s"
        time.sleep(0.05)  # polls another process
    return history


def history_of(cluster):
    status, _, body = cluster.request("GET", "/cluster/history")
    assert status == 200, (status, body)
    return json.loads(body)


if __name__ == "__main__":
    main()
