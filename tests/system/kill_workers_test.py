#!/usr/bin/env python3
"""Nothing is lost: kill -9 of an expert worker and of an attention worker under 16 concurrent streams.

usage: kill_workers_test.py BINARIES MODEL_DIR WORK_DIR

Every stream must complete, chunk texts and logprobs byte for byte as in an undisturbed run, and the killed processes must
be back, under new pids, when the cluster is asked again.
"""
import json
import pathlib
import sys
import threading
import time

from cluster import Cluster, run_all

NUM_STREAMS = 16
TOKENS = 160


def body(number):
    return {"prompt": [3 + (number * 37 + i * 11) % 240 for i in range(5 + 5 * number)], "max_tokens": TOKENS,
            "temperature": 0.8, "seed": number, "ignore_eos": True, "logprobs": 2, "return_token_ids": True}


def content(chunks):
    """Tokens and logprobs in order: what must not change; how they were cut into chunks may."""
    tokens, logprobs, finish = [], [], None
    for chunk in chunks:
        for choice in chunk["choices"]:
            tokens += choice.get("token_ids") or []
            lp = choice.get("logprobs")
            if lp:
                logprobs += list(zip(lp["tokens"], lp["token_logprobs"], map(json.dumps, lp["top_logprobs"])))
            finish = choice.get("finish_reason") or finish
    text = "".join(choice["text"] for chunk in chunks for choice in chunk["choices"])
    return json.dumps([tokens, logprobs, finish, text])


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    run_dir = work / "run"
    run_dir.mkdir(parents=True, exist_ok=True)
    with Cluster(binaries, "up", model, "--attention-workers", "2", "--expert-workers", "3", "--replicas", "2",
                 "--served-model-name", "m", run_dir=run_dir, log=work / "up.log") as cluster:
        streams = [lambda n=n: content(cluster.stream("/v1/completions", body(n))) for n in range(NUM_STREAMS)]
        undisturbed = run_all(streams, workers=NUM_STREAMS)
        assert len(set(undisturbed)) == NUM_STREAMS

        progress, under_way = [0] * NUM_STREAMS, threading.Condition()

        def note(number):
            def on_chunk(count):
                with under_way:
                    progress[number] = count
                    under_way.notify_all()
            return on_chunk

        def wait_for(chunks):
            with under_way:
                assert under_way.wait_for(lambda: min(progress) >= chunks, timeout=60), progress

        before = cluster.pids()
        killed = []

        def kill_two():
            wait_for(TOKENS // 10)
            killed.append(("expert-1", cluster.kill("expert-1")))
            wait_for(TOKENS // 3)
            killed.append(("attention-0", cluster.kill("attention-0")))

        watched = [lambda n=n: content(cluster.stream("/v1/completions", body(n), on_chunk=note(n)))
                   for n in range(NUM_STREAMS)]
        killer = threading.Thread(target=kill_two)
        killer.start()
        disturbed = run_all(watched, workers=NUM_STREAMS)
        killer.join()
        assert len(killed) == 2, "the streams ended before both workers were killed"
        different = [i for i in range(NUM_STREAMS) if disturbed[i] != undisturbed[i]]
        for i in different[:2]:
            print(f"stream {i}\n  undisturbed: {undisturbed[i][:1500]}\n  disturbed:   {disturbed[i][:1500]}")
        assert not different, f"{len(different)} of {NUM_STREAMS} streams differ"

        end = time.monotonic() + 30
        while True:
            after = cluster.pids()
            if all(after.get(name, pid) != pid for name, pid in killed):
                break
            assert time.monotonic() < end, f"not restarted: {before} {after}"
            time.sleep(0.05)  # pids.json is a file of another process
        again = run_all(streams, workers=NUM_STREAMS)
        assert again == undisturbed, "the answers after the restarts differ"
        print(f"{NUM_STREAMS} streams of {TOKENS} tokens, {[name for name, _ in killed]} killed: all as undisturbed")


if __name__ == "__main__":
    main()
