#!/usr/bin/env python3
"""A small model of each family, served: the tokens of the float64 reference, from one process and from many, and nothing lost when workers die.

usage: families_test.py BINARIES MODEL_DIR WORK_DIR [VARIANT...]

`troupe serve` converts the checkpoint; the workers of `troupe up` pack it into a cache and map it. Greedy tokens must be the
reference's (tests/reference/reference.py) wherever the margin of its choice exceeds what rounding to bfloat16 may move. Sampled
streams with logprobs must be byte-identical from both, and once more while an expert worker and an attention worker are killed.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import threading

from cluster import Cluster, run_all, wait_for
from kill_workers_test import content

VARIANTS = ("deepseek_v2", "deepseek_v3", "glm4_moe_lite", "glm4_moe", "dots1", "minimax_m2", "ernie4_5_moe", "hunyuan_v1_moe_lists",
            "granitemoeshared", "phimoe", "gpt_oss", "llama4", "gpt_moe")
REFERENCE = pathlib.Path(__file__).parent.parent / "reference"
PROMPT = [3 + (i * 29 + 7) % 240 for i in range(70)]  # longer than windows, chunks and the contexts that YaRN stretches
GREEDY = 12
NUM_STREAMS, TOKENS = 6, 96


def script(name, *arguments):
    """Runs a script of the reference. @returns what it prints"""
    return subprocess.run(["/usr/bin/python3", "-B", REFERENCE / name, *map(str, arguments)], check=True, capture_output=True, text=True,
                          timeout=300).stdout


def greedy_tokens(cluster, prompt, count):
    answer = cluster.post("/v1/completions", {"prompt": prompt, "max_tokens": count, "temperature": 0, "ignore_eos": True,
                                              "return_token_ids": True})
    return answer["choices"][0]["token_ids"]


def compare_with_reference(variant, cluster, expected):
    """Along the reference's own continuation, so that one near-tie does not end the comparison. @returns how many there were"""
    done, near_ties = 0, 0
    while done < GREEDY:
        tokens = greedy_tokens(cluster, PROMPT + expected["greedy"][:done], GREEDY - done)
        assert len(tokens) == GREEDY - done, tokens
        same = next((i for i, (a, b) in enumerate(zip(tokens, expected["greedy"][done:])) if a != b), len(tokens))
        done += same
        if done < GREEDY:
            assert expected["margins"][done] < expected["rounding_errors"][done], (
                f"{variant}: token {done} is {tokens[same]}, the reference has {expected['greedy'][done]} with a margin of "
                f"{expected['margins'][done]}, and rounding moves {expected['rounding_errors'][done]}")
            near_ties += 1
            done += 1
    assert near_ties < GREEDY / 2, f"{variant}: near-ties everywhere prove nothing"
    return near_ties


def body(number):
    return {"prompt": [3 + (number * 37 + i * 11) % 240 for i in range(5 + 12 * number)], "max_tokens": TOKENS, "temperature": 0.8,
            "seed": number, "ignore_eos": True, "logprobs": 2, "return_token_ids": True}


class Streams:
    """All requests at once, and how far they are."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.progress, self.under_way = [0] * NUM_STREAMS, threading.Condition()

    def run(self):
        """@returns what each gave"""
        def on_chunk(number):
            def note(count):
                with self.under_way:
                    self.progress[number] = count
                    self.under_way.notify_all()
            return note

        return run_all([lambda n=n: content(self.cluster.stream("/v1/completions", body(n), on_chunk=on_chunk(n)))
                        for n in range(NUM_STREAMS)], workers=NUM_STREAMS)

    def wait_for(self, chunks):
        with self.under_way:
            assert self.under_way.wait_for(lambda: min(self.progress) >= chunks, timeout=60), self.progress


def survive(cluster):
    """@returns what the streams gave while two workers died"""
    streams, killed, ended = Streams(cluster), [], threading.Event()

    def kill_two():
        for name, chunks in (("expert-1", TOKENS // 10), ("attention-0", TOKENS // 3)):
            streams.wait_for(chunks)
            cluster.kill(name)
            if not ended.is_set():
                killed.append(name)

    killer = threading.Thread(target=kill_two)
    killer.start()
    result = streams.run()
    ended.set()
    killer.join()
    assert len(killed) == 2, "the streams ended before both workers were killed"
    for name in killed:  # before the cluster is told to stop
        wait_for(f"{name} joins again", lambda: len(cluster.said(rf"worker-joined: {name} at")) == 2)
    return result


def try_family(binaries, variant, work):
    folder, run_dir = work / "model", work / "run"
    run_dir.mkdir(parents=True)
    script("make_model.py", "--variant", variant, "--out", folder)
    expected = json.loads(script("reference.py", folder, "--prompt", ",".join(map(str, PROMPT)), "--greedy", GREEDY,
                                 "--rounded-runs", 8))
    flags = ("--served-model-name", "m", "--kv-cache-memory", "16M")
    with Cluster(binaries, "serve", folder, *flags, log=work / "serve.log") as cluster:
        near_ties = compare_with_reference(variant, cluster, expected)
        alone = Streams(cluster).run()
    assert len(set(alone)) == NUM_STREAMS, f"{variant}: the streams are too uniform to prove anything"
    with Cluster(binaries, "up", folder, "--attention-workers", "2", "--expert-workers", "2", "--replicas", "2",
                 "--weights-cache", work / "cache", *flags, run_dir=run_dir, log=work / "up.log") as cluster:
        compare_with_reference(variant, cluster, expected)
        assert Streams(cluster).run() == alone, f"{variant}: many processes answer otherwise than one"
        assert survive(cluster) == alone, f"{variant}: the answers while workers died differ"
    print(f"{variant}: {near_ties} of {GREEDY} greedy tokens at near-ties, {NUM_STREAMS} streams three times the same", flush=True)


def main():
    binaries, work = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[3])
    shutil.rmtree(work, ignore_errors=True)
    for variant in sys.argv[4:] or VARIANTS:
        try_family(binaries, variant, work / variant)


if __name__ == "__main__":
    main()
