from variants.parts import ABSENT, TRANSFORMERS_5, decoder, grouped_query_attention, linear

YARN = {
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
    "rope_type": "yarn",
    "truncate": False,
}

ARCHITECTURES = {
    "gpt_oss": {
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "num_hidden_layers": 4,
        "head_dim": 24,
        "attention_bias": True,
        "intermediate_size": 40,
        "num_local_experts": 16,
        "num_experts_per_tok": 4,
        "experts_per_token": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "sliding_window": 11,
        "swiglu_limit": 7.0,
        "initial_context_length": 64,
        "rms_norm_eps": 1e-5,
        "rope_theta": 150000,
        "rope_scaling": YARN,
        "bos_token_id": ABSENT,
        "pad_token_id": 259,
    },
}

VARIANTS = {
    # A limit that random activations reach.
    "gpt_oss": ("gpt_oss", {"swiglu_limit": 1.5}, "BF16", 1),
    "gpt_oss_rope_parameters": (
        "gpt_oss",
        {
            "rope_theta": ABSENT,
            "rope_scaling": ABSENT,
            "rope_parameters": {**YARN, "rope_theta": 150000.0},
            "tie_word_embeddings": False,
            "transformers_version": TRANSFORMERS_5,
        },
        "F32",
        2,
    ),
}


def gpt_oss(config):
    hidden, count, width = (config[k] for k in ("hidden_size", "num_local_experts", "intermediate_size"))
    bias = config["attention_bias"]

    def attention(prefix, _):
        yield from grouped_query_attention(prefix, config, bias, bias)
        yield f"{prefix}.sinks", (config["num_attention_heads"],)

    def feed_forward(layer, _):
        block = f"{layer}.mlp"
        yield from linear(f"{block}.router", count, hidden, bias=True)
        yield f"{block}.experts.gate_up_proj", (count, hidden, 2 * width)
        yield f"{block}.experts.gate_up_proj_bias", (count, 2 * width)
        yield f"{block}.experts.down_proj", (count, width, hidden)
        yield f"{block}.experts.down_proj_bias", (count, hidden)

    return decoder(config, attention, feed_forward)


TENSORS = {"gpt_oss": gpt_oss}
OUTPUTS = {"gpt_oss": 0.2}
