#!/usr/bin/python3
"""Writes small Mixture-of-Experts models with random weights as Hugging Face folders.

    make_model.py --list
    make_model.py --variant qwen3 --out DIR [--seed 1]

A tensor's values depend on the seed and its name only, so the sharded variant of a model holds the same weights as the
unsharded one. The tokenizer is byte-level: token id = byte, four special tokens behind.
"""

import argparse
import json
import os

import numpy as np

import safetensors_file
from values import values_of
from variants import (  # noqa: F401: others take them here
    ARCHITECTURES,
    TINY,
    VARIANTS,
    config_of,
    dtype_of,
    outputs_of,
    tensors_of,
)
from variants.parts import EOS

IM_START, IM_END, PAD = 257, 258, 259
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]


def write_weights(out, tensors, num_files, values):
    if num_files == 1:
        safetensors_file.write(os.path.join(out, "model.safetensors"), tensors, values)
        return
    weight_map = {}
    for i in range(num_files):
        part = tensors[i * len(tensors) // num_files : (i + 1) * len(tensors) // num_files]
        name = f"model-{i + 1:05d}-of-{num_files:05d}.safetensors"
        safetensors_file.write(os.path.join(out, name), part, values)
        weight_map.update((tensor, name) for tensor, _, _ in part)
    total = sum(int(np.prod(s, dtype=np.int64)) * safetensors_file.ELEMENT_BYTES[d] for _, s, d in tensors)
    write_json(out, "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map})


def byte_symbols():
    """The printable character that byte-level tokenizers show for each byte (GPT-2's table)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in plain]
    symbols = {b: chr(b) for b in plain}
    symbols.update((b, chr(256 + i)) for i, b in enumerate(rest))
    return symbols


def write_tokenizer(out):
    symbols = byte_symbols()
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": EOS + i, "content": content, **flags} for i, content in enumerate(SPECIALS)]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {symbols[b]: b for b in range(256)},
            "merges": [],
        },
    }
    template = (
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>'"
        " + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    write_json(out, "tokenizer.json", tokenizer)
    write_json(
        out,
        "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "add_bos_token": False,
            "bos_token": None,
            "eos_token": SPECIALS[0],
            "pad_token": SPECIALS[3],
            "chat_template": template,
            "model_max_length": 256,
        },
    )


def write_json(out, name, value):
    with open(os.path.join(out, name), "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=1)
        file.write("\n")


def make(variant, out, seed):
    _, _, dtype, num_files = VARIANTS[variant]
    config = config_of(variant)
    os.makedirs(out, exist_ok=True)
    tensors = [(name, shape, dtype_of(config, name, dtype)) for name, shape in tensors_of(config)]
    tied = config.get("tie_word_embeddings", False)
    deviation = 0.02 if variant in ("shape_a", "shape_b") else None
    values = values_of(seed, deviation, tied, outputs_of(config))
    write_weights(out, tensors, num_files, values)
    write_json(out, "config.json", config)
    write_json(
        out,
        "generation_config.json",
        {"bos_token_id": EOS, "eos_token_id": [EOS, IM_END], "pad_token_id": PAD, "do_sample": True, "temperature": 0.7},
    )
    write_tokenizer(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the variants")
    parser.add_argument("--variant", choices=VARIANTS)
    parser.add_argument("--out", help="folder to write")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.list:
        print("\n".join(VARIANTS))
    elif args.variant and args.out:
        make(args.variant, args.out, args.seed)
    else:
        parser.error("give --list, or --variant and --out")


if __name__ == "__main__":
    main()
