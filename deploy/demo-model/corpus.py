"""Token streams of the gathered text: reading, tokenizing, packing, chat examples, batches by number.

A batch is a pure function of (seed, step): which domains, which windows, in which order. A run that resumes
at a step sees the batches it would have seen.
"""

import json
import re

import numpy

import tokenizer as bpe

# One cycle of windows: text of every domain in every batch, and chat turns made from all of them.
CYCLE = (
    "english_prose",
    "python_code",
    "spanish_prose",
    "english_manuals",
    "german_manuals",
    "english_prose",
    "python_code",
    "chat",
    "spanish_prose",
    "english_manuals",
    "german_manuals",
    "english_prose",
    "python_code",
    "spanish_prose",
    "english_manuals",
    "german_manuals",
)

_CONTINUE = {
    "english_prose": "Continue: ",
    "python_code": "Continue this code: ",
    "english_manuals": "Continue: ",
    "spanish_prose": "Continúa: ",
    "german_manuals": "Fortsetzen: ",
}


def read(data, domain, split):
    """Returns the documents of one domain and split, as gather.py wrote them."""
    with open(data / domain / f"{split}.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _continuation(domain, text, generator):
    """Makes (request, answer) from a place in a text: the start of some lines, and how they go on."""
    lines = text.split("\n")
    first = int(generator.integers(0, max(1, len(lines) - 4)))
    passage = "\n".join(lines[first : first + int(generator.integers(2, 9))]).strip()
    words = passage.split(" ")
    if len(words) < 12:
        return None
    cut = int(generator.integers(4, min(len(words) - 6, 24)))
    asked = _CONTINUE[domain] if generator.random() < 0.6 else ""
    return asked + " ".join(words[:cut]), " " + " ".join(words[cut:])


def _question(domain, text, generator):
    """Makes (request, answer) of a kind that only this domain has, or None."""
    if domain == "python_code":
        functions = re.findall(r"^( *)(def (\w+)\(.*(?:\n(?:\1 .*)?)*)", text, re.M)
        if not functions:
            return None
        indent, body, name = functions[int(generator.integers(len(functions)))]
        body = body.strip().replace("\n" + indent, "\n") if indent else body.strip()
        return f"Write a Python function {name}.", body
    if domain == "english_manuals":
        found = re.match(r"NAME\n +(\S+?),?\s.*?\n\n.*?^DESCRIPTION\n(.*?)\n\n", text, re.S | re.M)
        asked = "What does {} do?"
    elif domain == "german_manuals":
        found = re.match(r"BEZEICHNUNG\n +(\S+?),?\s.*?\n\n.*?^BESCHREIBUNG\n(.*?)\n\n", text, re.S | re.M)
        asked = "Was macht {}?"
    else:
        return None
    return (asked.format(found.group(1)), re.sub(r"\s+", " ", found.group(2)).strip()) if found else None


def chat_documents(documents, seed, per_document=4):
    """Yields (request, answer) pairs made from training documents, for the chat stream."""
    for number, document in enumerate(documents):
        generator = numpy.random.default_rng([seed, 7, number])
        for turn in range(per_document):
            make = _question if turn == 0 else _continuation
            pair = make(document["domain"], document["text"], generator)
            if pair and len(pair[1]) < 1500:
                yield pair


def tokenize(data, tokenizer, seed, domains):
    """Returns {stream: uint16 ids}: the training text of each domain, and "chat". Documents end with
    <|endoftext|>.
    """
    streams, everything = {}, []
    for domain in domains:
        documents, ids = read(data, domain, "train"), []
        for document in documents:
            ids.extend(tokenizer.encode(document["text"]))
            ids.append(bpe.END_OF_TEXT)
        everything.extend(documents)
        streams[domain] = numpy.array(ids, numpy.uint16)
    pairs = list(chat_documents(everything, seed))
    numpy.random.default_rng([seed, 8]).shuffle(pairs)
    ids = []
    for request, answer in pairs:
        ids.extend(tokenizer.chat([("user", request), ("assistant", answer)], generate=False))
    streams["chat"] = numpy.array(ids, numpy.uint16)
    return streams


class Batches:
    """Windows of `context` + 1 tokens, `rows` at a time, by step number.

    From step `long_from` on, windows are twice as long and half as many: most is learned faster from short
    ones, and the last part of the training teaches the later positions.
    """

    def __init__(self, streams, context, rows, seed, long_from=None):
        self.streams, self.context, self.rows, self.seed, self.long_from = (
            streams,
            context,
            rows,
            seed,
            long_from,
        )
        self._orders = {}

    def _window(self, stream, number, context):
        """Returns window `number` of a stream: each pass shifts the windows and visits them in another order.
        """
        ids = self.streams[stream]
        windows = max(1, (len(ids) - 1) // context - 1)
        turn, index = divmod(number, windows)
        if (stream, turn, context) not in self._orders:
            generator = numpy.random.default_rng([self.seed, len(stream), sum(stream.encode()), turn])
            self._orders[stream, turn, context] = generator.permutation(windows), int(
                generator.integers(context)
            )
        order, shift = self._orders[stream, turn, context]
        start = int(order[index]) * context + shift
        window = ids[start : start + context + 1].astype(numpy.int64)
        return numpy.pad(window, (0, context + 1 - len(window)), constant_values=bpe.END_OF_TEXT)

    def __call__(self, step):
        """Returns int64 ids [rows, context + 1] of one step."""
        rows, context = self.rows, self.context
        if self.long_from is not None and step >= self.long_from:
            rows, context = rows // 2, 2 * context
        batch = []
        for row in range(step * rows, (step + 1) * rows):
            turn, slot = divmod(row, len(CYCLE))
            stream = CYCLE[slot]
            batch.append(
                self._window(stream, turn * CYCLE.count(stream) + CYCLE[:slot].count(stream), context)
            )
        return numpy.stack(batch)


def heldout_windows(data, tokenizer, domain, context, count):
    """Returns int64 ids [≤ count, context + 1] cut from the start of each held-out document in turn."""
    windows = []
    for document in read(data, domain, "heldout"):
        ids = tokenizer.encode(document["text"])
        windows.extend(
            ids[at : at + context + 1] for at in range(0, min(len(ids) - context - 1, 6 * context), context)
        )
    return numpy.array(windows[:count], numpy.int64)
