#!/usr/bin/env python3
"""The activation history of real processes: it counts what runs, survives `kill -9` of the scheduler, and can be given
to a new cluster. A history of another model ends the start with one clear line.

usage: history_test.py BINARIES MODEL_DIR WORK_DIR
"""
import json
import pathlib
import shutil
import subprocess
import sys

from cluster import Cluster, wait_for

PATIENCE = 60  # seconds
QUESTION = {"model": "m", "prompt": [1, 2, 3], "max_tokens": 4, "temperature": 0, "ignore_eos": True}
TOKENS = 3 + 4 - 1  # computed tokens: the last one is only sampled


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    saved = work / "history.json"
    with Cluster(binaries, "up", model, "--served-model-name", "m", run_dir=work / "first", log=work / "first.log") as first:
        first.post("/v1/completions", QUESTION)
        known = wait_for_tokens(first, TOKENS)
        check(known)
        killed = first.kill("scheduler-0")
        wait_for("the scheduler is started again", lambda: first.pids().get("scheduler-0", killed) != killed)
        first.wait_ready()
        assert counted(wait_for_tokens(first, TOKENS)) == counted(known), "counted once, though it was told twice"
        first.post("/v1/completions", QUESTION)
        saved.write_text(json.dumps(wait_for_tokens(first, 2 * TOKENS)), encoding="utf-8")
    shown = json.loads(saved.read_text(encoding="utf-8"))
    with Cluster(binaries, "serve", model, "--served-model-name", "m", "--history", str(saved),
                 log=work / "second.log") as second:
        assert history_of(second) == shown, "a new cluster begins with it"
        second.post("/v1/completions", QUESTION)
        wait_for_tokens(second, 3 * TOKENS)
    with Cluster(binaries, "up", model, "--served-model-name", "m", run_dir=work / "first", log=work / "third.log") as third:
        assert counted(history_of(third)) == counted(shown), "its own is in its run folder"
    another = work / "another.json"
    another.write_text(json.dumps({**shown, "fingerprint": "another"}), encoding="utf-8")
    for command in ("serve", "up"):
        done = subprocess.run([binaries / "troupe", command, model, "--port", "0", "--history", another],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode != 0, done.stderr
        assert f"--history: {another} is of model another, not of" in done.stderr, done.stderr
    print(f"history: {shown['tokens']} tokens and {shown['rows']} rows survived a kill, a new cluster and a restart")


def history_of(cluster):
    status, _, body = cluster.request("GET", "/cluster/history?windows=256")
    return json.loads(body) if status == 200 else {"tokens": 0}


def wait_for_tokens(cluster, count):
    def known():
        history = history_of(cluster)
        return history if history["tokens"] >= count else None

    return wait_for(f"{count} tokens are counted", known)


def counted(history):
    """What does not depend on when it was counted."""
    return history["tokens"], history["rows"], [window["rows"] for window in history["windows"]]


def check(history):
    assert history["format"] == "troupe-history 1", history
    assert history["tokens"] == TOKENS, history
    moe_layers = [experts for experts in history["layer_experts"] if experts > 0]
    assert history["rows"] % (TOKENS * len(moe_layers)) == 0, history
    assert [len(rows) for rows in history["decayed"]] == history["layer_experts"], history
    in_windows = sum(sum(rows[1::2]) for window in history["windows"] for rows in window["rows"])
    assert in_windows == history["rows"], history


if __name__ == "__main__":
    main()
