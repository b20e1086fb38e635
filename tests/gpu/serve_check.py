#!/usr/bin/env python3
"""Serves one model folder on two devices, one after the other, and compares what clients get.

usage: tests/gpu/serve_check.py PROGRAM MODEL_DIR DEVICE REFERENCE_DEVICE [PROMPTS TOKENS]

A DEVICE may be followed by further flags: "cuda --gpu-steps kernels".

PROMPTS (6) and TOKENS (32) say how many prompts there are, and how long each answer is.

Starts `PROGRAM serve MODEL_DIR --dtype bfloat16 --device ...`, asks for greedy completions of some prompts, alone and all at
once, and ends it with SIGTERM. Fails where a server does not come up or go down, where answers together differ from those
alone (a device's own bits), and where the devices' greedy tokens differ. Prints a line of figures for each device.
"""
import concurrent.futures
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

PROMPTS = [
    "And the LORD said unto",
    "It was the best of times,",
    "Whether I shall turn out to be the hero of my own life,",
    "Call me Ishmael. Some years ago",
    "In the beginning",
    "The whale",
]
START_SECONDS = 60
ANSWER_SECONDS = 120


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, program, model, device):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.process = subprocess.Popen(
            [program, "serve", model, "--dtype", "bfloat16", "--device", *device.split(), "--lame-duck", "0", "--port", self.url.rsplit(":", 1)[1]])

    def __enter__(self):
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(self.url + "/ready", timeout=5):
                    return self
            except (urllib.error.URLError, OSError):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.process.kill()
                    sys.exit("the server did not come up")
                time.sleep(0.05)  # another process: there is no event to wait for

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout=START_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            sys.exit("the server did not end")
        if status != 0:
            sys.exit(f"the server ended with status {status}")

    def tokens(self, prompt, count):
        body = {"prompt": prompt, "max_tokens": count, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as response:
            return json.load(response)["choices"][0]["token_ids"]


def run(program, model, device, prompts, answer_tokens):
    """-> the greedy tokens behind each prompt, and whether they are the same when all are asked at once"""
    with Server(program, model, device) as server:
        start = time.monotonic()
        alone = [server.tokens(prompt, answer_tokens) for prompt in prompts]
        middle = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            together = list(pool.map(lambda prompt: server.tokens(prompt, answer_tokens), prompts))
        end = time.monotonic()
    count = sum(map(len, alone))
    print(f"{device}: {count} tokens one request after another in {middle - start:.2f} s, at once in {end - middle:.2f} s", flush=True)
    if count != len(prompts) * answer_tokens:
        print(f"WRONG: {device} gave {count} tokens instead of {len(prompts) * answer_tokens}")
        return alone, False
    if alone != together:
        print(f"WRONG: on {device} answers to requests at once differ from answers alone")
    return alone, alone == together


def main():
    if len(sys.argv) not in (5, 7):
        sys.exit(__doc__)
    program, model, device, reference = sys.argv[1:5]
    num_prompts, answer_tokens = map(int, sys.argv[5:] or (len(PROMPTS), 32))
    prompts = PROMPTS[:num_prompts]
    want, reference_right = run(program, model, reference, prompts, answer_tokens)
    got, right = run(program, model, device, prompts, answer_tokens)
    right = right and reference_right
    for prompt, a, b in zip(prompts, got, want):
        if a != b:
            right = False
            at = next((i for i, pair in enumerate(zip(a, b)) if pair[0] != pair[1]), min(len(a), len(b)))
            print(f"WRONG: behind {prompt!r} {device} and {reference} differ from token {at} on")
    print(f"{sum(a == b for a, b in zip(got, want))} of {len(prompts)} greedy answers on {device} equal {reference}'s")
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
