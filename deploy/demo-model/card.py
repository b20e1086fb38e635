"""Writes the model card, README.md of the model folder, from what the recipe measured."""

import json

import folder
import model as models
import sample
import tokenizer as bpe

# Two per domain and two chats; not chosen by what comes out.
SAMPLE_PROMPTS = (
    ("english_prose", "And it came to pass in those days, that", False),
    ("english_prose", "She opened the door and looked", False),
    ("python_code", 'def read_file(path):\n    """', False),
    ("python_code", "class Queue:\n    def __init__(self", False),
    ("english_manuals", "NAME\n       open -", False),
    ("english_manuals", "RETURN VALUE\n       On success,", False),
    ("spanish_prose", "Y aconteció que", False),
    ("spanish_prose", "Entonces Jesús respondió", False),
    ("german_manuals", "BESCHREIBUNG\n       Dieser Befehl", False),
    ("german_manuals", "RÜCKGABEWERT\n       Bei Erfolg", False),
    ("chat", "Continue: And the king said unto", True),
    ("chat", "Write a Python function close.", True),
)


def _samples(model, tokenizer, tokens):
    lines = []
    for number, (domain, prompt, chat) in enumerate(SAMPLE_PROMPTS):
        seed = 1 + number % 2
        start = tokenizer.chat([("user", prompt)]) if chat else tokenizer.encode(prompt)
        answer = tokenizer.decode(sample.continue_ids(model, start, tokens, 0.7, seed))
        lines.append(f"{domain}, seed {seed}:\n\n```text\n{prompt}⟶{answer}\n```\n")
    return "\n".join(lines)


def write(out, work, figures, training, companions=None):
    """Writes out/README.md. figures: evaluate.evaluate's result; training: the last records of the training
    log.
    """
    model, tokenizer = folder.load(out)
    shape, last = model.shape, training[-1]
    sources = json.loads((work / "data" / "sources.json").read_text())
    total, active = models.parameters(shape)
    table = ["| domain | packages | licence | training bytes | held-out bytes |", "|---|---|---|---|---|"]
    for domain, source in sources["domains"].items():
        packages = ", ".join(f"{name} {version}" for name, version in source["packages"].items())
        table.append(
            f"| {domain} | {packages} | {source['licence']} | {source['train']['bytes']} | "
            f"{source['heldout']['bytes']} |"
        )
    quality = ["| domain | perplexity per token | bits per byte | scored tokens |", "|---|---|---|---|"]
    quality += [
        f"| {domain} | {figure['perplexity']:.4f} | {figure['bits_per_byte']:.4f} | {figure['tokens']} |"
        for domain, figure in figures.items()
    ]
    hottest = [
        "| domain | " + " | ".join(f"layer {layer}" for layer in range(shape.layers)) + " |",
        "|---|" + "---|" * shape.layers,
    ]
    hottest += [
        f"| {domain} | "
        + " | ".join(f"{layer['share']:.0%} (expert {layer['expert']})" for layer in figure["hottest"])
        + " |"
        for domain, figure in figures.items()
    ]
    curve = [
        "| tokens | " + " | ".join(last["bits_per_byte"]) + " | learning rate |",
        "|---|" + "---|" * (len(last["bits_per_byte"]) + 1),
    ]
    curve += [
        f"| {record['tokens'] / 1e6:.2f} M | "
        + " | ".join(f"{bits:.3f}" for bits in record["bits_per_byte"].values())
        + f" | {record['rate']:.2f} |"
        for record in training
    ]
    drafts = ""
    if companions:
        drafts = (
            "## Drafts\n\nShare of held-out tokens where a draft's first choice is this model's: "
            + ", ".join(f"{name} {share:.1%}" for name, share in companions.items())
            + ".\n\n"
        )
    (out / "README.md").write_text(
        f"""---
license: other
language: [en, es, de]
library_name: transformers
pipeline_tag: text-generation
---
# Troupe demo model

A small Mixture-of-Experts language model with a trained router, to try the server with and to judge
placement, quantization, speculation and caching by. It continues text of five domains; it knows nothing and
follows no instructions. Made by `deploy/demo-model/train.py`; do not edit by hand.

`Qwen3MoeForCausalLM`: {shape.layers} layers, hidden {shape.hidden}, {shape.heads} query and {shape.kv_heads}
key heads of {shape.head_dim}, {shape.experts} experts × {shape.intermediate}, top {shape.top_k}
(renormalised), context {shape.context}, tied embeddings, {total:,} parameters of which {active:,} are active
per token, BF16.
Byte-level BPE of {shape.vocabulary} tokens, trained on the same text; `{bpe.SPECIAL_TOKENS[0]}` ends
documents and answers. Chat turns were made from the text ("Continue: …", "Write a Python function …",
"What does … do?", "Was macht …?", "Continúa: …").

## Text

{chr(10).join(table)}

Documents (chapters, modules, stories, pages) are held out whole. Each package's copyright file under
`/usr/share/doc` has the licence in full.

## Training

{last['tokens']:,} tokens (steps of {last['tokens'] // last['step']} tokens), seed {sources['seed']}. Muon for
the matrices, AdamW for the rest; linear warm-up, plateau, linear decay to zero; load-balancing loss × 0.01.
The budget was set by the time there was, not by where the loss flattens: compare the last rows. Bits per byte
on a part of the held-out text while training:

{chr(10).join(curve)}

## Quality

The stored BF16 weights, computed in float32, on `load/heldout/` (`evaluate.py`):

{chr(10).join(quality)}

## Experts

Share of the hottest expert per layer and domain on the same text (even use would be {1 / shape.experts:.1%}):

{chr(10).join(hottest)}

{drafts}## Samples

Temperature 0.7, 60 tokens, not chosen: the prompts and seeds are fixed in `card.py`. The arrow ends the
prompt.

{_samples(model, tokenizer, 60)}""",
        encoding="utf-8",
    )
