"""ERNIE 4.5."""

from variants.parts import ABSENT, TRANSFORMERS_5, decoder, experts, grouped_query_attention, mlp

ARCHITECTURES = {
    "ernie4_5_moe": {
        "architectures": ["Ernie4_5_MoeForCausalLM"],
        "model_type": "ernie4_5_moe",
        "num_hidden_layers": 4,
        "intermediate_size": 72,
        "moe_intermediate_size": 40,
        "moe_num_experts": 16,
        "moe_num_shared_experts": 2,
        "moe_k": 4,
        "moe_layer_start_index": 1,
        "moe_layer_end_index": 2,  # the last layer is dense again
        "moe_layer_interval": 1,
        "moe_capacity": [16, 16, 16],
        "moe_gate": "topk",
        "moe_use_aux_free": True,
        "use_bias": False,
        "num_nextn_predict_layers": 1,
        "tie_word_embeddings": True,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "rope_scaling": None,
        "num_experts_per_tok": ABSENT,
        "attention_dropout": ABSENT,
        "output_router_logits": ABSENT,
        "router_aux_loss_coef": ABSENT,
    },
}

VARIANTS = {
    "ernie4_5_moe": ("ernie4_5_moe", {}, "BF16", 1),
    "ernie4_5_moe_interval": (
        "ernie4_5_moe",
        {
            "moe_layer_interval": 2,
            "moe_layer_end_index": -1,
            "moe_num_shared_experts": 0,
            "moe_norm_min": 1e-12,
            "head_dim": 24,
            "tie_word_embeddings": False,
            "num_nextn_predict_layers": 0,
            "rope_theta": ABSENT,
            "rope_scaling": ABSENT,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            "transformers_version": TRANSFORMERS_5,
        },
        "F32",
        1,
    ),
}


def is_sparse(config, layer):
    end = config["moe_layer_end_index"]
    last = config["num_hidden_layers"] - 1 if end == -1 else end
    inside = config["moe_layer_start_index"] <= layer <= last
    return inside and (layer + 1) % config["moe_layer_interval"] == 0


def ernie4_5_moe(config):
    hidden, count, width = (config[k] for k in ("hidden_size", "moe_num_experts", "moe_intermediate_size"))

    def attention(prefix, _):
        return grouped_query_attention(prefix, config)

    def feed_forward(layer, i):
        block = f"{layer}.mlp"
        if not is_sparse(config, i):
            yield from mlp(block, hidden, config["intermediate_size"])
            return
        yield f"{block}.gate.weight", (count, hidden)
        yield f"{block}.moe_statics.e_score_correction_bias", (1, count)
        yield from experts(block, count, hidden, width)
        if config["moe_num_shared_experts"]:
            yield from mlp(f"{block}.shared_experts", hidden, config["moe_num_shared_experts"] * width)

    yield from decoder(config, attention, feed_forward)
    for i in range(config["num_nextn_predict_layers"]):  # of multi-token prediction; servers may ignore them
        yield f"model.mtp_emb_norm.{i}.weight", (hidden,)
        yield f"model.mtp_hidden_norm.{i}.weight", (hidden,)
        yield f"model.mtp_linear_proj.{i}.weight", (hidden, 2 * hidden)
        yield from attention(f"model.mtp_block.{i}.self_attn", i)
        yield from mlp(f"model.mtp_block.{i}.mlp", hidden, config["intermediate_size"])


TENSORS = {"ernie4_5_moe": ernie4_5_moe}
FLOAT32 = {"ernie4_5_moe": ("mlp.gate.weight",)}
OUTPUTS = {"ernie4_5_moe": 0.35}
