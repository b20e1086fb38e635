"""The two draft models: a small dense one, and one tuned on the text where that one disagrees with the big
model.

The first is trained on the text like the big model. The second starts from the first and learns, for the same
text, what the big model would say (its most likely next token), with nearly all of the weight on the places
where the first draft says something else: together they propose more accepted tokens than either does
(boost-tuned speculators).
"""

import torch

import corpus
import fit
import folder
import machine
import model as models

# About a tenth of the demo model's active parameters, mostly the embedding.
DRAFT = {
    "hidden": 48,
    "layers": 2,
    "heads": 3,
    "kv_heads": 1,
    "head_dim": 16,
    "intermediate": 128,
    "experts": 0,
    "top_k": 0,
}
AGREED_WEIGHT = 0.05


@torch.no_grad()
def agreement(big, drafts, heldout):
    """Returns the share of held-out tokens where any of the drafts' first choices is the big model's."""
    right = total = 0
    for windows, _ in heldout.values():
        for start in range(0, len(windows), 8):
            ids = torch.from_numpy(windows[start : start + 8, :-1]).to(next(big.parameters()).device)
            wanted = big(ids)[0].argmax(-1)
            hit = torch.zeros_like(wanted, dtype=torch.bool)
            for draft in drafts:
                hit |= draft(ids)[0].argmax(-1) == wanted
            right, total = right + int(hit.sum()), total + hit.numel()
    return right / total


def boosted_objective(big, first):
    """Returns the loss of the second draft: cross-entropy with the big model's choice, weighted by
    disagreement.
    """
    big.compute = machine.product_type()
    big.train()

    def objective(model, ids):
        with torch.no_grad():
            wanted = big(ids[:, :-1])[0].argmax(-1)
            agreed = first(ids[:, :-1])[0].argmax(-1) == wanted
            weights = torch.where(agreed, AGREED_WEIGHT, 1.0)
        return model.loss(ids[:, :-1], wanted, weights / weights.sum())[0]

    return objective


def train(big, tokenizer, streams, heldout, work, seed, plan):
    """Trains and writes work/draft (unless it is there: it does not depend on the big model) and
    work/draft-boosted; returns their sizes and how often they agree with the big model.
    """
    shape = models.Shape(**{**vars(big.shape), **DRAFT, **plan.draft_shape})
    if (work / "draft" / "model.safetensors").exists():
        first = folder.load(work / "draft")[0]
    else:
        first = fit.fit(
            models.Model(shape, seed + 1),
            corpus.Batches(streams, shape.context // 2, plan.rows, seed + 1),
            work / "draft-training",
            plan.draft_tokens,
            heldout,
            6e-3,
            3e-3,
            evaluate_every=plan.evaluate_every,
            processes=plan.processes,
        )
        folder.save(first, tokenizer, work / "draft")
    second = models.Model(shape, seed + 1)
    second.load_state_dict(first.state_dict())
    second = fit.fit(
        second,
        corpus.Batches(streams, shape.context // 2, plan.rows, seed + 2),
        work / "boost-training",
        plan.draft_tokens // 3,
        None,
        2e-3,
        1e-3,
        objective=boosted_objective(big.to(machine.device()), first),
        processes=plan.processes,
    )
    folder.save(second, tokenizer, work / "draft-boosted")
    big.eval()
    small, active = models.parameters(shape)[0], models.parameters(big.shape)[1]
    return {
        "parameters": small,
        "share": small / active,
        "bytes": (work / "draft" / "model.safetensors").stat().st_size,
        "tokens": plan.draft_tokens,
        "boost_tokens": plan.draft_tokens // 3,
        "agreement": {
            "draft": agreement(big, [first], heldout),
            "draft-boosted": agreement(big, [second], heldout),
            "either": agreement(big, [first, second], heldout),
        },
    }
