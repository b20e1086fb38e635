"""The demo model in PyTorch: Qwen3-MoE exactly as Hugging Face computes it, and its dense sibling for drafts.

Pre-norm residual blocks: attention with grouped heads, a norm per head on queries and keys, rotate-half
rotary positions; then experts (softmax over all of them in float32, the top k, renormalised) or one dense
SwiGLU. Written for training speed without extensions: tokens are sorted by expert and each expert multiplies
its own rows.
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


class RMSNorm(nn.Module):
    """x / sqrt(mean(x²) + eps) * weight over the last dimension, in float32."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


def rotate(x, cos, sin):
    """Rotates x [..., tokens, head_dim] by its position: the halves of a head are the two coordinates."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


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

    def forward(self, x, cos, sin, mask):
        shape = self.shape
        sequences, tokens, _ = x.shape
        group = shape.heads // shape.kv_heads
        q = rotate(
            self.q_norm(self.q_proj(x).view(sequences, tokens, -1, shape.head_dim)).transpose(1, 2), cos, sin
        )
        k = rotate(
            self.k_norm(self.k_proj(x).view(sequences, tokens, -1, shape.head_dim)).transpose(1, 2), cos, sin
        )
        v = self.v_proj(x).view(sequences, tokens, -1, shape.head_dim).transpose(1, 2)
        # Query heads of one key head become more rows of the same product: keys and values are never
        # repeated.
        q = (q * shape.head_dim**-0.5).reshape(sequences, shape.kv_heads, group * tokens, shape.head_dim)
        scores = (q @ k.transpose(2, 3)).view(sequences, shape.kv_heads, group, tokens, tokens) + mask
        weights = scores.softmax(-1).to(v.dtype).view(sequences, shape.kv_heads, group * tokens, tokens)
        mixed = (weights @ v).view(sequences, shape.heads, tokens, shape.head_dim)
        return self.o_proj(mixed.transpose(1, 2).reshape(sequences, tokens, -1))


class _ExpertRows(torch.autograd.Function):
    """Σ over k of weight · expert(x): rows sorted by expert, backward by hand (gathers only, no scatter-add).
    """

    @staticmethod
    @torch.cuda.amp.custom_fwd(cast_inputs=torch.bfloat16)  # only where autocast is on: on a GPU
    def forward(ctx, x, weights, chosen, gate_up, down):
        """x [N, H]; weights, chosen [N, K]; gate_up [E, 2F, H]; down [E, H, F] → [N, H]."""
        tokens, top_k = chosen.shape
        flat = chosen.reshape(-1)
        order = torch.argsort(flat, stable=True)
        place = torch.empty_like(order)
        place[order] = torch.arange(order.numel(), device=order.device)
        counts = torch.bincount(flat, minlength=gate_up.shape[0]).tolist()
        rows = x.index_select(0, torch.div(order, top_k, rounding_mode="floor"))
        inner = rows.new_empty(rows.shape[0], gate_up.shape[1])
        out = torch.empty_like(rows)
        spans = _spans(counts)
        for expert, span in spans:
            torch.mm(rows[span], gate_up[expert].t(), out=inner[span])
        gate, up = inner.chunk(2, 1)
        act = F.silu(gate) * up
        for expert, span in spans:
            torch.mm(act[span], down[expert].t(), out=out[span])
        slots = out.index_select(0, place).view(tokens, top_k, -1)
        ctx.save_for_backward(rows, inner, act, slots, weights, order, place, gate_up, down)
        ctx.spans = spans
        return (slots * weights.unsqueeze(-1)).sum(1)

    @staticmethod
    @torch.cuda.amp.custom_bwd
    def backward(ctx, grad):
        rows, inner, act, slots, weights, order, place, gate_up, down = ctx.saved_tensors
        tokens, top_k = weights.shape
        grad_weights = (slots @ grad.unsqueeze(-1)).squeeze(-1)
        sorted_token = torch.div(order, top_k, rounding_mode="floor")
        grad_out = grad.index_select(0, sorted_token) * weights.reshape(-1).index_select(0, order).unsqueeze(
            -1
        )
        grad_act = torch.empty_like(act)
        grad_down, grad_gate_up = torch.zeros_like(down), torch.zeros_like(gate_up)
        for expert, span in ctx.spans:
            torch.mm(grad_out[span], down[expert], out=grad_act[span])
            torch.mm(grad_out[span].t(), act[span], out=grad_down[expert])
        gate, up = inner.chunk(2, 1)
        sigmoid = torch.sigmoid(gate)
        silu = gate * sigmoid
        grad_inner = torch.cat((grad_act * up * (sigmoid + silu * (1 - sigmoid)), grad_act * silu), 1)
        grad_rows = torch.empty_like(rows)
        for expert, span in ctx.spans:
            torch.mm(grad_inner[span], gate_up[expert], out=grad_rows[span])
            torch.mm(grad_inner[span].t(), rows[span], out=grad_gate_up[expert])
        grad_x = grad_rows.index_select(0, place).view(tokens, top_k, -1).sum(1)
        return grad_x, grad_weights, None, grad_gate_up, grad_down


def _spans(counts):
    """Returns (expert, slice of its sorted rows) for every expert that has rows."""
    spans, start = [], 0
    for expert, count in enumerate(counts):
        if count:
            spans.append((expert, slice(start, start + count)))
        start += count
    return spans


class Experts(nn.Module):
    """The MoE block. `forward` also returns the router's choice [N, K] and its probabilities [N, E]."""

    def __init__(self, shape):
        super().__init__()
        self.top_k = shape.top_k
        self.gate = nn.Linear(shape.hidden, shape.experts, bias=False)
        self.gate_up = nn.Parameter(torch.empty(shape.experts, 2 * shape.intermediate, shape.hidden))
        self.down = nn.Parameter(torch.empty(shape.experts, shape.hidden, shape.intermediate))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        probabilities = self.gate(flat).float().softmax(-1)
        weights, chosen = probabilities.topk(self.top_k, -1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(flat.dtype)
        mixed = _ExpertRows.apply(flat, weights, chosen, self.gate_up, self.down)
        return mixed.view_as(x), chosen, probabilities


class Dense(nn.Module):
    """The SwiGLU block of a dense model."""

    def __init__(self, shape):
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, shape.hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x)), None, None


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.input_layernorm = RMSNorm(shape.hidden, shape.norm_eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = RMSNorm(shape.hidden, shape.norm_eps)
        self.mlp = Experts(shape) if shape.experts else Dense(shape)

    def forward(self, x, cos, sin, mask):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        mixed, chosen, probabilities = self.mlp(self.post_attention_layernorm(x))
        return x + mixed, chosen, probabilities


class Model(nn.Module):
    """Token ids [sequences, tokens] → logits [sequences, tokens, vocabulary]; input and output embeddings are
    tied.
    """

    def __init__(self, shape, seed=0):
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.hidden, shape.norm_eps)
        inverse = shape.rope_theta ** (
            -torch.arange(0, shape.head_dim, 2, dtype=torch.float32) / shape.head_dim
        )
        angles = torch.outer(torch.arange(shape.context, dtype=torch.float32), inverse)
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        self.register_buffer(
            "mask", torch.full((shape.context, shape.context), -math.inf).triu(1), persistent=False
        )
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

    def hidden(self, ids):
        """Returns the normed final states [sequences, tokens, hidden] and (chosen, probabilities) per MoE
        layer.
        """
        tokens = ids.shape[1]
        x, routes = self.embed_tokens(ids), []
        cos, sin, mask = self.cos[:tokens], self.sin[:tokens], self.mask[:tokens, :tokens]
        for layer in self.layers:
            x, chosen, probabilities = layer(x, cos, sin, mask)
            if chosen is not None:
                routes.append((chosen, probabilities))
        return self.norm(x), routes

    def forward(self, ids):
        """Returns the logits and (chosen, probabilities) per MoE layer."""
        states, routes = self.hidden(ids)
        return F.linear(states, self.embed_tokens.weight), routes

    def loss(self, ids, targets, weights=None):
        """Returns the mean cross-entropy of `targets` (ids shifted by one), in nats, and the routes.

        `weights` [sequences, tokens] weigh the tokens (they are normalised to mean 1).
        """
        states, routes = self.hidden(ids)
        flat = states.reshape(-1, states.shape[-1]).float()
        if weights is None:
            weights = torch.ones(targets.shape, device=flat.device)
        weights = weights.reshape(-1) / weights.sum()
        return _TiedLoss.apply(flat, self.embed_tokens.weight, targets.reshape(-1), weights), routes


