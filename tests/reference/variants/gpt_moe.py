from variants.parts import ABSENT, linear

ARCHITECTURES = {
    "gpt_moe": {
        "architectures": ["GptMoeForCausalLM"],
        "model_type": "gpt_moe",
        "n_embd": 64,
        "n_layer": 4,
        "n_head": 4,
        "n_positions": 256,
        "n_inner": None,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "num_experts": 8,
        "num_experts_per_tok": 1,
        "expert_interval": 2,
        "tie_word_embeddings": True,
        "attn_pdrop": 0.1,
        "embd_pdrop": 0.1,
        "resid_pdrop": 0.1,
        **dict.fromkeys(
            (
                "hidden_size",
                "num_hidden_layers",
                "num_attention_heads",
                "num_key_value_heads",
                "max_position_embeddings",
                "hidden_act",
                "attention_dropout",
                "output_router_logits",
                "router_aux_loss_coef",
            ),
            ABSENT,
        ),
    },
}

VARIANTS = {
    "gpt_moe": ("gpt_moe", {}, "BF16", 1),
    "gpt_moe_top2": (
        "gpt_moe",
        {
            "activation_function": "gelu",
            "n_inner": 40,
            "n_layer": 5,
            "num_experts": [4, 8],
            "num_experts_per_tok": 2,
            "tie_word_embeddings": False,
        },
        "F32",
        2,
    ),
}


def experts_of(config, layer):
    interval, counts = config["expert_interval"], config["num_experts"]
    if (layer + 1) % interval != 0:
        return 1
    return counts[layer // interval] if isinstance(counts, list) else counts


def gpt_moe(config):
    hidden = config["n_embd"]
    width = config["n_inner"] or 4 * hidden

    def norm(name):
        yield f"{name}.weight", (hidden,)
        yield f"{name}.bias", (hidden,)

    def mlp(name):
        yield from linear(f"{name}.dense_h_to_4h", width, hidden, bias=True)
        yield from linear(f"{name}.dense_4h_to_h", hidden, width, bias=True)

    yield "language_model.embedding.word_embeddings.weight", (config["vocab_size"], hidden)
    yield "language_model.embedding.position_embeddings.weight", (config["n_positions"], hidden)
    for i in range(config["n_layer"]):
        layer = f"language_model.encoder.layers.{i}"
        yield from norm(f"{layer}.input_layernorm")
        yield from linear(f"{layer}.self_attention.query_key_value", 3 * hidden, hidden, bias=True)
        yield from linear(f"{layer}.self_attention.dense", hidden, hidden, bias=True)
        yield from norm(f"{layer}.post_attention_layernorm")
        count = experts_of(config, i)
        if count == 1:
            yield from mlp(f"{layer}.mlp")
            continue
        yield f"{layer}.mlp.deepspeed_moe.gate.wg.weight", (count, hidden)
        for e in range(count):
            yield from mlp(f"{layer}.mlp.deepspeed_moe.experts.deepspeed_experts.{e}")
    yield from norm("language_model.encoder.final_layernorm")
    if not config["tie_word_embeddings"]:
        yield "language_model.output_layer.weight", (config["vocab_size"], hidden)


TENSORS = {"gpt_moe": gpt_moe}
FLOAT32 = {"gpt_moe": ("gate.wg.weight",)}
