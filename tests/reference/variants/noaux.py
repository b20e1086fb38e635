"""Feed-forward tensors beside DeepSeek-V3's router, and those of a multi-token prediction layer."""

from variants.parts import experts, mlp


def sparse_block(config, prefix):
    hidden, width, count = config["hidden_size"], config["moe_intermediate_size"], config["n_routed_experts"]
    yield f"{prefix}.gate.weight", (count, hidden)
    if config.get("topk_method", "noaux_tc") == "noaux_tc":
        yield f"{prefix}.gate.e_score_correction_bias", (count,)
    yield from experts(prefix, count, hidden, width)
    if config.get("n_shared_experts"):
        yield from mlp(f"{prefix}.shared_experts", hidden, config["n_shared_experts"] * width)


def dense_or_sparse(config):
    def feed_forward(layer, i):
        if i < config["first_k_dense_replace"]:
            return mlp(f"{layer}.mlp", config["hidden_size"], config["intermediate_size"])
        return sparse_block(config, f"{layer}.mlp")

    return feed_forward


def prediction_layers(config, attention, feed_forward):
    """The layers behind the last that predict more tokens at a time, as published; servers may ignore them."""
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    first = config["num_hidden_layers"]
    for i in range(first, first + config.get("num_nextn_predict_layers", 0)):
        layer = f"model.layers.{i}"
        yield f"{layer}.embed_tokens.weight", (vocabulary, hidden)
        for name in ("enorm", "hnorm", "input_layernorm", "post_attention_layernorm", "shared_head.norm"):
            yield f"{layer}.{name}.weight", (hidden,)
        yield f"{layer}.eh_proj.weight", (hidden, 2 * hidden)
        yield f"{layer}.shared_head.head.weight", (vocabulary, hidden)
        yield from attention(f"{layer}.self_attn", i)
        yield from feed_forward(layer, i)
