"""GPT-MoE: GPT-2's decoder with experts in every second layer, in Megatron-DeepSpeed's names."""

import numpy as np

from arithmetic import gelu, gelu_tanh, layer_norm, linear
from attention import attention
from families.decoder import Decoder
from routing import softmax_topk

USUAL = {
    "hidden_size": "n_embd",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
    "max_position_embeddings": "n_positions",
    "rms_norm_eps": "layer_norm_epsilon",
}


class GptMoe(Decoder):
    float32_tensors = ("gate.wg.weight", "position_embeddings.weight")

    def text_config(self, config):
        """With the usual names. Nothing is rotated."""
        return {**config, **{usual: config[name] for usual, name in USUAL.items()}, "rope_theta": 1.0}

    def norm(self, x, name):
        return self.rounded(layer_norm(x, self.tensors[name + ".weight"], self.tensors[name + ".bias"], self.eps))

    def attend(self, x, prefix):
        qkv = self.project(x, prefix + ".query_key_value").reshape(len(x), 3, -1, self.head_dim)
        q, k, v = (self.rounded(qkv[:, i]) for i in range(3))
        return self.project(self.rounded(attention(q, k, v, rounded=self.rounded)), prefix + ".dense")

    def gated_mlp(self, x, prefix, names=None):
        """It has no gate."""
        act = gelu if self.config["activation_function"] == "gelu" else gelu_tanh
        inner = self.rounded(act(self.project(x, prefix + ".dense_h_to_4h")))
        return self.rounded(self.project(inner, prefix + ".dense_4h_to_h"))

    def experts_of(self, layer):
        interval, counts = self.config["expert_interval"], self.config["num_experts"]
        if (layer + 1) % interval != 0:
            return 1
        return counts[layer // interval] if isinstance(counts, list) else counts

    def feed_forward(self, x, prefix, layer):
        if self.experts_of(layer) == 1:
            return self.gated_mlp(x, prefix)
        moe, k = prefix + ".deepspeed_moe", self.config["num_experts_per_tok"]
        routed = softmax_topk(self.project(x, moe + ".gate.wg"), k, normalize=k == 2)
        return self.experts(x, moe, *routed)

    def experts(self, x, prefix, chosen, weights, names=None):
        y = np.zeros_like(x)
        for expert in np.unique(chosen):
            rows, slots = np.nonzero(chosen == expert)
            name = f"{prefix}.experts.deepspeed_experts.{expert}"
            y[rows] += weights[rows, slots, None] * self.gated_mlp(x[rows], name)
        return y

    def logits(self, tokens):
        words, positions = (
            self.tensors[f"language_model.embedding.{kind}_embeddings.weight"] for kind in ("word", "position")
        )
        x = words[np.asarray(tokens)] + positions[: len(tokens)]
        for layer in range(self.config["num_hidden_layers"]):
            prefix = f"language_model.encoder.layers.{layer}."
            x = x + self.attend(self.norm(x, prefix + "input_layernorm"), prefix + "self_attention")
            x = x + self.feed_forward(self.norm(x, prefix + "post_attention_layernorm"), prefix + "mlp", layer)
        x = self.norm(x, "language_model.encoder.final_layernorm")
        if self.config.get("tie_word_embeddings", True):
            return linear(x, words)
        return self.project(x, "language_model.output_layer")
