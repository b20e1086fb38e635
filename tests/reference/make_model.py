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
import zlib

import numpy as np

import safetensors_file

EOS, IM_START, IM_END, PAD = 256, 257, 258, 259
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]

# 260 is no multiple of 16, 40 none of 16 or 32: every kernel meets a rest.
TINY = {
    "vocab_size": 260,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_act": "silu",
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
    "num_experts_per_tok": 2,
    "initializer_range": 0.02,
    "use_cache": True,
    "bos_token_id": EOS,
    "eos_token_id": EOS,
    "attention_dropout": 0.0,
    "output_router_logits": False,
    "router_aux_loss_coef": 0.001,
    "transformers_version": "4.51.0",
}

ARCHITECTURES = {
    "mixtral": {
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "intermediate_size": 40,
        "num_local_experts": 8,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1e6,
        "sliding_window": None,
        "router_jitter_noise": 0.0,
    },
    "olmoe": {
        "architectures": ["OlmoeForCausalLM"],
        "model_type": "olmoe",
        "intermediate_size": 40,
        "num_experts": 16,
        "num_experts_per_tok": 4,
        "num_key_value_heads": 4,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "attention_bias": False,
        "clip_qkv": None,
        "norm_topk_prob": False,
    },
    "qwen2": {
        "architectures": ["Qwen2MoeForCausalLM"],
        "model_type": "qwen2_moe",
        "intermediate_size": 72,
        "moe_intermediate_size": 40,
        "shared_expert_intermediate_size": 56,
        "num_experts": 8,
        "norm_topk_prob": False,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "qkv_bias": True,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "use_sliding_window": False,
        "sliding_window": 4096,
        "max_window_layers": 28,
    },
    "qwen3": {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "head_dim": 24,  # explicit, and not hidden_size / num_attention_heads
        "intermediate_size": 72,
        "moe_intermediate_size": 40,
        "num_experts": 16,
        "num_experts_per_tok": 4,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "attention_bias": False,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "rope_scaling": None,
        "use_sliding_window": False,
        "sliding_window": None,
        "max_window_layers": 3,
    },
}

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}

# name: (architecture, fields that differ, dtype, number of files)
VARIANTS = {
    "mixtral": ("mixtral", {}, "BF16", 1),
    "mixtral_f32": ("mixtral", {}, "F32", 1),
    "mixtral_f16": ("mixtral", {}, "F16", 1),
    "mixtral_sharded": ("mixtral", {}, "BF16", 3),
    "mixtral_window": ("mixtral", {"sliding_window": 9}, "BF16", 1),
    "mixtral_head_dim": ("mixtral", {"head_dim": 8, "num_attention_heads": 6, "num_key_value_heads": 3}, "BF16", 1),
    "mixtral_tied": ("mixtral", {"tie_word_embeddings": True}, "BF16", 1),
    "mixtral_linear": ("mixtral", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "BF16", 1),
    "mixtral_llama3": (
        "mixtral",
        {
            "rope_theta": 10000.0,
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        },
        "BF16",
        1,
    ),
    "olmoe": ("olmoe", {}, "BF16", 1),
    "olmoe_bias": ("olmoe", {"attention_bias": True, "norm_topk_prob": True, "num_key_value_heads": 2}, "BF16", 1),
    "qwen2": ("qwen2", {}, "BF16", 1),
    "qwen2_dense_layers": (
        "qwen2",
        {"num_hidden_layers": 4, "decoder_sparse_step": 2, "mlp_only_layers": [3], "norm_topk_prob": True},
        "BF16",
        2,
    ),
    "qwen2_window": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 2, "qkv_bias": False},
        "BF16",
        1,
    ),
    "qwen2_layer_types": (
        "qwen2",
        {
            "use_sliding_window": True,
            "sliding_window": 5,
            "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        },
        "F32",
        1,
    ),
    "qwen3": ("qwen3", {}, "BF16", 1),
    "qwen3_yarn": ("qwen3", {"rope_theta": 10000.0, "rope_scaling": YARN, "tie_word_embeddings": True}, "BF16", 1),
    "qwen3_rope_parameters": (
        "qwen3",
        {"rope_theta": None, "rope_parameters": {"rope_theta": 10000.0, **YARN, "beta_fast": 16.0}},
        "F32",
        1,
    ),
    "qwen3_bias_window": (
        "qwen3",
        {"attention_bias": True, "use_sliding_window": True, "sliding_window": 11, "mlp_only_layers": [1]},
        "F16",
        1,
    ),
    # 1.52 B parameters, 251 M active: what speed is measured on.
    "shape_a": (
        "mixtral",
        {
            "vocab_size": 32000,
            "hidden_size": 1024,
            "num_hidden_layers": 16,
            "num_attention_heads": 16,
            "num_key_value_heads": 4,
            "intermediate_size": 1792,
            "num_local_experts": 16,
            "max_position_embeddings": 4096,
        },
        "BF16",
        4,
    ),
    # OLMoE-1B-7B's shape: 6.92 B parameters, 1.18 B active.
    "shape_b": (
        "mixtral",
        {
            "vocab_size": 50304,
            "hidden_size": 2048,
            "num_hidden_layers": 16,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "intermediate_size": 1024,
            "num_local_experts": 64,
            "num_experts_per_tok": 8,
            "max_position_embeddings": 4096,
        },
        "BF16",
        8,
    ),
}


