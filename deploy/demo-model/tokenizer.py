"""Byte-level BPE: training, encoding, decoding, and the Hugging Face tokenizer.json.

The pre-tokenizer is the one of the Qwen models (a regular expression, then bytes mapped to printable
characters), so every program that reads their tokenizer.json reads this one. Special tokens come first: 0 is
<|endoftext|>, which ends documents and answers and pads; 1 to 3 open a chat turn.
"""

import collections
import heapq
import json
import re
import sys
import unicodedata

SPECIAL_TOKENS = ("<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>")
END_OF_TEXT = 0

PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)

# Turns are closed by the next turn's opening token, an answer by <|endoftext|>.
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ '<|endoftext|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def _class_of(initial):
    """Returns the inside of a character class with every code point whose category starts with `initial`."""
    ranges, start = [], None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and unicodedata.category(chr(code)).startswith(initial)
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            ranges.append(f"\\U{start:08x}-\\U{code - 1:08x}")
            start = None
    return "".join(ranges)


def _compile_pattern():
    """Translates PATTERN for Python's `re`, which has no \\p{L}; str's \\s also matches U+001C to U+001F."""
    letters, numbers = _class_of("L"), _class_of("N")
    spaces = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"
    return re.compile(
        rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n{letters}{numbers}]?[{letters}]+|[{numbers}]|"
        rf" ?[^{spaces}{letters}{numbers}]+[\r\n]*|[{spaces}]*[\r\n]+|[{spaces}]+(?![^{spaces}])|[{spaces}]+"
    )


def _byte_characters():
    """Returns the 256 printable characters that stand for the bytes in vocabularies (the GPT-2 table)."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, spare = [""] * 256, 0
    for byte in range(256):
        if byte in shown:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(256 + spare)
            spare += 1
    return table


BYTE_CHARACTERS = _byte_characters()


class Tokenizer:
    """A vocabulary and its merges. Token ids: the special tokens, the 256 bytes, then one per merge."""

    def __init__(self, merges):
        """`merges`: pairs of token ids, in the order they were learned."""
        first = len(SPECIAL_TOKENS)
        self.merges = [tuple(pair) for pair in merges]
        # Hugging Face numbers the bytes in the order of their characters.
        self.byte_ids = [0] * 256
        self.token_bytes = [name.encode() for name in SPECIAL_TOKENS]
        for byte in sorted(range(256), key=lambda byte: BYTE_CHARACTERS[byte]):
            self.byte_ids[byte] = len(self.token_bytes)
            self.token_bytes.append(bytes([byte]))
        self.ranks = {}
        for rank, (left, right) in enumerate(self.merges):
            self.ranks[(left, right)] = first + 256 + rank
            self.token_bytes.append(self.token_bytes[left] + self.token_bytes[right])
        self._split = _compile_pattern()
        self._cache = {}

    def __len__(self):
        return len(self.token_bytes)

    def _encode_word(self, word):
        ids = [self.byte_ids[byte] for byte in word.encode("utf-8")]
        while len(ids) > 1:
            merged, at = min(
                (self.ranks.get(pair, sys.maxsize), at) for at, pair in enumerate(zip(ids, ids[1:]))
            )
            if merged == sys.maxsize:
                break
            pair, replaced, position = (ids[at], ids[at + 1]), [], 0
            while position < len(ids):
                if position + 1 < len(ids) and (ids[position], ids[position + 1]) == pair:
                    replaced.append(merged)
                    position += 2
                else:
                    replaced.append(ids[position])
                    position += 1
            ids = replaced
        return ids

    def encode(self, text):
        """Returns the token ids of plain text; the names of special tokens in it are text like any other."""
        ids = []
        for word in self._split.findall(text):
            known = self._cache.get(word)
            if known is None:
                known = self._cache[word] = self._encode_word(word)
            ids.extend(known)
        return ids

    def decode(self, ids):
        """Returns the text of `ids`; bytes that are not UTF-8 become U+FFFD."""
        return b"".join(self.token_bytes[token] for token in ids).decode("utf-8", "replace")

    def chat(self, turns, generate=True):
        """Returns the ids of a chat: `turns` are (role, text); `generate` opens the assistant's turn."""
        ids = []
        for role, text in turns:
            ids.append(SPECIAL_TOKENS.index(f"<|{role}|>"))
            ids.extend(self.encode(text))
            if role == "assistant":
                ids.append(END_OF_TEXT)
        if generate:
            ids.append(SPECIAL_TOKENS.index("<|assistant|>"))
        return ids

    def _printable(self, token):
        return "".join(BYTE_CHARACTERS[byte] for byte in self.token_bytes[token])

    def to_json(self):
        """Returns the contents of tokenizer.json."""
        vocabulary = {name: token for token, name in enumerate(SPECIAL_TOKENS)}
        vocabulary.update((self._printable(token), token) for token in range(len(SPECIAL_TOKENS), len(self)))
        byte_level = {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": False,
            "use_regex": False,
        }
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                {
                    "id": token,
                    "content": name,
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": True,
                }
                for token, name in enumerate(SPECIAL_TOKENS)
            ],
            "normalizer": None,
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False},
                    byte_level,
                ],
            },
            "post_processor": byte_level,
            "decoder": byte_level,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": "",
                "end_of_word_suffix": "",
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": False,
                "vocab": vocabulary,
                "merges": [
                    f"{self._printable(left)} {self._printable(right)}" for left, right in self.merges
                ],
            },
        }

    def config_json(self, context):
        """Returns the contents of tokenizer_config.json for a model of `context` positions."""
        return {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "add_bos_token": False,
            "add_prefix_space": False,
            "added_tokens_decoder": {
                str(token): {
                    "content": name,
                    "lstrip": False,
                    "normalized": False,
                    "rstrip": False,
                    "single_word": False,
                    "special": True,
                }
                for token, name in enumerate(SPECIAL_TOKENS)
            },
            "bos_token": None,
            "eos_token": SPECIAL_TOKENS[0],
            "pad_token": SPECIAL_TOKENS[0],
            "unk_token": None,
            "additional_special_tokens": list(SPECIAL_TOKENS[1:]),
            "chat_template": CHAT_TEMPLATE,
            "clean_up_tokenization_spaces": False,
            "errors": "replace",
            "model_max_length": context,
        }

    @staticmethod
    def from_json(path):
        """Reads a tokenizer.json that `to_json` wrote."""
        with open(path, encoding="utf-8") as file:
            model = json.load(file)["model"]
        ids = model["vocab"]
        return Tokenizer([tuple(ids[half] for half in merge.split(" ")) for merge in model["merges"]])


