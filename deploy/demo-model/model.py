"""The demo model in PyTorch: Qwen3-MoE exactly as Hugging Face computes it, and its dense sibling for drafts.

Pre-norm residual blocks: attention with grouped heads, a norm per head on queries and keys, rotate-half
rotary positions; then experts (softmax over all of them in float32, the top k, renormalised) or one dense
SwiGLU.

In evaluation mode everything is computed in float32. In training mode the large products are of
`Model.compute` values, bfloat16 where the machine multiplies it fast (machine.py), with float32 weights,
residual stream, norms and router. Written for training speed without extensions: backward passes by hand
where that saves passes over memory, tokens sorted by expert, keys cut off at the causal limit.
"""

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class Shape:
    """The sizes of a model; `experts` == 0 makes it dense."""

    vocabulary: int = 4096
    hidden: int = 192
    layers: int = 6
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 32
    experts: int = 16
    top_k: int = 2
    intermediate: int = 128  # of one expert, or of the dense block
    context: int = 256
    rope_theta: float = 10000.0
    norm_eps: float = 1e-6


class _Normed(torch.autograd.Function):
    """x / sqrt(mean(x²) + eps) * weight over the last dimension, in float32."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        scale = torch.rsqrt((x * x).mean(-1, keepdim=True).add_(eps))
        unit = x * scale
        ctx.save_for_backward(unit, scale, weight)
        return unit * weight

    @staticmethod
    def backward(ctx, grad):
        unit, scale, weight = ctx.saved_tensors
        along = grad * unit
        grad_weight = along.reshape(-1, along.shape[-1]).sum(0)
        mean = (along.mul_(weight)).mean(-1, keepdim=True)
        return (grad * weight).addcmul_(unit, mean, value=-1).mul_(scale), grad_weight, None


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last dimension: float32 in, float32 out."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return _Normed.apply(x, self.weight, self.eps)


def _turned(x, cos, sin):
    """Rotates x [..., head_dim] by its position: the halves of a head are the two coordinates."""
    half = x.shape[-1] // 2
    low, high = x[..., :half], x[..., half:]
    out = torch.empty_like(x)
    torch.mul(low, cos, out=out[..., :half]).addcmul_(high, sin, value=-1)
    torch.mul(high, cos, out=out[..., half:]).addcmul_(low, sin)
    return out


class _Rotated(torch.autograd.Function):
    """Rotary positions; the backward pass turns the other way."""

    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        return _turned(x, cos, sin)

    @staticmethod
    def backward(ctx, grad):
        cos, sin = ctx.saved_tensors
        return _turned(grad, cos, -sin), None, None


class _Causal(torch.autograd.Function):
    """Causal softmax attention, by blocks of queries, each against the keys up to its last position."""

    QUERIES = 64

    @staticmethod
    def forward(ctx, q, k, v):
        """q [S, heads, T, D], scaled; k, v [S, kv_heads, T, D] → [S, heads, T, D]."""
        sequences, heads, tokens, size = q.shape
        pairs, group = sequences * k.shape[1], heads // k.shape[1]
        # Query heads of one key head become more rows of the same product: keys are never repeated.
        q = q.reshape(pairs, group, tokens, size)
        k, v = k.reshape(pairs, tokens, size), v.reshape(pairs, tokens, size)
        out = torch.empty_like(q)
        saved = []
        for start in range(0, tokens, _Causal.QUERIES):
            stop = min(tokens, start + _Causal.QUERIES)
            rows = q[:, :, start:stop].reshape(pairs, -1, size)
            scores = torch.bmm(rows, k[:, :stop].transpose(1, 2)).view(pairs, group, stop - start, stop)
            future = torch.full((stop - start, stop - start), -math.inf, dtype=q.dtype, device=q.device)
            scores[..., start:] += future.triu_(1)
            weights = scores.softmax(-1).view(pairs, -1, stop)
            out[:, :, start:stop] = torch.bmm(weights, v[:, :stop]).view(pairs, group, -1, size)
            saved.append(weights)
        ctx.save_for_backward(q, k, v, *saved)
        return out.view(sequences, heads, tokens, size)

    @staticmethod
    def backward(ctx, grad):
        q, k, v, *saved = ctx.saved_tensors
        pairs, group, tokens, size = q.shape
        sequences, heads = grad.shape[:2]
        grad = grad.reshape(pairs, group, tokens, size)
        grad_q = torch.empty_like(q)
        grad_k, grad_v = (torch.zeros(k.shape, device=k.device) for _ in range(2))
        for block, weights in enumerate(saved):
            start, stop = block * _Causal.QUERIES, weights.shape[-1]
            rows = grad[:, :, start:stop].reshape(pairs, -1, size)
            grad_v[:, :stop] += torch.bmm(weights.transpose(1, 2), rows)
            grad_weights = torch.bmm(rows, v[:, :stop].transpose(1, 2))
            grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
            grad_q[:, :, start:stop] = torch.bmm(grad_scores, k[:, :stop]).view(pairs, group, -1, size)
            rows = q[:, :, start:stop].reshape(pairs, -1, size)
            grad_k[:, :stop] += torch.bmm(grad_scores.transpose(1, 2), rows)
        shape = (sequences, heads // group, tokens, size)
        return grad_q.view(sequences, heads, tokens, size), *(
            part.to(k.dtype).view(shape) for part in (grad_k, grad_v)
        )


class Attention(nn.Module):
    """Causal attention over [sequences, tokens, hidden]."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.q_proj = nn.Linear(shape.hidden, shape.heads * shape.head_dim, bias=False)
        self.k_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias=False)
        self.v_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head_dim, shape.hidden, bias=False)
        self.q_norm = RMSNorm(shape.head_dim, shape.norm_eps)
        self.k_norm = RMSNorm(shape.head_dim, shape.norm_eps)

    def forward(self, x, cos, sin, dtype):
        shape = self.shape
        sequences, tokens, _ = x.shape
        fused = torch.cat((self.q_proj.weight, self.k_proj.weight, self.v_proj.weight)).to(dtype)
        parts = F.linear(x.to(dtype), fused).view(sequences, tokens, -1, shape.head_dim)
        q, k, v = parts.split((shape.heads, shape.kv_heads, shape.kv_heads), 2)
        q = _Rotated.apply(self.q_norm(q.float()), cos, sin) * shape.head_dim**-0.5
        k = _Rotated.apply(self.k_norm(k.float()), cos, sin)
        q, k, v = (part.to(dtype).transpose(1, 2) for part in (q, k, v))
        mixed = _Causal.apply(q, k, v).transpose(1, 2).reshape(sequences, tokens, -1)
        return F.linear(mixed, self.o_proj.weight.to(dtype))


