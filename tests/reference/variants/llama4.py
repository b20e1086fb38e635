"""Llama 4: Scout's and Maverick's kind, with a vision model that text does not need."""

from variants.parts import ABSENT, TINY, TRANSFORMERS_5, decoder, grouped_query_attention, mlp

TEXT = {
    **{name: value for name, value in TINY.items() if name not in ("tie_word_embeddings", "transformers_version")},
    "model_type": "llama4_text",
    "num_hidden_layers": 4,
    "head_dim": 24,
    "attention_bias": False,
    "attention_chunk_size": 13,
    "intermediate_size": 40,
    "intermediate_size_mlp": 72,
    "interleave_moe_layer_step": 1,
    "num_local_experts": 8,
    "num_experts_per_tok": 1,
    "no_rope_layers": [],
    "attn_temperature_tuning": True,
    "floor_scale": 8,
    "attn_scale": 0.1,
    "use_qk_norm": True,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "factor": 16.0,
        "high_freq_factor": 1.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 64,
        "rope_type": "llama3",
    },
    "pad_token_id": 259,
}

VISION = {"model_type": "llama4_vision_model", "hidden_size": 24, "num_hidden_layers": 1, "patch_size": 2}

ARCHITECTURES = {
    "llama4": {
        **{name: ABSENT for name in TINY if name not in ("tie_word_embeddings", "transformers_version")},
        "architectures": ["Llama4ForConditionalGeneration"],
        "model_type": "llama4",
        "boi_token_index": 259,
        "eoi_token_index": 259,
        "image_token_index": 259,
        "text_config": TEXT,
        "vision_config": VISION,
    },
}

VARIANTS = {
    # As Scout: experts in every layer. The fourth layer has no rotary embedding.
    "llama4": ("llama4", {}, "BF16", 1),
    # As Maverick: every other layer is dense, and there is no norm of queries and keys.
    "llama4_maverick": (
        "llama4",
        {
            "text_config": {
                **TEXT,
                "interleave_moe_layer_step": 2,
                "use_qk_norm": False,
                "rope_scaling": None,
                "no_rope_layers": [1, 0, 1, 0],
            }
        },
        "BF16",
        2,
    ),
    "llama4_rope_parameters": (
        "llama4",
        {
            "text_config": {
                **{name: value for name, value in TEXT.items() if name not in ("rope_theta", "rope_scaling")},
                "rope_parameters": {
                    "rope_type": "llama3",
                    "rope_theta": 10000.0,
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 64,
                },
                "moe_layers": [0, 2, 3],
                "no_rope_layers": [1, 1, 0, 1],
                "layer_types": ["chunked_attention", "chunked_attention", "full_attention", "chunked_attention"],
            },
            "transformers_version": TRANSFORMERS_5,
        },
        "F32",
        1,
    ),
}


def is_sparse(config, layer):
    if "moe_layers" in config:
        return layer in config["moe_layers"]
    return (layer + 1) % config["interleave_moe_layer_step"] == 0


def llama4(config):
    text, vision = config["text_config"], config["vision_config"]["hidden_size"]
    hidden, count, width = (text[k] for k in ("hidden_size", "num_local_experts", "intermediate_size"))

    def attention(prefix, _):
        return grouped_query_attention(prefix, text)

    def feed_forward(layer, i):
        block = f"{layer}.feed_forward"
        if not is_sparse(text, i):
            yield from mlp(block, hidden, text["intermediate_size_mlp"])
            return
        yield f"{block}.router.weight", (count, hidden)
        yield f"{block}.experts.gate_up_proj", (count, hidden, 2 * width)
        yield f"{block}.experts.down_proj", (count, width, hidden)
        yield from mlp(f"{block}.shared_expert", hidden, width)

    yield from decoder(text, attention, feed_forward, root="language_model.model.")
    yield "multi_modal_projector.linear_1.weight", (hidden, vision)
    yield "vision_model.class_embedding", (vision,)
    for name in "qkvo":
        yield f"vision_model.model.layers.0.self_attn.{name}_proj.weight", (vision, vision)
        yield f"vision_model.model.layers.0.self_attn.{name}_proj.bias", (vision,)


TENSORS = {"llama4": llama4}
OUTPUTS = {"llama4": 0.25}
