"""DeepSeek-V2 and V3, Kimi-K2, Moonlight and GLM-4.7-Flash."""

from variants.noaux import dense_or_sparse, prediction_layers, sparse_block
from variants.parts import ABSENT, TRANSFORMERS_5, decoder, linear, mlp

YARN = {
    "beta_fast": 32,
    "beta_slow": 1,
    "factor": 4,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 64,
    "type": "yarn",
}

LATENT = {
    "num_key_value_heads": 4,  # as published: that of queries, and without a meaning
    "attention_bias": False,
    "kv_lora_rank": 32,
    "q_lora_rank": 40,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "intermediate_size": 72,
    "moe_intermediate_size": 40,
    "n_routed_experts": 16,
    "num_experts_per_tok": 4,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000,
    "ep_size": 1,
    "output_router_logits": ABSENT,
    "router_aux_loss_coef": ABSENT,
}

NOAUX = {
    "n_shared_experts": 1,
    "n_group": 4,
    "topk_group": 2,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
    "num_nextn_predict_layers": 1,
}

ARCHITECTURES = {
    "deepseek_v2": {
        "architectures": ["DeepseekV2ForCausalLM"],
        "model_type": "deepseek_v2",
        **LATENT,
        "n_shared_experts": 2,
        "n_group": 4,
        "topk_group": 2,
        "topk_method": "group_limited_greedy",
        "scoring_func": "softmax",
        "norm_topk_prob": False,
        "routed_scaling_factor": 4.0,
        "rope_scaling": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707},
        "aux_loss_alpha": 0.001,
        "seq_aux": True,
        "pretraining_tp": 1,
    },
    "deepseek_v3": {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        **LATENT,
        **NOAUX,
        "rope_scaling": YARN,
    },
    "kimi_k2": {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "kimi_k2",
        **LATENT,
        **NOAUX,
        "n_group": 1,
        "topk_group": 1,
        "routed_scaling_factor": 2.827,
        "num_nextn_predict_layers": 0,
        "rope_theta": 50000.0,
        "rope_scaling": {
            **YARN,
            "beta_fast": 1.0,
            "beta_slow": 1.0,
            "factor": 32.0,
            "original_max_position_embeddings": 1024,
        },
        "aux_loss_alpha": 0.001,
        "seq_aux": True,
    },
    "glm4_moe_lite": {
        "architectures": ["Glm4MoeLiteForCausalLM"],
        "model_type": "glm4_moe_lite",
        **LATENT,
        **NOAUX,
        "qk_nope_head_dim": 12,
        "v_head_dim": 24,
        "n_group": 1,
        "topk_group": 1,
        "routed_scaling_factor": 1.8,
        "rms_norm_eps": 1e-5,
        "mlp_layer_types": ["dense", "sparse", "sparse"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000},
        "rope_theta": ABSENT,
        "rope_interleave": True,
        "scoring_func": ABSENT,
        "first_k_dense_replace": ABSENT,
        "moe_layer_freq": ABSENT,
        "ep_size": ABSENT,
        "eos_token_id": [256, 258],
        "transformers_version": TRANSFORMERS_5,
    },
}

VARIANTS = {
    "deepseek_v2": ("deepseek_v2", {}, "BF16", 1),
    "deepseek_v2_lite": (
        "deepseek_v2",
        {
            "q_lora_rank": None,
            "v_head_dim": 24,
            "topk_method": "greedy",
            "n_group": 1,
            "topk_group": 1,
            "routed_scaling_factor": 1.0,
        },
        "BF16",
        1,
    ),
    # cos and sin have a factor here: mscale is not mscale_all_dim.
    "deepseek_v2_mscale": (
        "deepseek_v2",
        {"rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": 0.707}, "v_head_dim": 12},
        "F32",
        1,
    ),
    "deepseek_v3": ("deepseek_v3", {}, "BF16", 2),
    "deepseek_v3_rope_parameters": (
        "deepseek_v3",
        {
            "rope_theta": ABSENT,
            "rope_scaling": ABSENT,
            "rope_parameters": {
                **{name: value for name, value in YARN.items() if name != "type"},
                "rope_type": "yarn",
                "rope_theta": 10000.0,
            },
            "rope_interleave": True,
            "num_hidden_layers": 4,
            "first_k_dense_replace": 2,
            "num_nextn_predict_layers": 0,
            "transformers_version": TRANSFORMERS_5,
        },
        "F32",
        1,
    ),
    "kimi_k2": ("kimi_k2", {}, "BF16", 1),
    "moonlight": (
        "deepseek_v3",
        {
            "q_lora_rank": None,
            "n_shared_experts": 2,
            "n_group": 1,
            "topk_group": 1,
            "routed_scaling_factor": 2.446,
            "rms_norm_eps": 1e-5,
            "rope_theta": 50000.0,
            "rope_scaling": None,
            "num_nextn_predict_layers": 0,
        },
        "BF16",
        1,
    ),
    "glm4_moe_lite": ("glm4_moe_lite", {}, "BF16", 1),
}


def latent_attention(prefix, config):
    hidden, heads, latent = (config[k] for k in ("hidden_size", "num_attention_heads", "kv_lora_rank"))
    nope, rope, value = (config[k] for k in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    compressed = config["q_lora_rank"]
    if compressed is None:
        yield from linear(f"{prefix}.q_proj", heads * (nope + rope), hidden)
    else:
        yield from linear(f"{prefix}.q_a_proj", compressed, hidden)
        yield f"{prefix}.q_a_layernorm.weight", (compressed,)
        yield from linear(f"{prefix}.q_b_proj", heads * (nope + rope), compressed)
    yield from linear(f"{prefix}.kv_a_proj_with_mqa", latent + rope, hidden)
    yield f"{prefix}.kv_a_layernorm.weight", (latent,)
    yield from linear(f"{prefix}.kv_b_proj", heads * (nope + value), latent)
    yield from linear(f"{prefix}.o_proj", hidden, heads * value)


def deepseek(config):
    def attention(prefix, _):
        return latent_attention(prefix, config)

    feed_forward = dense_or_sparse(config)
    yield from decoder(config, attention, feed_forward)
    yield from prediction_layers(config, attention, feed_forward)


def glm4_moe_lite(config):
    types = config["mlp_layer_types"]

    def attention(prefix, _):
        return latent_attention(prefix, config)

    def feed_forward(layer, i):
        if i < len(types) and types[i] == "dense":
            return mlp(f"{layer}.mlp", config["hidden_size"], config["intermediate_size"])
        return sparse_block(config, f"{layer}.mlp")

    yield from decoder(config, attention, feed_forward)
    yield from prediction_layers(config, attention, feed_forward)


TENSORS = {"deepseek_v2": deepseek, "deepseek_v3": deepseek, "kimi_k2": deepseek, "glm4_moe_lite": glm4_moe_lite}
OUTPUTS = {model_type: 0.25 for model_type in TENSORS}
