#!/usr/bin/python3
"""Reference forward pass of the supported architectures in float64, written for reading, from the definitions that
transformers gives of them; independent of the C++ code and of its config parser.

    reference.py MODEL_DIR --prompt 1,2,3 [--greedy 16] [--rounded-runs 8] > result.json

Prints {"logprobs": [T][V] log-softmax behind every prompt token, "greedy": the most probable continuation, "margins": by
how much each greedy token beat the second, "rounding_errors": how far bfloat16 may move such a margin}.

The last is measured, not guessed: the same model runs several times with everything rounded to bfloat16 that a bfloat16
server must round (weights, what products take, the KV cache, what experts return), up or down at random, so that
near-ties in routers fall either way; the largest shift of the winner against any other token counts.
"""

import argparse
import glob
import json
import os

import numpy as np

import safetensors_file


def linear(x, weight, bias=None):
    """x [T, in], weight [out, in]"""
    y = x @ weight.T
    return y if bias is None else y + bias


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def log_softmax(x):
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def topk(x, k):
    """Indices of the k largest of each row, largest first, lower index first among equals."""
    return np.argsort(-x, axis=-1, kind="stable")[:, :k]


def rope_frequencies(rope, head_dim, max_position):
    """([head_dim / 2] angles per position, factor of cos and sin)"""
    kind = rope.get("rope_type", rope.get("type", "default"))
    pairs = np.arange(0, head_dim, 2, dtype=np.float64)
    inverse = rope["rope_theta"] ** (-pairs / head_dim)
    if kind == "default":
        return inverse, 1.0
    factor = rope["factor"]
    if kind == "linear":
        return inverse / factor, 1.0
    if kind == "llama3":
        return llama3_frequencies(rope, inverse), 1.0
    assert kind == "yarn", kind
    trained = rope.get("original_max_position_embeddings", max_position)

    def dimension_turning(rotations):
        return head_dim * np.log(trained / (rotations * 2 * np.pi)) / (2 * np.log(rope["rope_theta"]))

    low = max(np.floor(dimension_turning(rope.get("beta_fast", 32.0))), 0.0)
    high = min(np.ceil(dimension_turning(rope.get("beta_slow", 1.0))), head_dim - 1.0)
    if low == high:
        high += 0.001
    kept = 1.0 - np.clip((np.arange(head_dim // 2) - low) / (high - low), 0.0, 1.0)
    attention_factor = rope.get("attention_factor", 0.1 * np.log(factor) + 1.0)
    return inverse / factor * (1.0 - kept) + inverse * kept, attention_factor


def llama3_frequencies(rope, inverse):
    trained, low, high = (
        rope[k] for k in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
    )
    rotations = trained * inverse / (2 * np.pi)  # over the trained context
    blend = np.clip((rotations - low) / (high - low), 0.0, 1.0)
    return (1.0 - blend) * inverse / rope["factor"] + blend * inverse


def apply_rope(x, frequencies, factor):
    """x [T, heads, head_dim]; the first half of a head is paired with the second."""
    half = x.shape[-1] // 2
    angles = np.arange(x.shape[0])[:, None, None] * frequencies
    cos, sin = np.cos(angles) * factor, np.sin(angles) * factor
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def exact(x):
    return x


class StochasticBfloat16:
    """Rounds to one of the two neighbouring bfloat16 values, the nearer one more often."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, x):
        bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
        noise = self.rng.integers(0, 1 << 16, size=bits.shape, dtype=np.uint32)
        return ((bits + noise) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


def attention(q, k, v, window, rounded=exact):
    """q [T, heads, d], k and v [T, kv_heads, d]; causal; a query sees `window` keys at most (None: all)."""
    tokens, heads, head_dim = q.shape
    k, v = (np.repeat(x, heads // x.shape[1], axis=1) for x in (k, v))
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(head_dim)
    age = np.arange(tokens)[:, None] - np.arange(tokens)[None, :]
    hidden = (age < 0) | (age >= window if window else False)
    scores = np.where(hidden, -np.inf, scores)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    total = p.sum(axis=-1).T[:, :, None]  # [T, heads, 1]
    return (np.einsum("hqk,khd->qhd", rounded(p), v) / total).reshape(tokens, -1)


class Model:
    def __init__(self, folder, rounded=exact):
        """`rounded` is what happens to whatever a product takes."""
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        self.tensors = {}
        for path in glob.glob(os.path.join(folder, "*.safetensors")):
            self.tensors.update(safetensors_file.read(path))
        self.rounded = rounded
        for name, values in self.tensors.items():
            if values.ndim == 2:
                self.tensors[name] = rounded(values)
        config = self.config
        self.kind = config["architectures"][0]
        self.eps = config["rms_norm_eps"]
        self.head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        rope = config.get("rope_parameters") or {**(config.get("rope_scaling") or {}), "rope_theta": config["rope_theta"]}
        self.frequencies, self.rope_factor = rope_frequencies(rope, self.head_dim, config["max_position_embeddings"])

    def project(self, x, name):
        return linear(x, self.tensors[name + ".weight"], self.tensors.get(name + ".bias"))

    def norm(self, x, name):
        return self.rounded(rms_norm(x, self.tensors[name + ".weight"], self.eps))

    def window(self, layer):
        config = self.config
        if self.kind == "MixtralForCausalLM":
            return config.get("sliding_window")
        if self.kind == "OlmoeForCausalLM" or not config.get("use_sliding_window"):
            return None
        if self.kind == "Qwen3MoeForCausalLM":
            return config["sliding_window"]
        types = config.get("layer_types")
        slides = types[layer] == "sliding_attention" if types else layer % 2 == 0 and layer < config["max_window_layers"]
        return config["sliding_window"] if slides else None

    def attend(self, x, layer):
        prefix = f"model.layers.{layer}.self_attn."
        q, k, v = (self.project(x, f"{prefix}{name}_proj") for name in "qkv")
        if self.kind == "OlmoeForCausalLM":  # one norm over all heads
            q = rms_norm(q, self.tensors[prefix + "q_norm.weight"], self.eps)
            k = rms_norm(k, self.tensors[prefix + "k_norm.weight"], self.eps)
        q, k, v = (y.reshape(len(x), -1, self.head_dim) for y in (q, k, v))
        if self.kind == "Qwen3MoeForCausalLM":  # a norm per head
            q = rms_norm(q, self.tensors[prefix + "q_norm.weight"], self.eps)
            k = rms_norm(k, self.tensors[prefix + "k_norm.weight"], self.eps)
        q, k = (apply_rope(y, self.frequencies, self.rope_factor) for y in (q, k))
        q, k, v = (self.rounded(y) for y in (q, k, v))
        y = attention(q, k, v, self.window(layer), self.rounded)
        return self.project(self.rounded(y), prefix + "o_proj")

    def gated_mlp(self, x, prefix, names=("gate_proj", "up_proj", "down_proj")):
        gate, up, down = (f"{prefix}.{name}" for name in names)
        inner = self.rounded(silu(self.project(x, gate)) * self.project(x, up))
        return self.rounded(self.project(inner, down))

    def feed_forward(self, x, layer):
        if self.kind == "MixtralForCausalLM":
            return self.experts(x, f"model.layers.{layer}.block_sparse_moe", True, ("w1", "w3", "w2"))
        prefix = f"model.layers.{layer}.mlp"
        sparse = layer not in self.config.get("mlp_only_layers", [])
        if not sparse or (layer + 1) % self.config.get("decoder_sparse_step", 1) != 0:
            return self.gated_mlp(x, prefix)
        y = self.experts(x, prefix, self.config["norm_topk_prob"])
        if self.kind == "Qwen2MoeForCausalLM":
            y = y + sigmoid(self.project(x, prefix + ".shared_expert_gate")) * self.gated_mlp(x, prefix + ".shared_expert")
        return y

    def experts(self, x, prefix, normalize, names=("gate_proj", "up_proj", "down_proj")):
        scores = softmax(self.project(x, prefix + ".gate"))
        chosen = topk(scores, self.config["num_experts_per_tok"])
        weights = np.take_along_axis(scores, chosen, axis=-1)
        if normalize:
            weights = weights / weights.sum(axis=-1, keepdims=True)
        y = np.zeros_like(x)
        for expert in np.unique(chosen):
            rows, slots = np.nonzero(chosen == expert)
            y[rows] += weights[rows, slots, None] * self.gated_mlp(x[rows], f"{prefix}.experts.{expert}", names)
        return y

    def logits(self, tokens):
        """[T, vocab_size] behind every token"""
        x = self.tensors["model.embed_tokens.weight"][np.asarray(tokens)]
        for layer in range(self.config["num_hidden_layers"]):
            prefix = f"model.layers.{layer}."
            x = x + self.attend(self.norm(x, prefix + "input_layernorm"), layer)
            x = x + self.feed_forward(self.norm(x, prefix + "post_attention_layernorm"), layer)
        x = self.norm(x, "model.norm")
        tied = self.config["tie_word_embeddings"]
        return linear(x, self.tensors["model.embed_tokens.weight" if tied else "lm_head.weight"])


def run(folder, prompt, greedy, rounded_runs):
    model = Model(folder)
    tokens = list(prompt)
    logprobs = log_softmax(model.logits(tokens))
    for _ in range(greedy):
        tokens.append(int(np.argmax(logprobs[-1])))
        logprobs = log_softmax(model.logits(tokens))
    steps = np.arange(len(prompt) - 1, len(tokens) - 1)  # positions that the greedy tokens were taken from
    top = topk(logprobs[steps], 2)
    ahead = np.take_along_axis(logprobs[steps], top[:, :1], axis=-1) - logprobs[steps]  # of every other token
    errors = np.zeros(len(steps))
    for seed in range(rounded_runs):
        rounded = Model(folder, StochasticBfloat16(seed)).logits(tokens)[steps]
        shift = np.take_along_axis(rounded, top[:, :1], axis=-1) - rounded - ahead
        errors = np.maximum(errors, np.abs(shift).max(axis=-1))
    return {
        "logprobs": logprobs[: len(prompt)].tolist(),
        "greedy": tokens[len(prompt) :],
        "margins": np.take_along_axis(ahead, top[:, 1:], axis=-1)[:, 0].tolist(),
        "rounding_errors": errors.tolist(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--prompt", required=True, help="token ids, separated by commas")
    parser.add_argument("--greedy", type=int, default=0, help="tokens to continue with")
    parser.add_argument("--rounded-runs", type=int, default=0, help="runs in bfloat16 that measure rounding errors")
    args = parser.parse_args()
    prompt = [int(token) for token in args.prompt.split(",")]
    print(json.dumps(run(args.model, prompt, args.greedy, args.rounded_runs)))


if __name__ == "__main__":
    main()
