from variants.parts import W1_W3_W2, decoder, experts, grouped_query_attention

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
}

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
    # 1.52 B parameters, 251 M active: the model of speed measurements.
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


def mixtral(config):
    hidden, count = config["hidden_size"], config["num_local_experts"]

    def attention(prefix, _):
        return grouped_query_attention(prefix, config)

    def feed_forward(layer, _):
        block = f"{layer}.block_sparse_moe"
        yield f"{block}.gate.weight", (count, hidden)
        yield from experts(block, count, hidden, config["intermediate_size"], W1_W3_W2)

    return decoder(config, attention, feed_forward)


TENSORS = {"mixtral": mixtral}
