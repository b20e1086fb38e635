"""ERNIE 4.5."""

from families.decoder import Decoder
from rotary import rope_by_pairs
from routing import biased_softmax


class Ernie45Moe(Decoder):
    float32_tensors = ("mlp.gate.weight", "e_score_correction_bias")

    def rotate(self, x):
        return rope_by_pairs(x, self.frequencies, self.rope_factor)

    def is_sparse(self, layer):
        config = self.config
        end = config.get("moe_layer_end_index", -1)
        last = config["num_hidden_layers"] - 1 if end == -1 else end
        inside = config["moe_layer_start_index"] <= layer <= last
        return inside and (layer + 1) % config["moe_layer_interval"] == 0

    def feed_forward(self, x, layer):
        prefix = f"model.layers.{layer}.mlp"
        if not self.is_sparse(layer):
            return self.gated_mlp(x, prefix)
        config = self.config
        bias = self.tensors[prefix + ".moe_statics.e_score_correction_bias"]
        smallest_sum = config.get("moe_norm_min", 1e-12)
        routed = biased_softmax(self.project(x, prefix + ".gate"), bias, config["moe_k"], smallest_sum)
        y = self.experts(x, prefix, *routed)
        if config.get("moe_num_shared_experts"):
            y = y + self.gated_mlp(x, prefix + ".shared_experts")
        return y
