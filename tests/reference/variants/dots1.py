from variants.noaux import dense_or_sparse
from variants.parts import ABSENT, TRANSFORMERS_5, decoder, grouped_query_attention, norms_of_heads

ARCHITECTURES = {
    "dots1": {
        "architectures": ["Dots1ForCausalLM"],
        "model_type": "dots1",
        "num_key_value_heads": 4,
        "head_dim": 24,
        "attention_bias": False,
        "intermediate_size": 72,
        "moe_intermediate_size": 40,
        "n_routed_experts": 16,
        "n_shared_experts": 2,
        "num_experts_per_tok": 4,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "n_group": 1,
        "topk_group": 1,
        "topk_method": "noaux_tc",
        "scoring_func": "noaux_tc",
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1e6,
        "rope_scaling": None,
        "use_sliding_window": False,
        "sliding_window": None,
        "max_window_layers": 3,
        "pretraining_tp": 1,
        "bos_token_id": ABSENT,
        "output_router_logits": ABSENT,
        "router_aux_loss_coef": ABSENT,
    },
}

VARIANTS = {
    "dots1": ("dots1", {}, "BF16", 1),
    "dots1_rope_parameters": (
        "dots1",
        {
            "rope_theta": ABSENT,
            "rope_scaling": ABSENT,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            "norm_topk_prob": False,
            "routed_scaling_factor": 1.0,
            "layer_types": ["full_attention"] * 3,
            "transformers_version": TRANSFORMERS_5,
        },
        "F32",
        1,
    ),
}


def dots1(config):
    def attention(prefix, _):
        yield from grouped_query_attention(prefix, config)
        yield from norms_of_heads(prefix, config)

    return decoder(config, attention, dense_or_sparse(config))


TENSORS = {"dots1": dots1}
OUTPUTS = {"dots1": 0.35}
