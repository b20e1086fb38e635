"""Mixed requests from a seed, and the parts that must be equal in two answers to the same
request."""
import json
import random

WORDS = ("the actor sends a message and the expert answers with rows of numbers while a token waits for its turn in "
         "every layer of the model; nothing is lost, ünïcode 漢字 included").split()


def requests(seed, count, vocab_size, max_tokens=24, beginnings=0):
    """@param beginnings  most of the shorter prompts of token ids begin with one of so many sequences of 40 to 160 tokens
    @returns [(path, body)]: prompts as text and as token ids, greedy and sampled, with every sampling parameter"""
    rng = random.Random(seed)
    begins = random.Random(seed)
    common = [[begins.randrange(3, vocab_size) for _ in range(begins.randint(40, 160))] for _ in range(beginnings)]
    made = []
    for number in range(count):
        body = {"max_tokens": rng.randint(1, max_tokens), "seed": rng.randrange(2**31), "ignore_eos": rng.random() < 0.5,
                "temperature": rng.choice([0, 0.3, 0.7, 1.0, 1.5])}
        if rng.random() < 0.3:
            body["top_p"] = rng.choice([0.5, 0.9])
        if rng.random() < 0.3:
            body["top_k"] = rng.choice([1, 5, 40])
        if rng.random() < 0.2:
            body["min_p"] = 0.05
        if rng.random() < 0.2:
            body["presence_penalty"] = 0.5
        if rng.random() < 0.2:
            body["frequency_penalty"] = 0.25
        if rng.random() < 0.2:
            body["repetition_penalty"] = 1.2
        if rng.random() < 0.2:
            body["logit_bias"] = {str(rng.randrange(vocab_size)): 3}
        if rng.random() < 0.2:
            body["n"] = rng.randint(2, 3)
        if rng.random() < 0.2:
            body["stop"] = [rng.choice(["e", "th", "\n"])]
        prompt = [rng.randrange(3, vocab_size) for _ in range(rng.choice([1, 2, 7, 33, 90, 200]))]
        if number % 3 == 0:
            prompt = " ".join(rng.choice(WORDS) for _ in range(rng.choice([1, 5, 30])))
        elif common and len(prompt) < 50 and begins.random() < 0.8:
            prompt = begins.choice(common) + prompt
        body["prompt"] = prompt
        body["logprobs"] = rng.choice([0, 1, 5])
        body["echo"] = rng.random() < 0.15
        body["return_token_ids"] = True
        made.append(("/v1/completions", body))
    return made


def essence(answer):
    """What may not differ: everything but the name and the time of the answer, and how much of its prompt was known, as
    canonical text."""
    usage = {key: value for key, value in answer["usage"].items() if key != "prompt_tokens_details"}
    same = {key: value for key, value in answer.items() if key not in ("id", "created")}
    return json.dumps({**same, "usage": usage}, sort_keys=True)
