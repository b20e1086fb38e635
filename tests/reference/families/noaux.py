"""Feed-forward layers with DeepSeek-V3's router, as several families have them."""

from families.decoder import Decoder
from routing import noaux_tc


class NoauxMoe(Decoder):
    """Dense layers first, then experts beside a shared one."""

    float32_tensors = ("mlp.gate.weight",)

    def is_sparse(self, layer):
        return layer >= self.config["first_k_dense_replace"]

    def route(self, x, prefix):
        config = self.config
        return noaux_tc(
            self.project(x, prefix + ".gate"),
            self.tensors[prefix + ".gate.e_score_correction_bias"],
            config["num_experts_per_tok"],
            config["norm_topk_prob"],
            config["routed_scaling_factor"],
            config.get("n_group") or 1,
            config.get("topk_group") or 1,
        )

    def feed_forward(self, x, layer):
        prefix = f"model.layers.{layer}.mlp"
        if not self.is_sparse(layer):
            return self.gated_mlp(x, prefix)
        y = self.experts(x, prefix, *self.route(x, prefix))
        if self.config.get("n_shared_experts"):
            y = y + self.gated_mlp(x, prefix + ".shared_experts")
        return y
