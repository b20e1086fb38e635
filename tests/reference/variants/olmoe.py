from variants.parts import decoder, experts, grouped_query_attention, norms_of_projections

ARCHITECTURES = {
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
}

VARIANTS = {
    "olmoe": ("olmoe", {}, "BF16", 1),
    "olmoe_bias": ("olmoe", {"attention_bias": True, "norm_topk_prob": True, "num_key_value_heads": 2}, "BF16", 1),
}


def olmoe(config):
    hidden, count, bias = config["hidden_size"], config["num_experts"], config["attention_bias"]

    def attention(prefix, _):
        yield from grouped_query_attention(prefix, config, bias, bias)
        yield from norms_of_projections(prefix, config)

    def feed_forward(layer, _):
        yield f"{layer}.mlp.gate.weight", (count, hidden)
        yield from experts(f"{layer}.mlp", count, hidden, config["intermediate_size"])

    return decoder(config, attention, feed_forward)


TENSORS = {"olmoe": olmoe}