class _ExpertRows(torch.autograd.Function):
    """Σ over k of weight · expert(x): rows sorted by expert, backward by hand (gathers only, no scatter-add).

    Every expert's rows are padded to a multiple of PAD, with rows that nothing reads and whose gradient is
    zero: oneDNN keeps its generated code by shape, and there are few shapes this way.
    """

    PAD = 64

    @staticmethod
    def forward(ctx, x, weights, chosen, gate_up, down):
        """x [N, H]; weights, chosen [N, K]; gate_up [E, 2F, H]; down [E, H, F] → [N, H], all of x's type but
        the float32 weights.
        """
        tokens, top_k = chosen.shape
        flat = chosen.reshape(-1)
        counts = torch.bincount(flat, minlength=gate_up.shape[0]).tolist()
        spans, shift, total, seen = [], [], 0, 0
        for expert, count in enumerate(counts):
            padded = -(-count // _ExpertRows.PAD) * _ExpertRows.PAD
            shift.append(total - seen)
            if count:
                spans.append((expert, slice(total, total + padded)))
            total, seen = total + padded, seen + count
        order = torch.argsort(flat, stable=True)
        target = torch.tensor(shift, device=flat.device)[flat[order]]
        target += torch.arange(order.numel(), device=order.device)
        place = torch.empty_like(order)
        place[order] = target
        token = torch.zeros(total, dtype=order.dtype, device=order.device)
        token[target] = torch.div(order, top_k, rounding_mode="floor")
        scale = torch.zeros(total, dtype=x.dtype, device=order.device)
        scale[target] = weights.detach().reshape(-1)[order].to(x.dtype)
        rows = x.index_select(0, token)
        inner = rows.new_empty(total, gate_up.shape[1])
        out = torch.empty_like(rows)
        for expert, span in spans:
            torch.mm(rows[span], gate_up[expert].t(), out=inner[span])
        gate, up = inner.chunk(2, 1)
        silu = F.silu(gate)
        act = silu * up
        for expert, span in spans:
            torch.mm(act[span], down[expert].t(), out=out[span])
        slots = out.index_select(0, place).view(tokens, top_k, -1)
        ctx.save_for_backward(rows, inner, silu, act, slots, scale, token, place, gate_up, down)
        ctx.spans = spans
        return (slots * weights.to(x.dtype).unsqueeze(-1)).sum(1)

    @staticmethod
    def backward(ctx, grad):
        rows, inner, silu, act, slots, scale, token, place, gate_up, down = ctx.saved_tensors
        tokens, top_k, _ = slots.shape
        grad_weights = (slots * grad.unsqueeze(1)).sum(-1, dtype=torch.float32)
        grad_out = grad.index_select(0, token) * scale.unsqueeze(-1)
        grad_act = torch.empty_like(act)
        grad_down, grad_gate_up = torch.zeros_like(down), torch.zeros_like(gate_up)
        for expert, span in ctx.spans:
            torch.mm(grad_out[span], down[expert], out=grad_act[span])
            torch.mm(grad_out[span].t(), act[span], out=grad_down[expert])
        gate, up = inner.chunk(2, 1)
        grad_inner = torch.empty_like(inner)
        grad_inner[:, : act.shape[1]] = torch.ops.aten.silu_backward(grad_act * up, gate)
        torch.mul(grad_act, silu, out=grad_inner[:, act.shape[1] :])
        grad_rows = torch.empty_like(rows)
        for expert, span in ctx.spans:
            torch.mm(grad_inner[span], gate_up[expert], out=grad_rows[span])
            torch.mm(grad_inner[span].t(), rows[span], out=grad_gate_up[expert])
        grad_x = grad_rows.index_select(0, place).view(tokens, top_k, -1).sum(1)
        return grad_x, grad_weights, None, grad_gate_up, grad_down


class Experts(nn.Module):
    """The MoE block. `forward` also returns the router's choice [N, K] and its probabilities [N, E]."""

    def __init__(self, shape):
        super().__init__()
        self.top_k = shape.top_k
        self.gate = nn.Linear(shape.hidden, shape.experts, bias=False)
        self.gate_up = nn.Parameter(torch.empty(shape.experts, 2 * shape.intermediate, shape.hidden))
        self.down = nn.Parameter(torch.empty(shape.experts, shape.hidden, shape.intermediate))

    def forward(self, x, dtype):
        flat = x.reshape(-1, x.shape[-1])
        probabilities = self.gate(flat).softmax(-1)
        weights, chosen = probabilities.topk(self.top_k, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        mixed = _ExpertRows.apply(
            flat.to(dtype), weights, chosen, self.gate_up.to(dtype), self.down.to(dtype)
        )
        return mixed.view_as(x), chosen, probabilities


class Dense(nn.Module):
    """The SwiGLU block of a dense model."""

    def __init__(self, shape):
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, shape.hidden, bias=False)

    def forward(self, x, dtype):
        x = x.to(dtype)
        inner = F.silu(F.linear(x, self.gate_proj.weight.to(dtype))) * F.linear(
            x, self.up_proj.weight.to(dtype)
        )
        return F.linear(inner, self.down_proj.weight.to(dtype)), None, None


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.input_layernorm = RMSNorm(shape.hidden, shape.norm_eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = RMSNorm(shape.hidden, shape.norm_eps)
        self.mlp = Experts(shape) if shape.experts else Dense(shape)

    def forward(self, x, cos, sin, dtype):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, dtype)
        mixed, chosen, probabilities = self.mlp(self.post_attention_layernorm(x), dtype)
        return x + mixed, chosen, probabilities


class Model(nn.Module):
    """Token ids [sequences, tokens] → logits [sequences, tokens, vocabulary]; input and output embeddings are
    tied.
    """

    def __init__(self, shape, seed=0):
        super().__init__()
        self.shape = shape
        self.compute = torch.float32  # of the products in training mode
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.hidden, shape.norm_eps)
        inverse = shape.rope_theta ** (
            -torch.arange(0, shape.head_dim, 2, dtype=torch.float32) / shape.head_dim
        )
        angles = torch.outer(torch.arange(shape.context, dtype=torch.float32), inverse)
        # [tokens, 1, head_dim / 2]: the same for all heads.
        self.register_buffer("cos", angles.cos().unsqueeze(1), persistent=False)
        self.register_buffer("sin", angles.sin().unsqueeze(1), persistent=False)
        self._initialise(torch.Generator().manual_seed(seed))

    def _initialise(self, generator):
        """Normal weights of 1/sqrt(fan-in); what adds to the residual stream is scaled down by its depth."""
        for name, weight in self.named_parameters():
            if weight.dim() < 2:
                continue
            std = 0.02 if "embed" in name or name.endswith("mlp.gate.weight") else weight.shape[-1] ** -0.5
            if name.endswith(("o_proj.weight", "mlp.down", "down_proj.weight")):
                std /= math.sqrt(2 * self.shape.layers)
            with torch.no_grad():
                weight.normal_(0, std, generator=generator)

    def _dtype(self):
        return self.compute if self.training else torch.float32

    def hidden(self, ids):
        """Returns the normed final states [sequences, tokens, hidden] and (chosen, probabilities) per MoE
        layer.
        """
        tokens = ids.shape[1]
        x, routes = self.embed_tokens(ids), []
        cos, sin, dtype = self.cos[:tokens], self.sin[:tokens], self._dtype()
        for layer in self.layers:
            x, chosen, probabilities = layer(x, cos, sin, dtype)
            if chosen is not None:
                routes.append((chosen, probabilities))
        return self.norm(x), routes

    def forward(self, ids):
        """Returns the logits and (chosen, probabilities) per MoE layer."""
        states, routes = self.hidden(ids)
        return F.linear(states, self.embed_tokens.weight), routes

    def loss(self, ids, targets, weights=None):
        """Returns the cross-entropy of `targets` (ids shifted by one), in nats, and the routes.

        It is the mean over all tokens, or Σ weight · loss with `weights` [sequences, tokens].
        """
        states, routes = self.hidden(ids)
        flat = states.reshape(-1, states.shape[-1]).to(self._dtype())
        if weights is None:
            weights = torch.full(targets.shape, 1 / targets.numel(), device=flat.device)
        return (
            _TiedLoss.apply(
                flat, self.embed_tokens.weight.to(flat.dtype), targets.reshape(-1), weights.reshape(-1)
            ),
            routes,
        )


