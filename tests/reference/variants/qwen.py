"""Qwen2-MoE and Qwen3-MoE."""

from variants.parts import YARN, decoder, experts, grouped_query_attention, mlp, norms_of_heads

ARCHITECTURES = {
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

VARIANTS = {
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
    # 403 MB of experts, which take time to load from a slow disk.
    "qwen3_403mb": (
        "qwen3",
        {"num_hidden_layers": 4, "hidden_size": 512, "moe_intermediate_size": 2048, "num_experts_per_tok": 2},
        "BF16",
        1,
    ),
}


def is_sparse(config, layer):
    if layer in config.get("mlp_only_layers", []):
        return False
    return (layer + 1) % config.get("decoder_sparse_step", 1) == 0


def sparse_block(config, prefix):
    yield f"{prefix}.gate.weight", (config["num_experts"], config["hidden_size"])
    yield from experts(prefix, config["num_experts"], config["hidden_size"], config["moe_intermediate_size"])


def qwen2(config):
    hidden = config["hidden_size"]

    def attention(prefix, _):
        return grouped_query_attention(prefix, config, config["qkv_bias"])

    def feed_forward(layer, i):
        if not is_sparse(config, i):
            yield from mlp(f"{layer}.mlp", hidden, config["intermediate_size"])
            return
        yield from sparse_block(config, f"{layer}.mlp")
        yield from mlp(f"{layer}.mlp.shared_expert", hidden, config["shared_expert_intermediate_size"])
        yield f"{layer}.mlp.shared_expert_gate.weight", (1, hidden)

    return decoder(config, attention, feed_forward)


def qwen3(config):
    bias = config["attention_bias"]

    def attention(prefix, _):
        yield from grouped_query_attention(prefix, config, bias, bias)
        yield from norms_of_heads(prefix, config)

    def feed_forward(layer, i):
        if is_sparse(config, i):
            return sparse_block(config, f"{layer}.mlp")
        return mlp(f"{layer}.mlp", config["hidden_size"], config["intermediate_size"])

    return decoder(config, attention, feed_forward)


TENSORS = {"qwen2_moe": qwen2, "qwen3_moe": qwen3}
