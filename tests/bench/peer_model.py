#!/usr/bin/python3
"""Writes a synthetic model as a Hugging Face folder and, from the same weights, as GGUF files.

    peer_model.py --variant shape_a --out DIR [--seed 1] [--gguf BF16,F16]

DIR/hf is the folder (BF16), DIR/BF16.gguf and DIR/F16.gguf hold the same values; what is there already is kept. Only
Mixtral's architecture is written as GGUF. Its layout: magic, version, counts, key-value pairs, tensor directory, data
aligned to 32 bytes (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
"""

import argparse
import json
import os
import pathlib
import struct
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "reference"))
import make_model  # noqa: E402
import safetensors_file  # noqa: E402

ALIGNMENT = 32
COMPLETE = ".complete"  # written into the folder last
# ggml's numbers: of tensor types, of the file's main type, of metadata types.
TENSOR_TYPES = {"F32": 0, "F16": 1, "BF16": 30}
FILE_TYPES = {"F16": 1, "BF16": 32}
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TOKEN_NORMAL, TOKEN_CONTROL, TOKEN_UNUSED = 1, 3, 5


class Folder:
    """The tensors of a Hugging Face folder with BF16 weights, as bits."""

    def __init__(self, path):
        self.tensors = {}
        for file in sorted(pathlib.Path(path).glob("*.safetensors")):
            data = np.memmap(file, dtype=np.uint8, mode="r")
            (length,) = struct.unpack("<Q", data[:8].tobytes())
            for name, entry in json.loads(data[8 : 8 + length].tobytes()).items():
                if name != "__metadata__":
                    begin, end = (8 + length + offset for offset in entry["data_offsets"])
                    self.tensors[name] = data[begin:end].view(np.uint16).reshape(entry["shape"])

    def bits(self, name):
        return self.tensors[name]


def interleave_halves(matrix, heads):
    """Rows of a query or key projection in the order of rotary embeddings on neighbours, as GGUF's Llama has them;
    Hugging Face pairs the halves of a head."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def gguf_tensors(config, folder):
    """(name, shape, is_matrix, parts): parts gives the tensor's bits one by one."""

    def plain(name):
        return lambda: iter([folder.bits(name)])

    def rotated(name, heads):
        return lambda: iter([interleave_halves(folder.bits(name), heads)])

    def stacked(layer, weight):
        experts = range(config["num_local_experts"])
        return lambda: (folder.bits(f"{layer}.block_sparse_moe.experts.{e}.{weight}.weight") for e in experts)

    hidden, vocab = config["hidden_size"], config["vocab_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    kv = hidden // heads * kv_heads
    experts, ffn = config["num_local_experts"], config["intermediate_size"]
    yield "token_embd.weight", (vocab, hidden), True, plain("model.embed_tokens.weight")
    for i in range(config["num_hidden_layers"]):
        layer, block = f"model.layers.{i}", f"blk.{i}"
        attention = f"{layer}.self_attn"
        yield f"{block}.attn_norm.weight", (hidden,), False, plain(f"{layer}.input_layernorm.weight")
        yield f"{block}.attn_q.weight", (hidden, hidden), True, rotated(f"{attention}.q_proj.weight", heads)
        yield f"{block}.attn_k.weight", (kv, hidden), True, rotated(f"{attention}.k_proj.weight", kv_heads)
        yield f"{block}.attn_v.weight", (kv, hidden), True, plain(f"{attention}.v_proj.weight")
        yield f"{block}.attn_output.weight", (hidden, hidden), True, plain(f"{attention}.o_proj.weight")
        yield f"{block}.ffn_norm.weight", (hidden,), False, plain(f"{layer}.post_attention_layernorm.weight")
        # The router stays in F32, as in the peer's own converter.
        yield f"{block}.ffn_gate_inp.weight", (experts, hidden), False, plain(f"{layer}.block_sparse_moe.gate.weight")
        yield f"{block}.ffn_gate_exps.weight", (experts, ffn, hidden), True, stacked(layer, "w1")
        yield f"{block}.ffn_down_exps.weight", (experts, hidden, ffn), True, stacked(layer, "w2")
        yield f"{block}.ffn_up_exps.weight", (experts, ffn, hidden), True, stacked(layer, "w3")
    yield "output_norm.weight", (hidden,), False, plain("model.norm.weight")
    yield "output.weight", (vocab, hidden), True, plain("lm_head.weight")


def metadata(config, dtype):
    """(key, type, value) of the model and of a byte-level tokenizer filled up to the vocabulary's size."""
    symbols = make_model.byte_symbols()
    tokens = [symbols[b] for b in range(256)] + make_model.SPECIALS
    types = [TOKEN_NORMAL] * 256 + [TOKEN_CONTROL] * len(make_model.SPECIALS)
    unused = list(unused_tokens(config["vocab_size"]).values())
    tokens += unused
    types += [TOKEN_UNUSED] * len(unused)
    return [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, "synthetic"),
        ("general.file_type", UINT32, FILE_TYPES[dtype]),
        ("general.alignment", UINT32, ALIGNMENT),
        ("llama.vocab_size", UINT32, config["vocab_size"]),
        ("llama.context_length", UINT32, config["max_position_embeddings"]),
        ("llama.embedding_length", UINT32, config["hidden_size"]),
        ("llama.block_count", UINT32, config["num_hidden_layers"]),
        ("llama.feed_forward_length", UINT32, config["intermediate_size"]),
        ("llama.attention.head_count", UINT32, config["num_attention_heads"]),
        ("llama.attention.head_count_kv", UINT32, config["num_key_value_heads"]),
        ("llama.attention.layer_norm_rms_epsilon", FLOAT32, config["rms_norm_eps"]),
        ("llama.rope.dimension_count", UINT32, config["hidden_size"] // config["num_attention_heads"]),
        ("llama.rope.freq_base", FLOAT32, config["rope_theta"]),
        ("llama.expert_count", UINT32, config["num_local_experts"]),
        ("llama.expert_used_count", UINT32, config["num_experts_per_tok"]),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "default"),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
        ("tokenizer.ggml.token_type", ARRAY, (INT32, types)),
        ("tokenizer.ggml.merges", ARRAY, (STRING, [])),
        ("tokenizer.ggml.bos_token_id", UINT32, make_model.EOS),
        ("tokenizer.ggml.eos_token_id", UINT32, make_model.EOS),
        ("tokenizer.ggml.padding_token_id", UINT32, make_model.PAD),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
    ]