class _TiedLoss(torch.autograd.Function):
    """Weighted cross-entropy of states @ embeddingᵀ, by chunks of rows, so that no [tokens, vocabulary] is
    kept.
    """

    ROWS = 512

    @staticmethod
    def forward(ctx, states, embedding, targets, weights):
        grad_states = torch.empty_like(states)
        grad_embedding = torch.zeros(embedding.shape, device=states.device)
        total = torch.zeros((), device=states.device)
        for start in range(0, states.shape[0], _TiedLoss.ROWS):
            span = slice(start, start + _TiedLoss.ROWS)
            wanted, weight = targets[span].unsqueeze(1), weights[span].unsqueeze(1)
            odds = (states[span] @ embedding.t()).softmax(-1)
            total -= (odds.gather(1, wanted).float().clamp_min_(1e-30).log_() * weight).sum()
            odds.scatter_add_(1, wanted, torch.full_like(weight, -1).to(odds.dtype))
            weight = weight.to(states.dtype)
            grad_states[span] = torch.mm(odds, embedding).mul_(weight)
            grad_embedding += torch.mm(odds.t(), states[span] * weight)
        ctx.save_for_backward(grad_states, grad_embedding.to(embedding.dtype))
        return total

    @staticmethod
    def backward(ctx, grad):
        grad_states, grad_embedding = ctx.saved_tensors
        return grad_states * grad, grad_embedding * grad, None, None


def balance_loss(routes):
    """The load-balancing loss of Switch and DeepSpeed-MoE: E · Σ share of rows · mean probability.

    It is top_k when every expert gets as many rows as the next, and grows as some get more.
    The layers are averaged.
    """
    total = 0.0
    for chosen, probabilities in routes:
        experts = probabilities.shape[1]
        share = torch.bincount(chosen.reshape(-1), minlength=experts).float() / chosen.shape[0]
        total = total + experts * (share * probabilities.mean(0)).sum()
    return total / max(1, len(routes))


def parameters(shape):
    """Returns (all, active per token) parameter counts."""
    attention = shape.hidden * shape.head_dim * (2 * shape.heads + 2 * shape.kv_heads) + 2 * shape.head_dim
    block = 3 * shape.hidden * shape.intermediate
    always = shape.layers * (attention + 2 * shape.hidden + shape.experts * shape.hidden) + shape.hidden
    always += shape.vocabulary * shape.hidden
    if not shape.experts:
        return always + shape.layers * block, always + shape.layers * block
    return always + shape.layers * shape.experts * block, always + shape.layers * shape.top_k * block
