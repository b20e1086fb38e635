"""Llama 4: the text model of Scout and Maverick."""

import numpy as np

from arithmetic import rms_norm, sigmoid, topk
from families.decoder import Decoder
from rotary import rope_by_pairs


class Llama4(Decoder):
    root = "language_model.model."

    def text_config(self, config):
        return config["text_config"]

    def take_experts_apart(self):
        """[E, in, out] of each product; the gate's outputs first."""
        for name in [name for name in self.tensors if ".feed_forward.experts." in name]:
            block, kind = name.rsplit(".", 1)
            for expert, values in enumerate(self.tensors.pop(name)):
                rows, prefix = values.T, f"{block}.{expert}"
                if kind == "down_proj":
                    self.tensors[f"{prefix}.down_proj.weight"] = rows
                    continue
                half = len(rows) // 2
                self.tensors[f"{prefix}.gate_proj.weight"] = rows[:half]
                self.tensors[f"{prefix}.up_proj.weight"] = rows[half:]

    def has_rotary(self, layer):
        rotary = self.config.get("no_rope_layers")  # 1 means that there is some
        if rotary:
            return rotary[layer] == 1
        return (layer + 1) % self.config.get("no_rope_layer_interval", 4) != 0

    def rotate(self, x):
        return rope_by_pairs(x, self.frequencies, self.rope_factor)

    def place(self, q, k, prefix, layer):
        config = self.config
        if self.has_rotary(layer):
            q, k = self.rotate(q), self.rotate(k)
            if config.get("use_qk_norm", True):
                q, k = rms_norm(q, 1.0, self.eps), rms_norm(k, 1.0, self.eps)
        elif config.get("attn_temperature_tuning", True):
            floors = np.floor((np.arange(len(q)) + 1.0) / config.get("floor_scale", 8192))
            q = q * (1.0 + config.get("attn_scale", 0.1) * np.log(1.0 + floors))[:, None, None]
        return q, k

    def attention_options(self, prefix, layer):
        return {"chunk": self.config.get("attention_chunk_size", 8192) if self.has_rotary(layer) else None}

    def is_sparse(self, layer):
        sparse = self.config.get("moe_layers")
        if sparse is not None:
            return layer in sparse
        return (layer + 1) % self.config["interleave_moe_layer_step"] == 0

    def feed_forward(self, x, layer):
        prefix = f"{self.root}layers.{layer}.feed_forward"
        if not self.is_sparse(layer):
            return self.gated_mlp(x, prefix)
        logits = self.project(x, prefix + ".router")
        chosen = topk(logits, self.config["num_experts_per_tok"])
        weights = sigmoid(np.take_along_axis(logits, chosen, axis=-1))
        return self.gated_mlp(x, prefix + ".shared_expert") + self.experts(x, prefix, chosen, weights)

    def experts(self, x, prefix, chosen, weights, names=("gate_proj", "up_proj", "down_proj")):
        """The weight scales what goes into an expert."""
        y = np.zeros_like(x)
        for expert in np.unique(chosen):
            rows, slots = np.nonzero(chosen == expert)
            scaled = self.rounded(weights[rows, slots, None] * x[rows])
            y[rows] += self.gated_mlp(scaled, f"{prefix}.experts.{expert}", names)
        return y
