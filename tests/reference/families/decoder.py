"""What the families share: tensors from a folder, pre-norm layers, grouped-query attention, gated MLPs, experts."""

import glob
import json
import os

import numpy as np

import safetensors_file
from arithmetic import linear, rms_norm, silu
from attention import attention
from rotary import rope_by_halves, rope_frequencies
from rounding import exact


class Decoder:
    root = "model."
    float32_tensors = ()  # endings of matrices that a bfloat16 server keeps in float32

    def __init__(self, folder, rounded=exact):
        """`rounded` is what happens to whatever a product takes."""
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            self.config = self.text_config(json.load(file))
        self.tensors = {}
        for path in glob.glob(os.path.join(folder, "*.safetensors")):
            self.tensors.update(safetensors_file.read(path))
        self.take_experts_apart()
        self.rounded = rounded
        for name, values in self.tensors.items():
            if values.ndim == 2 and not name.endswith(self.float32_tensors):
                self.tensors[name] = rounded(values)
        config = self.config
        self.eps = config["rms_norm_eps"]
        self.head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        self.rope = config.get("rope_parameters") or {
            **(config.get("rope_scaling") or {}),
            "rope_theta": config["rope_theta"],
        }
        self.frequencies, self.rope_factor = rope_frequencies(
            self.rope, self.rotary_width(), config["max_position_embeddings"]
        )

    def text_config(self, config):
        return config

    def take_experts_apart(self):
        """For families that store the experts of a layer as one tensor: makes matrices [out, in] of each expert."""

    def rotary_width(self):
        """How many numbers of a head are turned."""
        return self.head_dim

    def project(self, x, name):
        return linear(x, self.tensors[name + ".weight"], self.tensors.get(name + ".bias"))

    def norm(self, x, name):
        return self.rounded(rms_norm(x, self.tensors[name + ".weight"], self.eps))

    def inner_norm(self, x, name):
        """A norm whose result goes into no product yet."""
        return rms_norm(x, self.tensors[name + ".weight"], self.eps)

    def attend(self, x, layer):
        prefix = f"{self.root}layers.{layer}.self_attn."
        q, k, v = (self.project(x, f"{prefix}{name}_proj") for name in "qkv")
        q, k = self.norm_projections(q, k, prefix)
        q, k, v = (y.reshape(len(x), -1, self.head_dim) for y in (q, k, v))
        q, k = self.place(q, k, prefix, layer)
        q, k, v = (self.rounded(y) for y in (q, k, v))
        y = attention(q, k, v, rounded=self.rounded, **self.attention_options(prefix, layer))
        return self.project(self.rounded(y), prefix + "o_proj")

    def norm_projections(self, q, k, prefix):
        """Before they are split into heads."""
        return q, k

    def place(self, q, k, prefix, layer):
        """Gives queries and keys [T, heads, head_dim] their positions, and norms per head if the family has them."""
        return self.rotate(q), self.rotate(k)

    def rotate(self, x):
        return rope_by_halves(x, self.frequencies, self.rope_factor)

    def attention_options(self, prefix, layer):
        return {}

    def gated_mlp(self, x, prefix, names=("gate_proj", "up_proj", "down_proj")):
        gate, up, down = (f"{prefix}.{name}" for name in names)
        inner = self.rounded(silu(self.project(x, gate)) * self.project(x, up))
        return self.rounded(self.project(inner, down))

    def experts(self, x, prefix, chosen, weights, names=("gate_proj", "up_proj", "down_proj")):
        y = np.zeros_like(x)
        for expert in np.unique(chosen):
            rows, slots = np.nonzero(chosen == expert)
            y[rows] += weights[rows, slots, None] * self.gated_mlp(x[rows], f"{prefix}.experts.{expert}", names)
        return y

    def embed(self, tokens):
        return self.tensors[self.root + "embed_tokens.weight"][np.asarray(tokens)]

    def logits(self, tokens):
        """[T, vocab_size] behind every token"""
        x = self.embed(tokens)
        for layer in range(self.config["num_hidden_layers"]):
            prefix = f"{self.root}layers.{layer}."
            x = x + self.attend(self.norm(x, prefix + "input_layernorm"), layer)
            x = x + self.feed_forward(self.norm(x, prefix + "post_attention_layernorm"), layer)
        return self.head(self.norm(x, self.root + "norm"))

    def head(self, x):
        if self.config.get("tie_word_embeddings"):
            return linear(x, self.tensors[self.root + "embed_tokens.weight"])
        return self.project(x, self.root.removesuffix("model.") + "lm_head")
