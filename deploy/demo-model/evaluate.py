"""Measures a model folder on the held-out sets: perplexity, bits per byte, and which experts each domain
uses.

    python3 deploy/demo-model/evaluate.py MODEL_DIR [--heldout load/heldout] [--out FILE]

A record's text is one prompt. Its first token has nothing before it and is not scored; perplexity is exp(mean
negative log-probability of the others), and bits per byte divides by the bytes of the scored tokens. A server
asked for the same text with `echo` and `logprobs` returns the same numbers (null for the first token).
"""

import argparse
import json
import math
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import folder

HELDOUT = pathlib.Path(__file__).resolve().parents[2] / "load" / "heldout"


@torch.no_grad()
def measure(model, tokenizer, records):
    """Returns the figures of one domain; "rows" counts the token rows of each (layer, expert)."""
    nats, scored, size, rows = 0.0, 0, 0, None
    for record in records:
        ids = torch.tensor(tokenizer.encode(record["text"])[: model.shape.context])
        logits, routes = model(ids.unsqueeze(0))
        log_probabilities = logits[0, :-1].double().log_softmax(-1)
        nats -= log_probabilities.gather(1, ids[1:].unsqueeze(1)).sum().item()
        scored += len(ids) - 1
        size += sum(len(tokenizer.token_bytes[token]) for token in ids[1:].tolist())
        counts = [torch.bincount(chosen.reshape(-1), minlength=model.shape.experts) for chosen, _ in routes]
        if counts:
            rows = torch.stack(counts) if rows is None else rows + torch.stack(counts)
    result = {
        "records": len(records),
        "tokens": scored,
        "bytes": size,
        "perplexity": math.exp(nats / scored),
        "nats_per_token": nats / scored,
        "bits_per_byte": nats / math.log(2) / size,
    }
    if rows is not None:
        result["rows"] = rows.tolist()
        result["hottest"] = [
            {"expert": int(layer.argmax()), "share": round(float(layer.max() / layer.sum()), 4)}
            for layer in rows
        ]
    return result


def evaluate(model, tokenizer, heldout):
    """Returns {domain: figures} for every <domain>.jsonl in the folder `heldout`."""
    results = {}
    for path in sorted(heldout.glob("*.jsonl")):
        with open(path, encoding="utf-8") as file:
            results[path.stem] = measure(model, tokenizer, [json.loads(line) for line in file])
    if not results:
        raise SystemExit(f"evaluate: no <domain>.jsonl in {heldout}")
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--heldout", type=pathlib.Path, default=HELDOUT)
    parser.add_argument("--out", type=pathlib.Path, help="write the figures as JSON")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    figures = evaluate(*folder.load(arguments.model), arguments.heldout)
    for domain, figure in figures.items():
        print(
            f"{domain}: perplexity {figure['perplexity']:.4f}, bits per byte {figure['bits_per_byte']:.4f} "
            f"({figure['tokens']} tokens)"
        )
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=1) + "\n")
