"""MiniMax-M2."""

from variants.parts import (
    ABSENT,
    TRANSFORMERS_5,
    W1_W3_W2,
    decoder,
    experts,
    grouped_query_attention,
    norms_of_projections,
)

ARCHITECTURES = {
    "minimax_m2": {
        "architectures": ["MiniMaxM2ForCausalLM"],
        "model_type": "minimax_m2",
        "head_dim": 24,
        "rotary_dim": 12,
        "intermediate_size": 40,
        "num_local_experts": 16,
        "num_experts_per_tok": 4,
        "scoring_func": "sigmoid",
        "use_routing_bias": True,
        "use_qk_norm": True,
        "qk_norm_type": "per_layer",
        "shared_intermediate_size": 0,
        "use_mtp": True,
        "num_mtp_modules": 3,
        "mtp_transformer_layers": 1,
        "rms_norm_eps": 1e-6,
        "rope_theta": 5000000,
        "initializer_range": ABSENT,
        "bos_token_id": ABSENT,
        "attention_dropout": ABSENT,
        "output_router_logits": ABSENT,
        "router_aux_loss_coef": ABSENT,
    },
}

VARIANTS = {
    "minimax_m2": ("minimax_m2", {}, "BF16", 1),
    "minimax_m2_rope_parameters": (
        "minimax_m2",
        {
            "rope_theta": ABSENT,
            "rotary_dim": 16,
            "head_dim": 32,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
            "num_key_value_heads": 1,
            "transformers_version": TRANSFORMERS_5,
        },
        "F32",
        1,
    ),
}


def minimax_m2(config):
    hidden, count = config["hidden_size"], config["num_local_experts"]

    def attention(prefix, _):
        yield from grouped_query_attention(prefix, config)
        yield from norms_of_projections(prefix, config)

    def feed_forward(layer, _):
        block = f"{layer}.block_sparse_moe"
        yield f"{block}.gate.weight", (count, hidden)
        yield f"{block}.e_score_correction_bias", (count,)
        yield from experts(block, count, hidden, config["intermediate_size"], W1_W3_W2)

    return decoder(config, attention, feed_forward)


TENSORS = {"minimax_m2": minimax_m2}
FLOAT32 = {"minimax_m2": ("block_sparse_moe.gate.weight",)}
OUTPUTS = {"minimax_m2": 0.25}
