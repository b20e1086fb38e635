#!/usr/bin/env python3
"""Prefix caching changes no byte: 400 mixed requests, of which many share their beginnings.

usage: prefix_caching_test.py BINARIES MODEL_DIR WORK_DIR

All at once to `troupe serve --no-enable-prefix-caching`, then to `troupe serve` with a cache that holds a small part of
them, again, and to `troupe up` while its attention and expert workers are killed. Every answer, logprobs included, must be
byte-identical but for `cached_tokens`. A chat's next turn computes what is new, one with another `cache_salt` everything.
"""
import pathlib
import random
import sys
import threading

from cluster import Cluster, run_all, wait_for
from workload import essence, requests

NUM_REQUESTS = 400
AT_ONCE = 64
KILLS = 6


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    work.mkdir(parents=True, exist_ok=True)
    asked = requests(seed=11, count=NUM_REQUESTS, vocab_size=250, beginnings=6)

    def all_of(cluster, answered=lambda: None):
        def ask(path, body):
            answer = cluster.post(path, body)
            answered()
            return answer
        return run_all([lambda one=one: ask(*one) for one in asked], workers=AT_ONCE)

    def compare(name, answers):
        different = [i for i, answer in enumerate(answers) if essence(answer) != plain[i]]
        for i in different[:3]:
            print(f"{name}: request {i} differs\n  plain: {plain[i][:2000]}\n  here:  {essence(answers[i])[:2000]}")
        assert not different, f"{name}: {len(different)} of {len(answers)} answers differ"
        known, sent = sum(map(cached, answers)), sum(answer["usage"]["prompt_tokens"] for answer in answers)
        print(f"{name}: {len(answers)} answers, all byte-identical; {known} of {sent} prompt tokens were known")
        return known

    def serve(*flags):
        return Cluster(binaries, "serve", model, "--served-model-name", "m", *flags, log=work / "serve.log")

    with serve("--no-enable-prefix-caching") as cluster:
        plain = [essence(answer) for answer in all_of(cluster)]
        chat = [cluster.post("/v1/completions", turn) for turn in [first_turn()]]
        assert cached(cluster.post("/v1/completions", first_turn())) == 0
    assert len(set(plain)) > NUM_REQUESTS // 2, "the workload is too uniform to prove anything"
    with serve("--kv-cache-memory", "2M") as cluster:  # a few requests fill it
        assert compare("a small cache", all_of(cluster)) > 0
        assert compare("a small cache, again", all_of(cluster)) > 0
    with serve() as cluster:
        turns(cluster, chat[0])
    run_dir = work / "up"
    run_dir.mkdir(exist_ok=True)
    with Cluster(binaries, "up", model, "--attention-workers", "2", "--expert-workers", "3", "--replicas", "2",
                 "--served-model-name", "m", run_dir=run_dir, log=work / "up.log") as cluster:
        done, killed = threading.Semaphore(0), []

        def kill():
            rng = random.Random(5)
            for _ in range(KILLS):
                for _ in range(NUM_REQUESTS // (KILLS + 2)):
                    done.acquire()
                name = rng.choice(["attention-0", "attention-1", "expert-0", "expert-1", "expert-2"])
                wait_for(f"{name} runs", lambda name=name: name in cluster.pids())
                cluster.kill(name)
                killed.append(name)

        killer = threading.Thread(target=kill)
        killer.start()
        answers = all_of(cluster, done.release)
        killer.join()
        assert len(killed) == KILLS
        assert compare(f"two attention workers, {', '.join(killed)} killed", answers) > 0


def first_turn():
    return {"prompt": [3 + i * 7 % 240 for i in range(100)], "max_tokens": 40, "ignore_eos": True, "seed": 5,
            "temperature": 0.7, "return_token_ids": True}


def turns(cluster, plain):
    """A chat's second turn knows the first one and its answer, but for the block that is not full."""
    first = cluster.post("/v1/completions", first_turn())
    assert essence(first) == essence(plain)
    assert cached(first) == 0
    history = first_turn()["prompt"] + first["choices"][0]["token_ids"]
    second = {**first_turn(), "prompt": history + [5, 6, 7]}
    plain_second = cluster.post("/v1/completions", {**second, "cache_salt": "another tenant"})
    assert cached(plain_second) == 0
    answer = cluster.post("/v1/completions", second)
    assert essence(answer) == essence(plain_second)
    assert cached(answer) == (len(history) - 1) // 16 * 16, (cached(answer), len(history))
    again = cluster.post("/v1/completions", {**second, "cache_salt": "another tenant"})
    assert cached(again) == (len(second["prompt"]) - 1) // 16 * 16, cached(again)
    scored = cluster.post("/v1/completions", {**second, "prompt_logprobs": 1})
    assert cached(scored) == 0 and scored["choices"][0]["token_ids"] == answer["choices"][0]["token_ids"]
    streamed = cluster.stream("/v1/completions", {**second, "stream_options": {"include_usage": True}})
    assert cached(streamed[-1]) == cached(answer), streamed[-1]


if __name__ == "__main__":
    main()
