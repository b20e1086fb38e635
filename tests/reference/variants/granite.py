"""Granite 3 MoE, with and without a shared MLP."""

from variants.parts import ABSENT, TRANSFORMERS_5, decoder, grouped_query_attention

ARCHITECTURES = {
    "granitemoe": {
        "architectures": ["GraniteMoeForCausalLM"],
        "model_type": "granitemoe",
        "attention_bias": False,
        "intermediate_size": 40,
        "num_local_experts": 16,
        "num_experts_per_tok": 4,
        "attention_multiplier": 0.15,
        "embedding_multiplier": 12.0,
        "residual_multiplier": 0.22,
        "logits_scaling": 2.0,
        "tie_word_embeddings": True,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "rope_scaling": None,
    },
    "granitemoeshared": {
        "architectures": ["GraniteMoeSharedForCausalLM"],
        "model_type": "granitemoeshared",
        "attention_bias": False,
        "intermediate_size": 40,
        "shared_intermediate_size": 56,
        "num_local_experts": 16,
        "num_experts_per_tok": 4,
        "attention_multiplier": 0.15,
        "embedding_multiplier": 12.0,
        "residual_multiplier": 0.22,
        "logits_scaling": 2.0,
        "tie_word_embeddings": True,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "rope_scaling": None,
    },
}

VARIANTS = {
    "granitemoe": ("granitemoe", {}, "BF16", 1),
    "granitemoeshared": ("granitemoeshared", {}, "BF16", 1),
    "granitemoeshared_rope_parameters": (
        "granitemoeshared",
        {
            "attention_bias": True,
            "tie_word_embeddings": False,
            "rope_theta": ABSENT,
            "rope_scaling": ABSENT,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
            "transformers_version": TRANSFORMERS_5,
        },
        "F32",
        1,
    ),
    # A width of 0 means that there is no shared MLP.
    "granitemoeshared_none": ("granitemoeshared", {"shared_intermediate_size": 0}, "BF16", 1),
}


def granitemoe(config):
    hidden, count, width = (config[k] for k in ("hidden_size", "num_local_experts", "intermediate_size"))
    shared, bias = config.get("shared_intermediate_size", 0), config["attention_bias"]

    def attention(prefix, _):
        return grouped_query_attention(prefix, config, bias, bias)

    def feed_forward(layer, _):
        block = f"{layer}.block_sparse_moe"
        yield f"{block}.router.layer.weight", (count, hidden)
        yield f"{block}.input_linear.weight", (count, 2 * width, hidden)
        yield f"{block}.output_linear.weight", (count, hidden, width)
        if shared:
            yield f"{layer}.shared_mlp.input_linear.weight", (2 * shared, hidden)
            yield f"{layer}.shared_mlp.output_linear.weight", (hidden, shared)

    return decoder(config, attention, feed_forward)


TENSORS = {"granitemoe": granitemoe, "granitemoeshared": granitemoe}
