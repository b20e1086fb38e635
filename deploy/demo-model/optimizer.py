"""Muon for the matrices, AdamW for the rest.

Muon (momentum, then the nearest orthogonal matrix as the step) is reported to need about half as many tokens
as AdamW for the same loss at this size, which is what counts when tokens are paid for in CPU hours. Steps are
scaled by 0.2 · sqrt(larger side), so that an element moves about as far as under AdamW, and experts are
orthogonalised one by one. Embeddings, router gates and norms are not hidden matrices and stay with AdamW.
"""

import math

import torch

# Five steps of the quintic iteration that brings all singular values near 1.
_QUINTIC = (3.4445, -4.7750, 2.0315)


def orthogonalise(matrices, dtype=torch.float32):
    """Returns U·Vᵀ of each matrix of [..., rows, columns], approximately (singular values within about 0.7 to
    1.2), computed in `dtype`: bfloat16 is exact enough.
    """
    flipped = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.transpose(-2, -1) if flipped else matrices
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).to(dtype)
    a, b, c = _QUINTIC
    for _ in range(5):
        gram = x @ x.transpose(-2, -1)
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return (x.transpose(-2, -1) if flipped else x).to(matrices.dtype)


class Muon(torch.optim.Optimizer):
    """Orthogonalised momentum with decoupled weight decay. A parameter may be a stack of matrices."""

    def __init__(self, parameters, lr, dtype, momentum=0.95, weight_decay=0.1):
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.dtype = dtype
        for group in self.param_groups:
            for weight in group["params"]:
                self.state[weight]["momentum"] = torch.zeros_like(weight).share_memory_()

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                momentum = self.state[weight]["momentum"]
                momentum.lerp_(weight.grad, 1 - group["momentum"])
                update = weight.grad.lerp(momentum, group["momentum"])
                # The fused gate and up projections are two matrices.
                split = update.view(-1, update.shape[-2] // 2, update.shape[-1]) if group["fused"] else update
                scale = 0.2 * max(split.shape[-2:]) ** 0.5
                step = orthogonalise(split, self.dtype).view_as(weight)
                weight.mul_(1 - group["lr"] * group["weight_decay"]).add_(step, alpha=-group["lr"] * scale)


def build(model, muon_lr, adam_lr):
    """Returns [Muon, AdamW] over the parameters of `model`, each group remembering its peak rate as "peak".

    Their state is in shared memory: several processes may each update some of the weights.
    """
    plain, fused, rest = [], [], []
    for name, weight in model.named_parameters():
        if name.endswith("gate_up"):
            fused.append(weight)
        elif weight.dim() >= 2 and "embed" not in name and not name.endswith("mlp.gate.weight"):
            plain.append(weight)
        else:
            rest.append(weight)
    groups = [
        {"params": group, "fused": is_fused} for group, is_fused in ((plain, False), (fused, True)) if group
    ]
    adam = torch.optim.AdamW(rest, lr=adam_lr, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0)
    for weight in rest:
        adam.state[weight] = {
            "step": torch.zeros(()).share_memory_(),
            "exp_avg": torch.zeros_like(weight).share_memory_(),
            "exp_avg_sq": torch.zeros_like(weight).share_memory_(),
        }
    optimizers = [Muon(groups, muon_lr, model.compute), adam]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return optimizers


def state(optimizers):
    """Returns what `restore` takes."""
    return [optimizer.state_dict() for optimizer in optimizers]


@torch.no_grad()
def restore(optimizers, saved):
    """Copies a saved state into the optimizers', where it stays shared."""
    for optimizer, part in zip(optimizers, saved):
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        for index, fields in part["state"].items():
            for name, value in fields.items():
                optimizer.state[weights[index]][name].copy_(value)


def set_rate(optimizers, factor):
    """Sets every learning rate to its peak times `factor`."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * factor


def trapezoid(step, warmup, decay_from, steps):
    """Returns the rate factor: a linear warm-up, a plateau, and from step `decay_from` on a decay as one minus
    a square root, to zero at `steps`: better than a linear one at equal length (Hägele et al. 2024, section 3),
    and its low end is long enough to see whether the held-out loss still falls.
    """
    decayed = max(0, step - decay_from) / max(1, steps - decay_from)
    return min(1.0, (step + 1) / max(1, warmup), max(0.0, 1.0 - math.sqrt(decayed)))
