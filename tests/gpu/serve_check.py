#!/usr/bin/env python3
"""Serves one model folder on two devices, one after the other, and compares the clients' results.

usage: tests/gpu/serve_check.py PROGRAM MODEL_DIR DEVICE REFERENCE_DEVICE [PROMPTS TOKENS]

A DEVICE may be followed by further flags: "cuda --gpu-steps kernels".

PROMPTS (6) and TOKENS (32) say how many prompts there are, and how long each answer is.

Starts `PROGRAM serve MODEL_DIR --dtype bfloat16 --device ...`, asks for greedy completions of some prompts, alone and all at
once, and ends it with SIGTERM. Fails where a server does not come up or go down, where answers together differ from those
alone (a device's own bits), and where greedy tokens differ: of one kind of device (two `cuda`) always, of two kinds unless the
reference holds the first other token for nearly as likely as its own; then that is printed. What follows it has another
beginning, and is not compared. Prints a line of figures for each device.

The program is served without the model's chat template, whose renderer needs Python's own files. TROUPE_LIBRARIES: folders of
its libraries, which no other process gets.
"""
import concurrent.futures
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
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
# Largest difference of two tokens' log probabilities: another order of sums changes each by some hundredths.
CLOSE = 0.05
ALTERNATIVES = 5


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, program, model, device):
        self.url = f"http://127.0.0.1:{free_port()}"
        environment = dict(os.environ)
        if "TROUPE_LIBRARIES" in environment:
            environment["LD_LIBRARY_PATH"] = environment["TROUPE_LIBRARIES"]
        self.process = subprocess.Popen(
            [program, "serve", model, "--dtype", "bfloat16", "--device", *device.split(), "--lame-duck", "0", "--port", self.url.rsplit(":", 1)[1]],
            env=environment)

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
                time.sleep(0.05)  # polls another process

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout=START_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            sys.exit("the server did not end")
        if status != 0:
            sys.exit(f"the server ended with status {status}")

    def answer(self, prompt, count, **more):
        body = {"prompt": prompt, "max_tokens": count, "temperature": 0, "ignore_eos": True, "return_token_ids": True, **more}
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as response:
            return json.load(response)["choices"][0]

    def tokens(self, prompt, count):
        return self.answer(prompt, count)["token_ids"]

    def likeliest(self, prompt, count):
        """-> the greedy tokens, and of each place the likeliest tokens and the logarithms of their probabilities"""
        choice = self.answer(prompt, count, logprobs=ALTERNATIVES, return_tokens_as_token_ids=True)
        places = choice["logprobs"]["top_logprobs"]
        return choice["token_ids"], [{int(name.split(":")[1]): value for name, value in place.items()} for place in places]


def without_chat_template(model, folder):
    """Makes a folder with the model's files but its chat template."""
    for path in pathlib.Path(model).resolve().iterdir():
        if path.name == "tokenizer_config.json":
            config = json.loads(path.read_text())
            config.pop("chat_template", None)
            (folder / path.name).write_text(json.dumps(config))
        elif "chat_template" not in path.name:
            (folder / path.name).symlink_to(path)


def run(program, model, device, prompts, answer_tokens, likeliest=None):
    """-> the greedy tokens behind each prompt, and whether they are the same when all are asked at once. A list `likeliest`
    gets what Server.likeliest says of each."""
    with Server(program, model, device) as server:
        start = time.monotonic()
        alone = [server.tokens(prompt, answer_tokens) for prompt in prompts]
        middle = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            together = list(pool.map(lambda prompt: server.tokens(prompt, answer_tokens), prompts))
        end = time.monotonic()
        again = [server.likeliest(prompt, answer_tokens) for prompt in prompts] if likeliest is not None else []
    count = sum(map(len, alone))
    print(f"{device}: {count} tokens one request after another in {middle - start:.2f} s, at once in {end - middle:.2f} s", flush=True)
    if count != len(prompts) * answer_tokens:
        print(f"WRONG: {device} gave {count} tokens instead of {len(prompts) * answer_tokens}")
        return alone, False
    if alone != together:
        print(f"WRONG: on {device} answers to requests at once differ from answers alone")
        return alone, False
    if likeliest is not None:
        likeliest.extend(places for _, places in again)
        if [tokens for tokens, _ in again] != alone:
            print(f"WRONG: on {device} answers with logprobs differ from those without")
            return alone, False
    return alone, True


def is_close(places, at, token):
    """-> whether the reference could have chosen `token` there, and the two distances that tell"""
    values = sorted(places[at].values(), reverse=True)
    margin = values[0] - values[1]
    behind = values[0] - places[at].get(token, float("-inf"))
    return behind < CLOSE, f"its best two are {margin:.4f} apart, the other token {behind:.4f}"


def main():
    if len(sys.argv) not in (5, 7):
        sys.exit(__doc__)
    program, model, device, reference = sys.argv[1:5]
    num_prompts, answer_tokens = map(int, sys.argv[5:] or (len(PROMPTS), 32))
    prompts = PROMPTS[:num_prompts]
    one_kind = device.split()[0] == reference.split()[0]
    likeliest = None if one_kind else []
    with tempfile.TemporaryDirectory() as folder:
        without_chat_template(model, pathlib.Path(folder))
        want, reference_right = run(program, folder, reference, prompts, answer_tokens, likeliest)
        got, right = run(program, folder, device, prompts, answer_tokens)
    right = right and reference_right
    for i, (prompt, a, b) in enumerate(zip(prompts, got, want)):
        if a == b:
            continue
        at = next((place for place, pair in enumerate(zip(a, b)) if pair[0] != pair[1]), min(len(a), len(b)))
        close, why = False, "which must not be on one kind of device"
        if likeliest and at < min(len(a), len(b)):
            close, why = is_close(likeliest[i], at, a[at])
        right = right and close
        print(f"{'close' if close else 'WRONG'}: behind {prompt!r} {device} and {reference} differ from token {at} on: {why}")
    print(f"{sum(a == b for a, b in zip(got, want))} of {len(prompts)} greedy answers on {device} equal {reference}'s")
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
