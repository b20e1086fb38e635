"""Hunyuan-A13B."""

from families.decoder import Decoder
from routing import softmax_topk


class HunYuanMoEV1(Decoder):
    float32_tensors = ("mlp.gate.wg.weight",)

    def place(self, q, k, prefix, layer):
        q, k = self.rotate(q), self.rotate(k)
        return self.inner_norm(q, prefix + "query_layernorm"), self.inner_norm(k, prefix + "key_layernorm")

    def feed_forward(self, x, layer):
        prefix = f"model.layers.{layer}.mlp"
        k = self.config["moe_topk"]
        routed = softmax_topk(self.project(x, prefix + ".gate.wg"), k[layer] if isinstance(k, list) else k, True)
        return self.gated_mlp(x, prefix + ".shared_mlp") + self.experts(x, prefix, *routed)
