"""Continues prompts with a model folder, to read what it says.

    python3 deploy/demo-model/sample.py MODEL_DIR "In the beginning" [--seed N] [--temperature T] [--chat]
"""

import argparse
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import folder
import tokenizer as bpe


@torch.no_grad()
def continue_ids(model, ids, count, temperature, seed):
    """Returns up to `count` sampled ids after `ids`, without the closing <|endoftext|>."""
    generator, ids, start = torch.Generator().manual_seed(seed), list(ids), len(ids)
    for _ in range(count):
        window = torch.tensor(ids[-model.shape.context :]).unsqueeze(0)
        logits = model(window)[0][0, -1]
        if temperature > 0:
            token = int(torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator))
        else:
            token = int(logits.argmax())
        if token == bpe.END_OF_TEXT:
            break
        ids.append(token)
    return ids[start:]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("prompt")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--chat", action="store_true", help="the prompt is a user's turn")
    arguments = parser.parse_args()
    trained, tokenizer = folder.load(arguments.model)
    prompt = arguments.prompt
    start = tokenizer.chat([("user", prompt)]) if arguments.chat else tokenizer.encode(prompt)
    print(
        tokenizer.decode(
            continue_ids(trained, start, arguments.tokens, arguments.temperature, arguments.seed)
        )
    )
