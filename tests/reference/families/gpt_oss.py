import numpy as np

from arithmetic import sigmoid
from families.decoder import Decoder
from routing import topk_softmax


class GptOss(Decoder):
    def take_experts_apart(self):
        """[E, in, out] of each product; gate and up lie in turn."""
        for name in [name for name in self.tensors if ".mlp.experts." in name]:
            block, kind = name.rsplit(".", 1)
            values = self.tensors.pop(name)
            ending = "bias" if kind.endswith("_bias") else "weight"
            for expert, of_expert in enumerate(values):
                rows, prefix = of_expert.T if ending == "weight" else of_expert, f"{block}.{expert}"
                if kind.startswith("gate_up"):
                    self.tensors[f"{prefix}.gate_proj.{ending}"] = rows[0::2]
                    self.tensors[f"{prefix}.up_proj.{ending}"] = rows[1::2]
                else:
                    self.tensors[f"{prefix}.down_proj.{ending}"] = rows

    def attention_options(self, prefix, layer):
        slides = self.config["layer_types"][layer] == "sliding_attention"
        return {"window": self.config["sliding_window"] if slides else None, "sinks": self.tensors[prefix + "sinks"]}

    def gated_mlp(self, x, prefix, names=("gate_proj", "up_proj", "down_proj")):
        gate, up = (self.project(x, f"{prefix}.{name}") for name in names[:2])
        limit = self.config["swiglu_limit"]
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
        inner = self.rounded((up + 1.0) * gate * sigmoid(1.702 * gate))
        return self.rounded(self.project(inner, f"{prefix}.{names[2]}"))

    def feed_forward(self, x, layer):
        prefix = f"model.layers.{layer}.mlp"
        routed = topk_softmax(self.project(x, prefix + ".router"), self.config["num_experts_per_tok"])
        return self.experts(x, prefix, *routed)
