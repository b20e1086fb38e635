"""DeepSeek-V2 and V3, Kimi-K2, Moonlight and GLM-4.7-Flash: multi-head latent attention."""

import numpy as np

from arithmetic import rms_norm
from attention import attention
from families.noaux import NoauxMoe
from rotary import rope_by_halves, rope_by_pairs, rope_kind, yarn_mscale
from rounding import exact
from routing import group_limited_greedy, softmax_topk


class LatentAttention(NoauxMoe):
    def __init__(self, folder, rounded=exact):
        super().__init__(folder, rounded)
        # The expanded form is the definition. The absorbed one is what servers cache for, and round in.
        self.absorbs = rounded is not exact
        config = self.config
        self.nope, self.value_dim = config["qk_nope_head_dim"], config["v_head_dim"]
        self.latent_dim = config["kv_lora_rank"]
        self.scale = (self.nope + config["qk_rope_head_dim"]) ** -0.5
        if rope_kind(self.rope) != "default" and self.rope.get("mscale_all_dim"):
            self.scale *= yarn_mscale(self.rope["factor"], self.rope["mscale_all_dim"]) ** 2

    def rotary_width(self):
        return self.config["qk_rope_head_dim"]

    def rotate(self, x):
        apply = rope_by_pairs if self.config.get("rope_interleave", True) else rope_by_halves
        return apply(x, self.frequencies, self.rope_factor)

    def inner_norm(self, x, name):
        return rms_norm(x, self.tensors[name + ".weight"], 1e-6)  # whatever rms_norm_eps is

    def queries(self, x, prefix):
        if self.config.get("q_lora_rank") is None:
            return self.project(x, prefix + "q_proj")
        latent = self.inner_norm(self.project(x, prefix + "q_a_proj"), prefix + "q_a_layernorm")
        return self.project(self.rounded(latent), prefix + "q_b_proj")

    def attend(self, x, layer):
        prefix = f"{self.root}layers.{layer}.self_attn."
        q = self.queries(x, prefix).reshape(len(x), self.config["num_attention_heads"], -1)
        q_nope, q_rope = q[..., : self.nope], self.rotate(q[..., self.nope :])
        compressed = self.project(x, prefix + "kv_a_proj_with_mqa")
        latent = self.inner_norm(compressed[:, : self.latent_dim], prefix + "kv_a_layernorm")
        k_rope = self.rotate(compressed[:, None, self.latent_dim :])  # one for all heads
        q_nope, q_rope, latent, k_rope = (self.rounded(y) for y in (q_nope, q_rope, latent, k_rope))
        of_heads = self.tensors[prefix + "kv_b_proj.weight"].reshape(q.shape[1], -1, self.latent_dim)
        to_keys, to_values = of_heads[:, : self.nope], of_heads[:, self.nope :]
        form = self.absorbed if self.absorbs else self.expanded
        y = form(q_nope, q_rope, latent, k_rope, to_keys, to_values)
        return self.project(self.rounded(y), prefix + "o_proj")

    def expanded(self, q_nope, q_rope, latent, k_rope, to_keys, to_values):
        """Keys and values of every head are made from the latent."""
        k_nope = np.einsum("tc,hnc->thn", latent, to_keys)
        k_rope = np.broadcast_to(k_rope, q_rope.shape)
        q, k = np.concatenate([q_nope, q_rope], axis=-1), np.concatenate([k_nope, k_rope], axis=-1)
        v = np.einsum("tc,hvc->thv", latent, to_values)
        q, k, v = (self.rounded(y) for y in (q, k, v))
        return attention(q, k, v, rounded=self.rounded, scale=self.scale)

    def absorbed(self, q_nope, q_rope, latent, k_rope, to_keys, to_values):
        """The latent is key and value of one head, which all queries share."""
        q_latent = self.rounded(np.einsum("thn,hnc->thc", q_nope, to_keys))
        q, k = np.concatenate([q_latent, q_rope], axis=-1), np.concatenate([latent[:, None], k_rope], axis=-1)
        mixed = attention(q, k, latent[:, None], rounded=self.rounded, scale=self.scale)
        mixed = self.rounded(mixed).reshape(q_latent.shape)
        return np.einsum("thc,hvc->thv", mixed, to_values).reshape(len(mixed), -1)


class DeepseekV3(LatentAttention):
    def is_sparse(self, layer):
        dense = self.config["first_k_dense_replace"]
        return layer >= dense and layer % self.config.get("moe_layer_freq", 1) == 0


class DeepseekV2(DeepseekV3):
    def route(self, x, prefix):
        config = self.config
        logits, k = self.project(x, prefix + ".gate"), config["num_experts_per_tok"]
        factor = config["routed_scaling_factor"]
        if config["topk_method"] == "group_limited_greedy":
            return group_limited_greedy(logits, k, factor, config["n_group"], config["topk_group"])
        chosen, weights = softmax_topk(logits, k, normalize=False)
        return chosen, weights * factor


class Glm4MoeLite(LatentAttention):
    def is_sparse(self, layer):
        types = self.config.get("mlp_layer_types")
        return types[layer] == "sparse" if types else layer > 0
