"""Granite 3 MoE, with and without a shared MLP."""

from families.decoder import Decoder
from routing import topk_softmax


class GraniteMoe(Decoder):
    def take_experts_apart(self):
        fused = [name for name in self.tensors if name.endswith(("input_linear.weight", "output_linear.weight"))]
        for name in fused:
            block, matrix, _ = name.rsplit(".", 2)
            values = self.tensors.pop(name)
            if values.ndim == 2:
                self.add_mlp(block, matrix, values)
                continue
            for expert, of_expert in enumerate(values):
                self.add_mlp(f"{block}.experts.{expert}", matrix, of_expert)

    def add_mlp(self, prefix, matrix, values):
        if matrix == "output_linear":
            self.tensors[prefix + ".down_proj.weight"] = values
            return
        half = len(values) // 2
        self.tensors[prefix + ".gate_proj.weight"] = values[:half]
        self.tensors[prefix + ".up_proj.weight"] = values[half:]

    def embed(self, tokens):
        return super().embed(tokens) * self.config["embedding_multiplier"]

    def attention_options(self, prefix, layer):
        return {"scale": self.config["attention_multiplier"]}

    def attend(self, x, layer):
        return super().attend(x, layer) * self.config["residual_multiplier"]

    def feed_forward(self, x, layer):
        prefix = f"model.layers.{layer}.block_sparse_moe"
        routed = topk_softmax(self.project(x, prefix + ".router.layer"), self.config["num_experts_per_tok"])
        y = self.experts(x, prefix, *routed)
        if self.config.get("shared_intermediate_size"):
            y = y + self.gated_mlp(x, f"model.layers.{layer}.shared_mlp")
        return y * self.config["residual_multiplier"]

    def head(self, x):
        return super().head(x) / self.config["logits_scaling"]
