"""GLM-4.5, 4.6, 4.7."""

from variants.noaux import dense_or_sparse, prediction_layers
from variants.parts import ABSENT, TRANSFORMERS_5, decoder, grouped_query_attention, norms_of_heads

ARCHITECTURES = {
    "glm4_moe": {
        "architectures": ["Glm4MoeForCausalLM"],
        "model_type": "glm4_moe",
        "head_dim": 24,
        "partial_rotary_factor": 0.5,
        "attention_bias": True,
        "use_qk_norm": True,
        "intermediate_size": 72,
        "moe_intermediate_size": 40,
        "n_routed_experts": 16,
        "n_shared_experts": 1,
        "num_experts_per_tok": 4,
        "first_k_dense_replace": 1,
        "n_group": 1,
        "topk_group": 1,
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
        "num_nextn_predict_layers": 1,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1e6,
        "rope_scaling": None,
        "bos_token_id": ABSENT,
        "eos_token_id": [256, 258],
        "output_router_logits": ABSENT,
        "router_aux_loss_coef": ABSENT,
    },
}

VARIANTS = {
    "glm4_moe": ("glm4_moe", {}, "BF16", 1),
    # As GLM-4.5-Air; an absent partial_rotary_factor is a half.
    "glm4_moe_air": (
        "glm4_moe",
        {
            "use_qk_norm": False,
            "routed_scaling_factor": 1.0,
            "partial_rotary_factor": ABSENT,
            "num_nextn_predict_layers": 0,
        },
        "F32",
        1,
    ),
    "glm4_moe_rope_parameters": (
        "glm4_moe",
        {
            "rope_theta": ABSENT,
            "rope_scaling": ABSENT,
            "partial_rotary_factor": ABSENT,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
            "head_dim": 32,
            "attention_bias": False,
            "num_hidden_layers": 4,
            "first_k_dense_replace": 2,
            "num_nextn_predict_layers": 0,
            "transformers_version": TRANSFORMERS_5,
        },
        "BF16",
        2,
    ),
}


def glm4_moe(config):
    def attention(prefix, _):
        yield from grouped_query_attention(prefix, config, config["attention_bias"])
        if config["use_qk_norm"]:
            yield from norms_of_heads(prefix, config)

    feed_forward = dense_or_sparse(config)
    yield from decoder(config, attention, feed_forward)
    yield from prediction_layers(config, attention, feed_forward)


TENSORS = {"glm4_moe": glm4_moe}
OUTPUTS = {"glm4_moe": 0.35}
