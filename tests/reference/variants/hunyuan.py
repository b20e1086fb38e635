"""Hunyuan-A13B."""

from variants.parts import ABSENT, TRANSFORMERS_5, decoder, experts, grouped_query_attention, mlp, norms_of_heads

ARCHITECTURES = {
    "hunyuan_v1_moe": {
        "architectures": ["HunYuanMoEV1ForCausalLM"],
        "model_type": "hunyuan_v1_moe",
        "head_dim": 24,
        "attention_head_dim": 24,
        "attention_bias": False,
        "mlp_bias": False,
        "intermediate_size": 56,
        "moe_intermediate_size": [40, 40, 40],
        "num_experts": 16,
        "num_shared_expert": [1, 1, 1],
        "moe_topk": [4, 4, 4],
        "moe_layer_num_skipped": 0,
        "moe_drop_tokens": False,
        "norm_topk_prob": True,
        "norm_type": "rms",
        "use_mixed_mlp_moe": True,
        "use_qk_norm": True,
        "use_cla": False,
        "cla_share_factor": 2,
        "use_mla": False,
        "q_lora_rank": None,
        "kv_lora_rank": None,
        "n_group": False,
        "topk_group": False,
        "routed_scaling_factor": False,
        "group_limited_greedy": False,
        "tie_word_embeddings": True,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "rope_scaling": {
            "alpha": 1000.0,
            "beta_fast": 32,
            "beta_slow": 1,
            "factor": 1.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "type": "dynamic",
        },
        "bos_token_id": 1,  # wrong as published
        "num_experts_per_tok": ABSENT,
        "output_router_logits": ABSENT,
        "router_aux_loss_coef": ABSENT,
    },
}

VARIANTS = {
    "hunyuan_v1_moe": ("hunyuan_v1_moe", {}, "BF16", 1),
    # Each layer has its own number of chosen experts.
    "hunyuan_v1_moe_lists": ("hunyuan_v1_moe", {"moe_topk": [2, 4, 3]}, "BF16", 1),
    "hunyuan_v1_moe_numbers": (
        "hunyuan_v1_moe",
        {
            "moe_intermediate_size": 40,
            "num_shared_expert": 1,
            "moe_topk": 3,
            "tie_word_embeddings": False,
            "rope_theta": ABSENT,
            "rope_scaling": ABSENT,
            "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 50.0, "factor": 1.0},
            "transformers_version": TRANSFORMERS_5,
        },
        "F32",
        1,
    ),
}


def of_layer(value, layer):
    return value[layer] if isinstance(value, list) else value


def hunyuan_v1_moe(config):
    hidden, count = config["hidden_size"], config["num_experts"]

    def attention(prefix, _):
        yield from grouped_query_attention(prefix, config)
        yield from norms_of_heads(prefix, config, ("query_layernorm", "key_layernorm"))

    def feed_forward(layer, i):
        block = f"{layer}.mlp"
        yield f"{block}.gate.wg.weight", (count, hidden)
        yield from experts(block, count, hidden, of_layer(config["moe_intermediate_size"], i))
        shared = config["intermediate_size"] * of_layer(config["num_shared_expert"], i)
        yield from mlp(f"{block}.shared_mlp", hidden, shared)

    return decoder(config, attention, feed_forward)


TENSORS = {"hunyuan_v1_moe": hunyuan_v1_moe}
FLOAT32 = {"hunyuan_v1_moe": ("mlp.gate.wg.weight",)}
OUTPUTS = {"hunyuan_v1_moe": 0.35}