def unused_tokens(vocab_size):
    """Texts for the ids behind the tokenizer's own; without a text, a server would have nothing to stream."""
    return {i: f"<unused{i}>" for i in range(256 + len(make_model.SPECIALS), vocab_size)}


def name_every_token(hf, vocab_size):
    path = pathlib.Path(hf, "tokenizer.json")
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    tokenizer["model"]["vocab"].update((text, i) for i, text in unused_tokens(vocab_size).items())
    make_model.write_json(hf, "tokenizer.json", tokenizer)
    pathlib.Path(hf, COMPLETE).touch()


def encode_value(kind, value):
    if kind == STRING:
        text = value.encode()
        return struct.pack("<Q", len(text)) + text
    if kind == ARRAY:
        element, values = value
        return struct.pack("<IQ", element, len(values)) + b"".join(encode_value(element, v) for v in values)
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}[kind], value)


def encode_bits(bits, dtype):
    """BF16 bits as the bytes of a tensor of that type."""
    if dtype == "BF16":
        return np.ascontiguousarray(bits).tobytes()
    return safetensors_file.encode(safetensors_file.from_bfloat16_bits(bits), dtype)


def write_gguf(path, config, folder, dtype):
    tensors = [(n, s, dtype if matrix else "F32", parts) for n, s, matrix, parts in gguf_tensors(config, folder)]
    fields = metadata(config, dtype)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    for key, kind, value in fields:
        header += encode_value(STRING, key) + struct.pack("<I", kind) + encode_value(kind, value)
    offset = 0
    for name, shape, kind, _ in tensors:
        header += encode_value(STRING, name) + struct.pack("<I", len(shape))
        header += struct.pack(f"<{len(shape)}Q", *reversed(shape))  # fastest first
        header += struct.pack("<IQ", TENSOR_TYPES[kind], offset)
        size = int(np.prod(shape, dtype=np.int64)) * safetensors_file.ELEMENT_BYTES[kind]
        offset += size + -size % ALIGNMENT
    partial = f"{path}.partial"
    with open(partial, "wb") as out:
        out.write(header + b"\0" * (-len(header) % ALIGNMENT))
        for _, _, kind, parts in tensors:
            size = sum(out.write(encode_bits(bits, kind)) for bits in parts())
            out.write(b"\0" * (-size % ALIGNMENT))
    os.rename(partial, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", default="shape_a", choices=make_model.VARIANTS)
    parser.add_argument("--out", required=True, help="folder to write into")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gguf", default="BF16,F16", help="GGUF files to write, comma separated; empty: none")
    args = parser.parse_args()
    config = make_model.config_of(args.variant)
    if config["model_type"] != "mixtral":
        parser.error(f"{args.variant} is no Mixtral model")
    hf = os.path.join(args.out, "hf")
    if not os.path.exists(os.path.join(hf, COMPLETE)):
        make_model.make(args.variant, hf, args.seed)
        name_every_token(hf, config["vocab_size"])
    folder = Folder(hf)
    for dtype in filter(None, args.gguf.split(",")):
        path = os.path.join(args.out, f"{dtype}.gguf")
        if not os.path.exists(path):
            write_gguf(path, config, folder, dtype)


if __name__ == "__main__":
    main()
