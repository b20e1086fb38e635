from families.decoder import Decoder
from routing import softmax_topk


class Mixtral(Decoder):
    def attention_options(self, prefix, layer):
        return {"window": self.config.get("sliding_window")}

    def feed_forward(self, x, layer):
        prefix = f"model.layers.{layer}.block_sparse_moe"
        routed = softmax_topk(self.project(x, prefix + ".gate"), self.config["num_experts_per_tok"], True)
        return self.experts(x, prefix, *routed, ("w1", "w3", "w2"))