def dumps(contents):
    """Returns the text of tokenizer.json."""
    return json.dumps(contents, ensure_ascii=False, indent=1) + "\n"


def train(texts, size):
    """Learns byte-level BPE from an iterable of texts; returns a Tokenizer of `size` tokens.

    Each step merges the most frequent pair of neighbours within words; ties go to the smaller ids. Pair
    counts are kept up to date word by word, and a heap holds stale upper bounds, so a merge
    costs what it touches.
    """
    split, counts = _compile_pattern(), collections.Counter()
    for text in texts:
        counts.update(split.findall(text))
    tokenizer = Tokenizer([])
    words = [[tokenizer.byte_ids[byte] for byte in word.encode("utf-8")] for word in counts]
    weights = list(counts.values())
    pairs, places = collections.Counter(), collections.defaultdict(set)
    for at, word in enumerate(words):
        for pair in zip(word, word[1:]):
            pairs[pair] += weights[at]
            places[pair].add(at)
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapq.heapify(heap)
    merges, fresh = [], len(tokenizer)
    while fresh < size and heap:
        count, pair = heapq.heappop(heap)
        if -count != pairs[pair]:
            if pairs[pair] > 0:
                heapq.heappush(heap, (-pairs[pair], pair))
            continue
        if -count < 2:
            break
        changed = set()
        for at in places.pop(pair):
            word, replaced, position = words[at], [], 0
            for old in zip(word, word[1:]):
                pairs[old] -= weights[at]
            while position < len(word):
                if position + 1 < len(word) and (word[position], word[position + 1]) == pair:
                    replaced.append(fresh)
                    position += 2
                else:
                    replaced.append(word[position])
                    position += 1
            words[at] = replaced
            for new in zip(replaced, replaced[1:]):
                pairs[new] += weights[at]
                if fresh in new:
                    places[new].add(at)
                    changed.add(new)
        for new in changed:
            heapq.heappush(heap, (-pairs[new], new))
        merges.append(pair)
        fresh += 1
    return Tokenizer(merges)