def config_of(variant):
    architecture, fields, dtype, _ = VARIANTS[variant]
    config = {**TINY, **ARCHITECTURES[architecture], **fields}
    config["torch_dtype"] = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}[dtype]
    return config


def is_sparse(config, layer):
    if layer in config.get("mlp_only_layers", []):
        return False
    return (layer + 1) % config.get("decoder_sparse_step", 1) == 0


def tensors_of(config):
    """(name, shape) of every tensor, layer by layer."""
    kind = config["model_type"]
    hidden, heads, kv_heads = (config[k] for k in ("hidden_size", "num_attention_heads", "num_key_value_heads"))
    head_dim = config.get("head_dim") or hidden // heads
    q, kv = heads * head_dim, kv_heads * head_dim
    qkv_bias = config["qkv_bias"] if kind == "qwen2_moe" else config.get("attention_bias", False)
    output_bias = kind != "qwen2_moe" and config.get("attention_bias", False)
    experts = config.get("num_experts") or config["num_local_experts"]
    expert_ffn = config.get("moe_intermediate_size") or config["intermediate_size"]

    def mlp(prefix, ffn, names=("gate_proj", "up_proj", "down_proj")):
        gate, up, down = names
        yield f"{prefix}.{gate}.weight", (ffn, hidden)
        yield f"{prefix}.{up}.weight", (ffn, hidden)
        yield f"{prefix}.{down}.weight", (hidden, ffn)

    yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        yield f"{layer}.input_layernorm.weight", (hidden,)
        yield f"{layer}.post_attention_layernorm.weight", (hidden,)
        for name, width in (("q", q), ("k", kv), ("v", kv)):
            yield f"{layer}.self_attn.{name}_proj.weight", (width, hidden)
            if qkv_bias:
                yield f"{layer}.self_attn.{name}_proj.bias", (width,)
        yield f"{layer}.self_attn.o_proj.weight", (hidden, q)
        if output_bias:
            yield f"{layer}.self_attn.o_proj.bias", (hidden,)
        if kind == "olmoe":
            yield f"{layer}.self_attn.q_norm.weight", (q,)
            yield f"{layer}.self_attn.k_norm.weight", (kv,)
        elif kind == "qwen3_moe":
            yield f"{layer}.self_attn.q_norm.weight", (head_dim,)
            yield f"{layer}.self_attn.k_norm.weight", (head_dim,)
        if not is_sparse(config, i):
            yield from mlp(f"{layer}.mlp", config["intermediate_size"])
            continue
        block = f"{layer}.block_sparse_moe" if kind == "mixtral" else f"{layer}.mlp"
        names = ("w1", "w3", "w2") if kind == "mixtral" else ("gate_proj", "up_proj", "down_proj")
        yield f"{block}.gate.weight", (experts, hidden)
        for e in range(experts):
            yield from mlp(f"{block}.experts.{e}", expert_ffn, names)
        if kind == "qwen2_moe":
            yield from mlp(f"{block}.shared_expert", config["shared_expert_intermediate_size"])
            yield f"{block}.shared_expert_gate.weight", (1, hidden)
    yield "model.norm.weight", (hidden,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (config["vocab_size"], hidden)


def values_of(seed, deviation, tied):
    """Gives a tensor's values: norm weights lie around 1, biases are small, matrices keep the size of what they multiply,
    or have the given deviation (then embeddings have 1, so that routing depends on the token).

    Two things are as training makes them, because rounding would otherwise be magnified beyond what real models show:
    routers are decided (the last chosen expert weighs little, so that a near-tie costs little), and tied embeddings,
    which are as small as a matrix, are not drowned by what the layers add.
    """

    def scale(name, inputs):
        if name == "model.embed_tokens.weight" and not tied:
            return 1.0 if deviation else 0.5
        if deviation:
            return deviation
        if name.endswith(".gate.weight"):
            return 2.0 * inputs**-0.5
        if tied and any(part in name for part in ("o_proj", "down_proj", ".w2.")):
            return 0.25 * inputs**-0.5
        return inputs**-0.5

    def values(name, shape):
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        noise = rng.standard_normal(shape, dtype=np.float32)
        if "norm" in name:
            return 1.0 + 0.1 * noise
        if name.endswith("bias"):
            return 0.2 * noise
        return noise * np.float32(scale(name, shape[-1]))

    return values


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
    tensors = [(name, shape, dtype) for name, shape in tensors_of(config)]
    values = values_of(seed, 0.02 if variant in ("shape_a", "shape_b") else None, config["tie_word_embeddings"])
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
