"""Rotary position embedding: the frequencies of each kind of scaling, and the two ways to pair a head's numbers."""

import numpy as np


def rope_kind(rope):
    return rope.get("rope_type", rope.get("type", "default"))


def rope_frequencies(rope, width, max_position):
    """([width / 2] angles per position, factor of cos and sin); `width` numbers of a head are turned."""
    kind = rope_kind(rope)
    pairs = np.arange(0, width, 2, dtype=np.float64)
    inverse = rope["rope_theta"] ** (-pairs / width)
    if kind == "default":
        return inverse, 1.0
    if kind == "dynamic":  # with alpha: Hunyuan's, which does not depend on the length
        return (rope["rope_theta"] * rope["alpha"] ** (width / (width - 2))) ** (-pairs / width), 1.0
    if kind == "linear":
        return inverse / rope["factor"], 1.0
    if kind == "llama3":
        return llama3_frequencies(rope, inverse), 1.0
    if kind == "longrope":  # its factors depend on the sequence: families/phimoe.py
        return inverse, 1.0
    assert kind == "yarn", kind
    return yarn_frequencies(rope, inverse, max_position), yarn_factor(rope)


def yarn_frequencies(rope, inverse, max_position):
    width = 2 * len(inverse)
    trained = rope.get("original_max_position_embeddings", max_position)

    def dimension_turning(rotations):
        return width * np.log(trained / (rotations * 2 * np.pi)) / (2 * np.log(rope["rope_theta"]))

    low = dimension_turning(rope.get("beta_fast", 32.0))
    high = dimension_turning(rope.get("beta_slow", 1.0))
    if rope.get("truncate", True):
        low, high = np.floor(low), np.ceil(high)
    low, high = max(low, 0.0), min(high, width - 1.0)
    if low == high:
        high += 0.001
    kept = 1.0 - np.clip((np.arange(width // 2) - low) / (high - low), 0.0, 1.0)
    return inverse / rope["factor"] * (1.0 - kept) + inverse * kept


def yarn_mscale(factor, mscale):
    return 0.1 * mscale * np.log(factor) + 1.0 if factor > 1.0 else 1.0


def yarn_factor(rope):
    """What cos and sin are multiplied with."""
    if rope.get("attention_factor") is not None:
        return rope["attention_factor"]
    factor = rope["factor"]
    if rope.get("mscale") and rope.get("mscale_all_dim"):
        return yarn_mscale(factor, rope["mscale"]) / yarn_mscale(factor, rope["mscale_all_dim"])
    return yarn_mscale(factor, 1.0)


def llama3_frequencies(rope, inverse):
    trained, low, high = (
        rope[k] for k in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
    )
    rotations = trained * inverse / (2 * np.pi)  # over the trained context
    if low == high:  # no blend between
        return np.where(rotations < low, inverse / rope["factor"], inverse)
    blend = np.clip((rotations - low) / (high - low), 0.0, 1.0)
    return (1.0 - blend) * inverse / rope["factor"] + blend * inverse


def cos_and_sin(tokens, frequencies, factor):
    angles = np.arange(tokens)[:, None, None] * frequencies
    return np.cos(angles) * factor, np.sin(angles) * factor


def rope_by_halves(x, frequencies, factor):
    """x [T, heads, head_dim]; number j is paired with j + n, the n frequencies turn the first 2n numbers of a head."""
    n = len(frequencies)
    cos, sin = cos_and_sin(len(x), frequencies, factor)
    a, b, rest = x[..., :n], x[..., n : 2 * n], x[..., 2 * n :]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], axis=-1)


def rope_by_pairs(x, frequencies, factor):
    """x [T, heads, head_dim]; number 2j is paired with 2j + 1."""
    cos, sin = cos_and_sin(len(x), frequencies, factor)
    a, b = x[..., 0::2], x[..., 1::2]
    return np.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(x.shape)
