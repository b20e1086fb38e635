"""Writes the model card, README.md of the model folder, from what the recipe measured."""

import json

import folder
import model as models
import sample
import tokenizer as bpe

# Two per domain and two chats; not selected by their results.
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


def _curve(stage):
    """Returns the table of one stage's held-out figures."""
    names = list(stage["records"][-1]["bits_per_byte"])
    lines = ["| tokens | " + " | ".join(names) + " | learning rate |", "|---|" + "---|" * (len(names) + 1)]
    lines += [
        f"| {record['tokens'] / 1e6:.2f} M | "
        + " | ".join(f"{record['bits_per_byte'][name]:.3f}" for name in names)
        + f" | {record['rate']:.2f} |"
        for record in stage["records"]
    ]
    return "\n".join(lines)


def _rates(stage):
    """Returns the peak rates of a stage; those of before they were recorded were the defaults."""
    return "peak rates %g and %g, " % tuple(stage["rates"]) if "rates" in stage else ""


def _change(before, after):
    """Returns how much the sum of all domains' bits per byte differs between two records, as a share."""
    return sum(after["bits_per_byte"].values()) / sum(before["bits_per_byte"].values()) - 1


def _plateau(records):
    """Returns a sentence on the last third of the time at the peak rate; nothing when it has too few records."""
    peak = [record for record in records if record["rate"] == 1.0]
    early = [record for record in peak if record["tokens"] <= peak[-1]["tokens"] * 2 / 3]
    if not early:
        return ""
    return (
        f"Of the time at the peak rate, the last {peak[-1]['tokens'] - early[-1]['tokens']:,} tokens changed "
        f"the sum of the bits per byte by {_change(early[-1], peak[-1]):+.1%}.\n"
    )


def _training(stages):
    """Returns the text and tables of all stages, and what the ends of the last one's phases changed."""
    parts = []
    for number, stage in enumerate(stages):
        begun = f"Stage {number + 1}: " if len(stages) > 1 else ""
        started = "from the weights of the stage before, " if number else ""
        parts.append(
            f"{begun}{stage['records'][-1]['tokens']:,} tokens, {started}in steps of {stage['step_tokens']} "
            f"tokens, {_rates(stage)}seed {stage['seed']}.{stage.get('note', '')}\n\n{_curve(stage)}\n"
        )
    records = stages[-1]["records"]
    last, early = records[-1], [r for r in records if r["tokens"] <= 0.9 * records[-1]["tokens"]]
    if early:
        before, after = early[-1]["bits_per_byte"], last["bits_per_byte"]
        changes = ", ".join(f"{name} {after[name] - before[name]:+.3f}" for name in after)
        change = _change(early[-1], last)
        parts.append(_plateau(records))
        parts.append(
            f"The last {last['tokens'] - early[-1]['tokens']:,} of these tokens "
            f"({1 - early[-1]['tokens'] / last['tokens']:.0%}) changed the bits per byte by: {changes}; "
            f"their sum by {change:+.1%}.\n"
        )
    parts.append(stages[-1].get("after", ""))
    return "\n".join(parts)


def _drafts(drafts):
    """Returns the section on the drafts. drafts: what companions.train returned, and perhaps a "note"."""
    if not drafts:
        return ""
    met = drafts["agreement"]
    return f"""## Drafts

Two dense models with this tokenizer, to propose tokens in speculative decoding: `../draft` and
`../draft-boosted`, `Qwen3ForCausalLM` of {drafts['parameters']:,} parameters ({drafts['share']:.1%} of this
model's active ones; most of them the embedding), {drafts['bytes']:,} bytes each. `draft` learned the text
({drafts['tokens']:,} tokens); `draft-boosted` goes on from it ({drafts['boost_tokens']:,} tokens) and learned
what this model would say, with nearly all of the weight where `draft` says something else. Share of held-out
tokens where the first choice of a draft is this model's: `draft` {met['draft']:.1%}, `draft-boosted`
{met['draft-boosted']:.1%}, one of the two {met['either']:.1%}.{drafts.get('note', '')}
Troupe does not serve dense models yet.

"""


def write(out, work, figures, stages, drafts=None):
    """Writes out/README.md. figures: evaluate.evaluate's result; stages: train.stages'; drafts:
    companions.train's.
    """
    model, tokenizer = folder.load(out)
    shape = model.shape
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
    picture = (
        "\n![Share of each expert by layer and domain](activations.png)\n\n"
        "`load/activation_figure.py --rows evaluation.json` draws it from the same counts.\n"
        if (out / "activations.png").exists()
        else ""
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

Muon for the matrices, AdamW for the rest; linear warm-up, plateau, decay to zero (the tables have the
rate as a share of its peak); load-balancing loss × 0.01. The tokens that only open a chat turn are read but
not learned to be said (`spoken` in `fit.py`): a server adds them. Bits per byte on a part of the held-out
text while training:

{_training(stages)}
## Quality

The stored BF16 weights, computed in float32, on `load/heldout/` (`evaluate.py`):

{chr(10).join(quality)}

## Experts

Share of the hottest expert per layer and domain on the same text (even use would be {1 / shape.experts:.1%}):

{chr(10).join(hottest)}
{picture}
{_drafts(drafts)}## Samples

Temperature 0.7, 60 tokens, not chosen: the prompts and seeds are fixed in `card.py`. The arrow ends the
prompt.

{_samples(model, tokenizer, 60)}""",
        encoding="utf-8",
    )
