"""MiniMax-M2."""

from families.decoder import Decoder
from routing import noaux_tc


class MiniMaxM2(Decoder):
    float32_tensors = ("block_sparse_moe.gate.weight",)

    def rotary_width(self):
        rope = self.config.get("rope_parameters") or {}
        if "partial_rotary_factor" in rope:
            return int(self.head_dim * rope["partial_rotary_factor"])
        return self.config["rotary_dim"]

    def norm_projections(self, q, k, prefix):
        return self.inner_norm(q, prefix + "q_norm"), self.inner_norm(k, prefix + "k_norm")

    def feed_forward(self, x, layer):
        prefix = f"model.layers.{layer}.block_sparse_moe"
        bias = self.tensors[prefix + ".e_score_correction_bias"]
        routed = noaux_tc(self.project(x, prefix + ".gate"), bias, self.config["num_experts_per_tok"], True, 1.0)
        return self.experts(x, prefix, *routed, ("w1", "w3", "w2"))