class _TiedLoss(torch.autograd.Function):
    """Weighted cross-entropy of states @ embeddingᵀ, by chunks of rows, so that no [tokens, vocabulary] is
    kept.
    """

    ROWS = 512

    @staticmethod
    @torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)
    def forward(ctx, states, embedding, targets, weights):
        grad_states, grad_embedding = torch.empty_like(states), torch.zeros_like(embedding)
        total = states.new_zeros(())
        for start in range(0, states.shape[0], _TiedLoss.ROWS):
            span = slice(start, start + _TiedLoss.ROWS)
            logits, wanted, weight = states[span] @ embedding.t(), targets[span].unsqueeze(1), weights[span]
            chosen = logits.gather(1, wanted).squeeze(1)
            logits -= logits.max(1, keepdim=True).values
            peak = chosen - logits.gather(1, wanted).squeeze(1)
            sums = logits.exp_().sum(1)
            total += ((sums.log() + peak - chosen) * weight).sum()
            logits *= (weight / sums).unsqueeze(1)
            logits.scatter_add_(1, wanted, -weight.unsqueeze(1))
            torch.mm(logits, embedding, out=grad_states[span])
            grad_embedding.addmm_(logits.t(), states[span])
        ctx.save_for_backward(grad_states, grad_embedding)
        return total

    @staticmethod
    @torch.cuda.amp.custom_bwd
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
