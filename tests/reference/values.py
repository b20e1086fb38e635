"""Random values of a model's tensors."""

import zlib

import numpy as np

EMBEDDINGS = (
    "model.embed_tokens.weight",
    "language_model.model.embed_tokens.weight",
    "language_model.embedding.word_embeddings.weight",
)
ROUTERS = (".gate.weight", ".router.weight", ".router.layer.weight", ".gate.wg.weight")
TRANSPOSED = ("experts.gate_up_proj", "experts.down_proj")  # [experts, inputs, outputs]
OUTPUTS = ("o_proj", "down_proj", ".w2.", "output_linear", "self_attention.dense.", "dense_4h_to_h")


def values_of(seed, deviation, tied, outputs):
    """Gives a tensor's values: norm weights lie around 1, biases are small, matrices keep the size of what they
    multiply, or have the given deviation (then embeddings have 1, so that routing depends on the token).

    Two things are as training makes them, because rounding would otherwise be magnified beyond what real models show:
    routers are decided (the last chosen expert weighs little, so that a near-tie costs little), and embeddings are not
    drowned by what the layers add, whose size is multiplied with `outputs`.
    """

    def scale(name, inputs):
        if name in EMBEDDINGS and not tied:
            return 1.0 if deviation else 0.5
        if deviation:
            return deviation
        if name.endswith(ROUTERS):
            return 2.0 * inputs**-0.5
        if any(part in name for part in OUTPUTS):
            return outputs * inputs**-0.5
        return inputs**-0.5

    def values(name, shape):
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        noise = rng.standard_normal(shape, dtype=np.float32)
        if name.endswith("gate.e_score_correction_bias"):
            return 7.0 + 0.1 * noise  # as published: bfloat16 would not tell experts apart
        if name.endswith("e_score_correction_bias"):
            return 0.1 * noise
        if name.endswith("bias"):
            return 0.2 * noise
        if name.endswith("sinks"):
            return noise
        if "norm" in name:
            return 1.0 + 0.1 * noise
        inputs = shape[-2] if name.endswith(TRANSPOSED) else shape[-1]
        return noise * np.float32(scale(name, inputs))

    return values
