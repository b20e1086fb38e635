from families.decoder import Decoder
from routing import softmax_topk


class Olmoe(Decoder):
    def norm_projections(self, q, k, prefix):
        return self.inner_norm(q, prefix + "q_norm"), self.inner_norm(k, prefix + "k_norm")

    def feed_forward(self, x, layer):
        prefix = f"model.layers.{layer}.mlp"
        config = self.config
        routed = softmax_topk(
            self.project(x, prefix + ".gate"), config["num_experts_per_tok"], config["norm_topk_prob"]
        )
        return self.experts(x, prefix, *routed)
