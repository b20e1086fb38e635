#!/usr/bin/python3
"""Reference forward pass of the supported architectures in float64, written for reading, from the definitions that
transformers gives of them; independent of the C++ code and of its config parser. families/ has a file for each family.

    reference.py MODEL_DIR --prompt 1,2,3 [--greedy 16] [--rounded-runs 8] > result.json

Prints {"logprobs": [T][V] log-softmax behind every prompt token, "greedy": the most probable continuation, "margins": by
how much each greedy token beat the second, "rounding_errors": how far bfloat16 may move such a margin}.

The last is measured, not guessed: the same model runs several times with everything rounded to bfloat16 that a bfloat16
server must round (weights, what products take, the KV cache, what experts return), up or down at random, so that
near-ties in routers fall either way; the largest shift of the winner against any other token counts.
"""

import argparse
import json

import numpy as np

from arithmetic import log_softmax, topk
from families import load
from rounding import StochasticBfloat16


def run(folder, prompt, greedy, rounded_runs):
    model = load(folder)
    tokens = list(prompt)
    logprobs = log_softmax(model.logits(tokens))
    for _ in range(greedy):
        tokens.append(int(np.argmax(logprobs[-1])))
        logprobs = log_softmax(model.logits(tokens))
    steps = np.arange(len(prompt) - 1, len(tokens) - 1)  # positions of the greedy tokens
    top = topk(logprobs[steps], 2)
    ahead = np.take_along_axis(logprobs[steps], top[:, :1], axis=-1) - logprobs[steps]  # of every other token
    errors = np.zeros(len(steps))
    for seed in range(rounded_runs):
        rounded = load(folder, StochasticBfloat16(seed)).logits(tokens)[steps]
        shift = np.take_along_axis(rounded, top[:, :1], axis=-1) - rounded - ahead
        errors = np.maximum(errors, np.abs(shift).max(axis=-1))
    return {
        "logprobs": logprobs[: len(prompt)].tolist(),
        "greedy": tokens[len(prompt) :],
        "margins": np.take_along_axis(ahead, top[:, 1:], axis=-1)[:, 0].tolist(),
        "rounding_errors": errors.tolist(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--prompt", required=True, help="token ids, separated by commas")
    parser.add_argument("--greedy", type=int, default=0, help="tokens to continue with")
    parser.add_argument("--rounded-runs", type=int, default=0, help="runs in bfloat16 that measure rounding errors")
    args = parser.parse_args()
    prompt = [int(token) for token in args.prompt.split(",")]
    print(json.dumps(run(args.model, prompt, args.greedy, args.rounded_runs)))


if __name__ == "__main__":
    main()
