"""Softmax attention with what the families add to it."""

import numpy as np

from rounding import exact


def attention(q, k, v, window=None, rounded=exact, scale=None, sinks=None, chunk=None):
    """q [T, heads, d], k [T, kv_heads, d], v [T, kv_heads, e]; causal.

    A query sees `window` keys at most (None: all), and only keys of its own chunk of `chunk` positions (None: all).
    `sinks` [heads] are logits that join the softmax without a value. Scores are multiplied with `scale`, or divided by
    sqrt(d).
    """
    tokens, heads, head_dim = q.shape
    k, v = (np.repeat(x, heads // x.shape[1], axis=1) for x in (k, v))
    scores = np.einsum("qhd,khd->hqk", q, k)
    scores = scores / np.sqrt(head_dim) if scale is None else scores * scale
    position = np.arange(tokens)
    age = position[:, None] - position[None, :]
    hidden = (age < 0) | (age >= window if window else False)
    if chunk:
        hidden = hidden | (position[:, None] // chunk != position[None, :] // chunk)
    scores = np.where(hidden, -np.inf, scores)
    largest = scores.max(axis=-1, keepdims=True)
    p = np.exp(scores - largest)
    total = p.sum(axis=-1)
    if sinks is not None:
        total = total + np.exp(sinks[:, None] - largest[..., 0])
    total = total.T[:, :, None]  # [T, heads, 1]
    return (np.einsum("hqk,khd->qhd", rounded(p), v) / total).reshape(tokens, -1)
