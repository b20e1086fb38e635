"""Phi-3.5-MoE."""

from variants.parts import ABSENT, TRANSFORMERS_5, W1_W3_W2, decoder, experts, grouped_query_attention

HALF_HEAD = 8  # factors of each frequency
LONGROPE = {
    "long_factor": [1.0 + 0.75 * i for i in range(HALF_HEAD)],
    "long_mscale": 1.25,
    "original_max_position_embeddings": 64,
    "short_factor": [1.0 + 0.05 * i for i in range(HALF_HEAD)],
    "short_mscale": 1.125,
    "type": "longrope",
}

ARCHITECTURES = {
    "phimoe": {
        "architectures": ["PhiMoEForCausalLM"],
        "model_type": "phimoe",
        "attention_bias": True,
        "lm_head_bias": True,
        "intermediate_size": 40,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "router_jitter_noise": 0.01,
        "input_jitter_noise": 0.01,
        "hidden_dropout": 0.0,
        "sliding_window": 256,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "original_max_position_embeddings": 64,
        "rope_scaling": LONGROPE,
    },
}

VARIANTS = {
    # Sequences longer than 64 take the long factors.
    "phimoe": ("phimoe", {}, "BF16", 1),
    # No sequence is longer than what the short factors are for. Many experts are close to each other in a round.
    "phimoe_short": (
        "phimoe",
        {
            "architectures": ["PhimoeForCausalLM"],
            "original_max_position_embeddings": ABSENT,
            "rope_theta": ABSENT,
            "rope_scaling": ABSENT,
            "rope_parameters": {
                **{name: value for name, value in LONGROPE.items() if name != "type"},
                "rope_type": "longrope",
                "rope_theta": 10000.0,
                "original_max_position_embeddings": 256,
            },
            "router_jitter_noise": 0.05,
            "head_dim": 16,
            "num_attention_heads": 6,
            "transformers_version": TRANSFORMERS_5,
        },
        "F32",
        1,
    ),
}


def phimoe(config):
    hidden, count, bias = config["hidden_size"], config["num_local_experts"], config["attention_bias"]

    def attention(prefix, _):
        return grouped_query_attention(prefix, config, bias, bias)

    def feed_forward(layer, _):
        block = f"{layer}.block_sparse_moe"
        yield f"{block}.gate.weight", (count, hidden)
        yield from experts(block, count, hidden, config["intermediate_size"], W1_W3_W2)

    return decoder(config, attention, feed_forward, head_bias=config["lm_head_bias"], norm_bias=True)


TENSORS = {"phimoe": phimoe}
OUTPUTS = {"phimoe": 0.1}
