"""Writes the held-out sets: load/prompts/<domain>.jsonl and load/heldout/<domain>.jsonl.

    python3 deploy/demo-model/prompts.py --work DIR [--out load]

Both are cut from documents that no training saw. A prompt is {"id", "domain", "prompt", "reference"}, the
reference being how the document goes on; a held-out record is {"id", "domain", "text"}, short enough to be
one prompt of the model.
"""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import corpus
import gather
import tokenizer as bpe

PROMPTS, RECORDS = 250, 100
RECORD_TOKENS = 240
PROMPT_TOKENS = (12, 24, 40, 64)  # taken in turn
REFERENCE_TOKENS = 48


def _passages(documents, tokenizer, tokens, count):
    """Yields (id, text) of about `tokens` tokens: whole lines, the documents in turn, as even a mixture as
    there is.
    """
    piles = []
    for document in documents:
        pile, lines, size = [], [], 0
        for line in document["text"].split("\n"):
            width = len(tokenizer.encode(line + "\n"))
            if lines and size + width > tokens:
                if size > tokens // 2:
                    pile.append((f"{document['id']}#{len(pile)}", "\n".join(lines).strip("\n")))
                lines, size = [], 0
            lines.append(line)
            size += width
        if pile:
            piles.append(pile)
    taken = 0
    for turn in range(max(map(len, piles), default=0)):
        for pile in piles:
            if turn < len(pile) and taken < count:
                taken += 1
                yield pile[turn]


def write(data, tokenizer, out, prompts=PROMPTS, records=RECORDS):
    """Writes both sets of every domain under the folder `out`."""
    for kind in ("prompts", "heldout"):
        (out / kind).mkdir(parents=True, exist_ok=True)
    for domain in gather.DOMAINS:
        documents = corpus.read(data, domain, "heldout")
        with open(out / "heldout" / f"{domain}.jsonl", "w", encoding="utf-8") as file:
            for name, text in _passages(documents, tokenizer, RECORD_TOKENS, records):
                ids = tokenizer.encode(text)[:RECORD_TOKENS]
                text = tokenizer.decode(ids).rstrip("\ufffd")
                file.write(
                    json.dumps({"id": name, "domain": domain, "text": text}, ensure_ascii=False) + "\n"
                )
        with open(out / "prompts" / f"{domain}.jsonl", "w", encoding="utf-8") as file:
            most = max(PROMPT_TOKENS) + REFERENCE_TOKENS
            for number, (name, text) in enumerate(_passages(documents, tokenizer, most, prompts)):
                wanted = PROMPT_TOKENS[number % len(PROMPT_TOKENS)]
                cut = len(tokenizer.decode(tokenizer.encode(text)[:wanted]).rstrip("\ufffd"))
                while cut < len(text) and not text[cut].isspace():
                    cut += 1
                prompt = text[:cut].rstrip()
                following = tokenizer.encode(text[len(prompt) :])[:REFERENCE_TOKENS]
                record = {
                    "id": name,
                    "domain": domain,
                    "prompt": prompt,
                    "reference": tokenizer.decode(following).rstrip("\ufffd"),
                }
                file.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2] / "load"
    )
    arguments = parser.parse_args()
    write(arguments.work / "data", bpe.Tokenizer.from_json(arguments.work / "tokenizer.json"), arguments.out)
