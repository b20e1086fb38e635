from families.noaux import NoauxMoe


class Dots1(NoauxMoe):
    def attention_options(self, prefix, layer):
        types = self.config.get("layer_types")
        slides = types is not None and types[layer] == "sliding_attention"
        return {"window": self.config["sliding_window"] if slides else None}

    def place(self, q, k, prefix, layer):
        q, k = self.inner_norm(q, prefix + "q_norm"), self.inner_norm(k, prefix + "k_norm")
        return self.rotate(q), self.rotate(k)
