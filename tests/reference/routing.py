"""Which experts a token goes to, and with what weights: one function per kind of router.

Each takes the router's products [T, experts] and gives (experts chosen [T, k], their weights [T, k]).
"""

import numpy as np

from arithmetic import sigmoid, softmax, topk


def softmax_topk(logits, k, normalize):
    scores = softmax(logits)
    chosen = topk(scores, k)
    weights = np.take_along_axis(scores, chosen, axis=-1)
    if normalize:
        weights = weights / weights.sum(axis=-1, keepdims=True)
    return chosen, weights


def topk_softmax(logits, k):
    """Softmax over the chosen ones."""
    chosen = topk(logits, k)
    return chosen, softmax(np.take_along_axis(logits, chosen, axis=-1))


def biased_softmax(logits, bias, k, smallest_sum):
    """ERNIE's: the bias takes part in the choice only."""
    scores = softmax(logits)
    chosen = topk(scores + bias, k)
    weights = np.take_along_axis(scores, chosen, axis=-1)
    return chosen, weights / np.maximum(weights.sum(axis=-1, keepdims=True), smallest_sum)


def noaux_tc(logits, bias, k, normalize, factor, groups=1, kept_groups=1):
    """DeepSeek-V3's: the bias takes part in the choice only; a group is as good as its two best together."""
    scores = sigmoid(logits)
    choice = scores + bias
    if groups > 1:
        best_two = np.sort(choice.reshape(len(choice), groups, -1), axis=-1)[..., -2:]
        choice = within_groups(choice, best_two.sum(axis=-1), kept_groups)
    chosen = topk(choice, k)
    weights = np.take_along_axis(scores, chosen, axis=-1)
    if normalize:
        weights = weights / (weights.sum(axis=-1, keepdims=True) + 1e-20)
    return chosen, weights * factor


def group_limited_greedy(logits, k, factor, groups, kept_groups):
    """DeepSeek-V2's: a group is as good as its best; weights are scaled and not normalized."""
    scores = softmax(logits)
    best = scores.reshape(len(scores), groups, -1).max(axis=-1)
    chosen = topk(within_groups(scores, best, kept_groups), k)
    return chosen, np.take_along_axis(scores, chosen, axis=-1) * factor


def within_groups(scores, group_scores, kept_groups):
    """The scores, and -inf outside the best groups."""
    groups = group_scores.shape[1]
    kept = np.zeros(group_scores.shape, dtype=bool)
    np.put_along_axis(kept, topk(group_scores, kept_groups), True, axis=-1)
    return np.where(np.repeat(kept, scores.shape[1] // groups, axis=1), scores, -np.inf)


def sparsemixer(logits, jitter):
    """Phi's two rounds. In each the winner's weight is its softmax among those that come close to it; in the second
    round the first winner is out."""

    def winner(left):
        expert = topk(left, 1)
        largest = np.take_along_axis(left, expert, axis=-1)
        far = (largest - logits) / np.maximum(np.abs(logits), largest) > 2 * jitter
        return expert, np.take_along_axis(softmax(np.where(far, -np.inf, left)), expert, axis=-1)

    first, first_weight = winner(logits)
    left = logits.copy()
    np.put_along_axis(left, first, -np.inf, axis=-1)
    second, second_weight = winner(left)
    return np.concatenate([first, second], axis=-1), np.concatenate([first_weight, second_weight], axis=-1)
