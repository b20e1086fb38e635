"""GLM-4.5, 4.6, 4.7."""

from families.noaux import NoauxMoe


class Glm4Moe(NoauxMoe):
    def rotary_width(self):
        rope = self.config.get("rope_parameters") or self.config
        return int(self.head_dim * rope.get("partial_rotary_factor", 0.5))

    def place(self, q, k, prefix, layer):
        if self.config["use_qk_norm"]:
            q, k = self.inner_norm(q, prefix + "q_norm"), self.inner_norm(k, prefix + "k_norm")
        return self.rotate(q), self.rotate(k)
