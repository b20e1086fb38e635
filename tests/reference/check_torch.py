#!/usr/bin/python3
"""Checks the pieces of the reference against PyTorch's modules, in float64, where PyTorch has them.

RMSNorm and RoPE have no module in the PyTorch that Debian ships: the norm is checked through LayerNorm (which is the
same on rows without a mean), RoPE through multiplication of complex numbers.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import arithmetic
import rotary
import routing
import safetensors_file
from attention import attention
from families.decoder import Decoder
from rounding import StochasticBfloat16, exact

TOLERANCE = 1e-12
rng = np.random.default_rng(7)


def random(*shape):
    return rng.standard_normal(shape)


def tensor(x):
    return torch.from_numpy(np.ascontiguousarray(x))


def compare(name, ours, theirs):
    difference = np.abs(np.asarray(ours) - theirs.detach().numpy()).max()
    assert difference < TOLERANCE, f"{name}: differs by {difference}"
    print(f"{name}: within {difference:.1e}")


def check_elementwise():
    x = 5 * random(7, 33)
    compare("softmax", arithmetic.softmax(x), F.softmax(tensor(x), dim=-1))
    compare("log_softmax", arithmetic.log_softmax(x), F.log_softmax(tensor(x), dim=-1))
    compare("silu", arithmetic.silu(x), nn.SiLU()(tensor(x)))
    compare("gelu", arithmetic.gelu(x), F.gelu(tensor(x)))
    compare("gelu_tanh", arithmetic.gelu_tanh(x), F.gelu(tensor(x), approximate="tanh"))
    compare("sigmoid", arithmetic.sigmoid(x), torch.sigmoid(tensor(x)))


def check_bfloat16():
    """PyTorch rounds to nearest; rounding at random gives that or the other neighbour, and is right on average."""
    x = np.concatenate([random(1000), 1e-30 * random(50), [0.0, -0.0, 1.00390625, 1.01171875]])
    nearest = tensor(x).float().bfloat16().double()
    compare("bfloat16", safetensors_file.from_bfloat16_bits(safetensors_file.to_bfloat16_bits(x)), nearest)
    rounded = np.stack([StochasticBfloat16(seed)(x) for seed in range(400)])
    ulp = 2.0 ** (np.frexp(np.where(x == 0, 1.0, x))[1] - 8)
    assert (np.abs(rounded - x) < ulp).all()
    assert (np.abs(rounded.mean(axis=0) - x) < 0.2 * ulp).all()


def check_linear_and_embedding():
    x, weight, bias = random(5, 12), random(9, 12), random(9)
    module = nn.Linear(12, 9, dtype=torch.float64)
    module.weight.data, module.bias.data = tensor(weight), tensor(bias)
    compare("linear", arithmetic.linear(x, weight, bias), module(tensor(x)))
    table = nn.Embedding(9, 12, _weight=tensor(weight))
    tokens = np.array([3, 0, 8, 3])
    compare("embedding", weight[tokens], table(tensor(tokens)))


def check_norm():
    x, weight = random(6, 20), random(20)
    x -= x.mean(axis=-1, keepdims=True)
    module = nn.LayerNorm(20, eps=1e-5, dtype=torch.float64)
    module.weight.data = tensor(weight)
    compare("rms_norm", arithmetic.rms_norm(x, weight, 1e-5), module(tensor(x)))
    x, bias = random(6, 20), random(20)
    module.bias.data = tensor(bias)
    compare("layer_norm", arithmetic.layer_norm(x, weight, bias, 1e-5), module(tensor(x)))


def check_topk():
    x = random(11, 16)
    compare("topk", arithmetic.topk(x, 4), torch.topk(tensor(x), 4, dim=-1).indices)


def check_rope():
    x = random(10, 3, 8)
    frequencies, factor = rotary.rope_frequencies({"rope_theta": 100.0}, 8, 64)
    angles = tensor(np.arange(10)[:, None, None] * frequencies).expand(10, 3, 4)
    turned = torch.complex(tensor(x[..., :4]), tensor(x[..., 4:])) * torch.polar(torch.ones_like(angles), angles)
    theirs = torch.cat([turned.real, turned.imag], dim=-1)
    compare("rope by halves", rotary.rope_by_halves(x, frequencies, factor), theirs)
    turned = torch.view_as_complex(tensor(x).reshape(10, 3, 4, 2)) * torch.polar(torch.ones_like(angles), angles)
    compare("rope by pairs", rotary.rope_by_pairs(x, frequencies, factor), torch.view_as_real(turned).reshape(10, 3, 8))


def check_attention():
    """nn.MultiheadAttention with projections; grouped heads by repeating the weights of keys and values."""
    tokens, heads, kv_heads, head_dim = 12, 6, 2, 4
    hidden = heads * head_dim
    x, out = random(tokens, hidden), random(hidden, hidden)
    wq, wk, wv = random(hidden, hidden), random(kv_heads * head_dim, hidden), random(kv_heads * head_dim, hidden)
    bq, bk, bv = random(hidden), random(kv_heads * head_dim), random(kv_heads * head_dim)

    def repeated(w):
        return np.repeat(w.reshape(kv_heads, head_dim, -1), heads // kv_heads, axis=0).reshape(hidden, -1).squeeze()

    module = nn.MultiheadAttention(hidden, heads, batch_first=True, dtype=torch.float64)
    module.in_proj_weight.data = tensor(np.concatenate([wq, repeated(wk), repeated(wv)]))
    module.in_proj_bias.data = tensor(np.concatenate([bq, repeated(bk), repeated(bv)]))
    module.out_proj.weight.data = tensor(out)
    module.out_proj.bias.data = torch.zeros(hidden, dtype=torch.float64)
    q, k, v = (
        arithmetic.linear(x, w, b).reshape(tokens, -1, head_dim) for w, b in ((wq, bq), (wk, bk), (wv, bv))
    )
    age = torch.arange(tokens)[:, None] - torch.arange(tokens)[None, :]
    for name, window, mask in (("causal", None, age < 0), ("sliding window", 5, (age < 0) | (age >= 5))):
        theirs, _ = module(*(tensor(x[None]),) * 3, attn_mask=mask)
        compare(f"attention, {name}", arithmetic.linear(attention(q, k, v, window), out), theirs[0])


def check_gated_mlp():
    x, gate, up, down = random(5, 8), random(12, 8), random(12, 8), random(8, 12)
    model = Decoder.__new__(Decoder)
    model.rounded = exact
    model.tensors = {"m.gate_proj.weight": gate, "m.up_proj.weight": up, "m.down_proj.weight": down}
    t = tensor(x)
    theirs = F.linear(F.silu(F.linear(t, tensor(gate))) * F.linear(t, tensor(up)), tensor(down))
    compare("gated mlp", model.gated_mlp(x, "m"), theirs)


def check_experts():
    """Routing by a dense mixture: all experts run, weights outside the top-k are zero."""
    hidden, experts, k = 8, 6, 2
    x = random(9, hidden)
    tensors = {"m.gate.weight": random(experts, hidden)}
    for e in range(experts):
        tensors[f"m.experts.{e}.gate_proj.weight"] = random(12, hidden)
        tensors[f"m.experts.{e}.up_proj.weight"] = random(12, hidden)
        tensors[f"m.experts.{e}.down_proj.weight"] = random(hidden, 12)
    model = Decoder.__new__(Decoder)
    model.tensors, model.rounded = tensors, exact
    w = {name: tensor(value) for name, value in tensors.items()}
    t = tensor(x)
    scores = F.softmax(F.linear(t, w["m.gate.weight"]), dim=-1)
    top = torch.topk(scores, k, dim=-1)
    for normalize in (False, True):
        chosen = top.values / top.values.sum(dim=-1, keepdim=True) if normalize else top.values
        dense = torch.zeros_like(scores).scatter(1, top.indices, chosen)
        theirs = torch.zeros_like(t)
        for e in range(experts):
            p = f"m.experts.{e}."
            inner = F.silu(F.linear(t, w[p + "gate_proj.weight"])) * F.linear(t, w[p + "up_proj.weight"])
            theirs = theirs + dense[:, e : e + 1] * F.linear(inner, w[p + "down_proj.weight"])
        routed = routing.softmax_topk(model.project(x, "m.gate"), k, normalize)
        compare(f"experts, normalize={normalize}", model.experts(x, "m", *routed), theirs)


if __name__ == "__main__":
    check_elementwise()
    check_bfloat16()
    check_linear_and_embedding()
    check_norm()
    check_topk()
    check_rope()
    check_attention()
    check_gated_mlp()
    check_experts()
