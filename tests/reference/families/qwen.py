"""Qwen2-MoE and Qwen3-MoE."""

from arithmetic import sigmoid
from families.decoder import Decoder
from routing import softmax_topk


class QwenMoe(Decoder):
    def is_sparse(self, layer):
        if layer in self.config.get("mlp_only_layers", []):
            return False
        return (layer + 1) % self.config.get("decoder_sparse_step", 1) == 0

    def feed_forward(self, x, layer):
        prefix = f"model.layers.{layer}.mlp"
        if not self.is_sparse(layer):
            return self.gated_mlp(x, prefix)
        config = self.config
        routed = softmax_topk(
            self.project(x, prefix + ".gate"), config["num_experts_per_tok"], config["norm_topk_prob"]
        )
        return self.experts(x, prefix, *routed) + self.shared(x, prefix)

    def shared(self, x, prefix):
        return 0.0


class Qwen2Moe(QwenMoe):
    def attention_options(self, prefix, layer):
        config = self.config
        if not config.get("use_sliding_window"):
            return {}
        types = config.get("layer_types")
        if types:
            slides = types[layer] == "sliding_attention"
        else:
            slides = layer % 2 == 0 and layer < config["max_window_layers"]
        return {"window": config["sliding_window"] if slides else None}

    def shared(self, x, prefix):
        gate = sigmoid(self.project(x, prefix + ".shared_expert_gate"))
        return gate * self.gated_mlp(x, prefix + ".shared_expert")


class Qwen3Moe(QwenMoe):
    def attention_options(self, prefix, layer):
        return {"window": self.config["sliding_window"] if self.config.get("use_sliding_window") else None}

    def place(self, q, k, prefix, layer):
        q, k = self.inner_norm(q, prefix + "q_norm"), self.inner_norm(k, prefix + "k_norm")
        return self.rotate(q), self.rotate(k)
