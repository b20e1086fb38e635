"""What the families' lists of tensors share, as (name, shape), and the fields that their configs share."""

EOS = 256

# 260 is no multiple of 16, 40 none of 16 or 32: every kernel has a remainder.
TINY = {
    "vocab_size": 260,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_act": "silu",
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
    "num_experts_per_tok": 2,
    "initializer_range": 0.02,
    "use_cache": True,
    "bos_token_id": EOS,
    "eos_token_id": EOS,
    "attention_dropout": 0.0,
    "output_router_logits": False,
    "router_aux_loss_coef": 0.001,
    "transformers_version": "4.51.0",
}

ABSENT = object()  # the value of a field that a config does not have
TRANSFORMERS_5 = "5.2.0"

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}

GATE_UP_DOWN = ("gate_proj", "up_proj", "down_proj")
W1_W3_W2 = ("w1", "w3", "w2")


def head_dim_of(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def linear(name, outputs, inputs, bias=False):
    yield f"{name}.weight", (outputs, inputs)
    if bias:
        yield f"{name}.bias", (outputs,)


def decoder(config, attention, feed_forward, root="model.", head_bias=False, norm_bias=False):
    """Every tensor, layer by layer; attention(prefix, layer) and feed_forward(prefix, layer) give those of a layer."""
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]

    def norm(name):
        yield f"{name}.weight", (hidden,)
        if norm_bias:
            yield f"{name}.bias", (hidden,)

    yield f"{root}embed_tokens.weight", (vocabulary, hidden)
    for i in range(config["num_hidden_layers"]):
        yield from norm(f"{root}layers.{i}.input_layernorm")
        yield from norm(f"{root}layers.{i}.post_attention_layernorm")
        yield from attention(f"{root}layers.{i}.self_attn", i)
        yield from feed_forward(f"{root}layers.{i}", i)
    yield from norm(f"{root}norm")
    if not config.get("tie_word_embeddings", False):
        yield from linear(root.removesuffix("model.") + "lm_head", vocabulary, hidden, head_bias)


def grouped_query_attention(prefix, config, bias=False, output_bias=False):
    hidden, head_dim = config["hidden_size"], head_dim_of(config)
    q, kv = (config[f"num_{heads}_heads"] * head_dim for heads in ("attention", "key_value"))
    for name, width in (("q", q), ("k", kv), ("v", kv)):
        yield from linear(f"{prefix}.{name}_proj", width, hidden, bias)
    yield from linear(f"{prefix}.o_proj", hidden, q, output_bias)


def norms_of_projections(prefix, config):
    head_dim = head_dim_of(config)
    yield f"{prefix}.q_norm.weight", (config["num_attention_heads"] * head_dim,)
    yield f"{prefix}.k_norm.weight", (config["num_key_value_heads"] * head_dim,)


def norms_of_heads(prefix, config, names=("q_norm", "k_norm")):
    for name in names:
        yield f"{prefix}.{name}.weight", (head_dim_of(config),)


def mlp(prefix, hidden, ffn, names=GATE_UP_DOWN):
    gate, up, down = names
    yield f"{prefix}.{gate}.weight", (ffn, hidden)
    yield f"{prefix}.{up}.weight", (ffn, hidden)
    yield f"{prefix}.{down}.weight", (hidden, ffn)


def experts(prefix, count, hidden, ffn, names=GATE_UP_DOWN):
    for e in range(count):
        yield from mlp(f"{prefix}.experts.{e}", hidden, ffn, names)
