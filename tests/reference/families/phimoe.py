"""Phi-3.5-MoE."""

import numpy as np

from arithmetic import layer_norm
from families.decoder import Decoder
from rotary import rope_kind
from routing import sparsemixer


class Phimoe(Decoder):
    def norm(self, x, name):
        return self.rounded(layer_norm(x, self.tensors[name + ".weight"], self.tensors[name + ".bias"], self.eps))

    def logits(self, tokens):
        if rope_kind(self.rope) == "longrope":
            self.choose_longrope(len(tokens))
        return super().logits(tokens)

    def choose_longrope(self, length):
        """As transformers does: by the length of the sequence, for all its positions."""
        trained = self.rope.get("original_max_position_embeddings") or self.config["original_max_position_embeddings"]
        kind = "long" if length > trained else "short"
        pairs = np.arange(0, self.head_dim, 2, dtype=np.float64)
        self.frequencies = self.rope["rope_theta"] ** (-pairs / self.head_dim) / np.array(self.rope[kind + "_factor"])
        self.rope_factor = self.rope[kind + "_mscale"]

    def feed_forward(self, x, layer):
        prefix = f"model.layers.{layer}.block_sparse_moe"
        routed = sparsemixer(self.project(x, prefix + ".gate"), self.config["router_jitter_noise"])
        return self.experts(x, prefix, *routed, ("w1", "w3", "w2"))
