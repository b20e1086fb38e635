"""Stands for `transformers` where there is none: as much of its interface as torch_model.py uses, for the two architectures of
torch_stacks.py, written from the papers' formulas. torch_compare_gpu_test.py rehearses the comparison with it.
"""
import json
import math
import pathlib
import sys
import types

import torch
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
from torch_moe_baseline import read_folder  # noqa: E402

__version__ = "stand-in"


class Layer:
    """Keys and values of a layer, [batch, heads, tokens, head_dim]."""

    def __init__(self, max_length=None):
        self.max_length, self.keys, self.values = max_length, None, None
        self.cumulative_length = torch.tensor([0])

    def update(self, keys, values):
        first = int(self.cumulative_length)
        if self.max_length is None:
            self.keys = keys if self.keys is None else torch.cat([self.keys, keys], dim=2)
            self.values = values if self.values is None else torch.cat([self.values, values], dim=2)
        else:
            if self.keys is None:
                shape = (*keys.shape[:2], self.max_length, keys.shape[3])
                self.keys, self.values = keys.new_zeros(shape), keys.new_zeros(shape)
            self.keys[:, :, first : first + keys.shape[2]] = keys
            self.values[:, :, first : first + keys.shape[2]] = values
        self.cumulative_length.add_(keys.shape[2])
        end = int(self.cumulative_length)
        return self.keys[:, :, :end], self.values[:, :, :end]


class Cache:
    def __init__(self, layers, max_length=None):
        self.layers = [Layer(max_length) for _ in range(layers)]

    def get_seq_length(self):
        return int(self.layers[0].cumulative_length)

    def crop(self, count):
        """Removes -count tokens, as newer versions have it."""
        assert count < 0
        for layer in self.layers:
            layer.keys, layer.values = layer.keys[:, :, :count], layer.values[:, :, :count]
            layer.cumulative_length.add_(count)


class StaticCache(Cache):
    def __init__(self, config, max_cache_len):
        super().__init__(config.num_hidden_layers, max_cache_len)


def norm(x, weight, epsilon):
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)).to(x.dtype)


def rotated(x, angles):
    """x: [batch, heads, tokens, head_dim]"""
    first, second = x.chunk(2, dim=-1)
    return x * angles.cos().to(x.dtype) + torch.cat([-second, first], dim=-1) * angles.sin().to(x.dtype)


class AutoModelForCausalLM:
    @staticmethod
    def from_pretrained(folder, dtype, attn_implementation, device_map=None):
        if device_map:
            raise ValueError("a device map needs accelerate")
        return Model(folder, dtype)


class Model:
    def __init__(self, folder, dtype):
        with open(pathlib.Path(folder, "config.json"), encoding="utf-8") as file:
            self.config = types.SimpleNamespace(**json.load(file), _experts_implementation="eager")
        self.tensors = read_folder(folder, dtype)
        self.is_mixtral = self.config.model_type == "mixtral"

    def to(self, _):
        return self

    def eval(self):
        return self

    def set_experts_implementation(self, name):
        if name not in ("eager", "batched_mm"):
            raise ValueError(f"{name} is not here")
        self.config._experts_implementation = name

    def attention(self, prefix, cached, x):
        config, batch, tokens = self.config, x.shape[0], x.shape[1]
        head_dim = config.hidden_size // config.num_attention_heads
        q, k, v = (functional.linear(x, self.tensors[f"{prefix}.self_attn.{name}_proj.weight"]) for name in "qkv")
        if not self.is_mixtral:
            q = norm(q, self.tensors[f"{prefix}.self_attn.q_norm.weight"], config.rms_norm_eps)
            k = norm(k, self.tensors[f"{prefix}.self_attn.k_norm.weight"], config.rms_norm_eps)
        q, k, v = (t.view(batch, tokens, -1, head_dim).transpose(1, 2) for t in (q, k, v))
        first = int(cached.cumulative_length)
        frequencies = config.rope_theta ** -(torch.arange(0, head_dim, 2) / head_dim)
        angles = torch.outer(torch.arange(first, first + tokens), frequencies).repeat(1, 2)
        keys, values = cached.update(rotated(k, angles), v)
        groups = config.num_attention_heads // config.num_key_value_heads
        keys, values = (t.repeat_interleave(groups, dim=1) for t in (keys, values))
        scores = (rotated(q, angles) @ keys.transpose(-1, -2)).float() * head_dim**-0.5
        future = torch.full(scores.shape[-2:], -math.inf).triu(first + 1)
        out = (scores + future).softmax(-1).to(x.dtype) @ values
        return functional.linear(out.transpose(1, 2).reshape(batch, tokens, -1), self.tensors[f"{prefix}.self_attn.o_proj.weight"])

    def expert(self, prefix, number, rows):
        names = ("w1", "w3", "w2") if self.is_mixtral else ("gate_proj", "up_proj", "down_proj")
        gate, up, down = (self.tensors[f"{prefix}.experts.{number}.{name}.weight"] for name in names)
        return functional.linear(functional.silu(functional.linear(rows, gate)) * functional.linear(rows, up), down)

    def moe(self, prefix, x):
        """-> outputs, logits of the router; x: [rows, hidden]"""
        prefix += ".block_sparse_moe" if self.is_mixtral else ".mlp"
        logits = functional.linear(x, self.tensors[prefix + ".gate.weight"])
        weights, chosen = logits.float().softmax(-1).topk(self.config.num_experts_per_tok)
        if self.is_mixtral or self.config.norm_topk_prob:
            weights = weights / weights.sum(-1, keepdim=True)
        weights, out = weights.to(x.dtype), torch.zeros_like(x)
        for number in chosen.unique().tolist():
            row, place = torch.where(chosen == number)
            out.index_add_(0, row, self.expert(prefix, number, x[row]) * weights[row, place, None])
        return out, logits

    def __call__(self, input_ids, use_cache, logits_to_keep, past_key_values=None, output_router_logits=False):
        config, router_logits = self.config, []
        cache = past_key_values or Cache(config.num_hidden_layers)
        x = self.tensors["model.embed_tokens.weight"][input_ids]
        for number, cached in enumerate(cache.layers):
            prefix = f"model.layers.{number}"
            normed = norm(x, self.tensors[prefix + ".input_layernorm.weight"], config.rms_norm_eps)
            x = x + self.attention(prefix, cached, normed)
            normed = norm(x, self.tensors[prefix + ".post_attention_layernorm.weight"], config.rms_norm_eps)
            out, logits = self.moe(prefix, normed.view(-1, config.hidden_size))
            x = x + out.view(x.shape)
            router_logits.append(logits)
        x = norm(x[:, -logits_to_keep:], self.tensors["model.norm.weight"], config.rms_norm_eps)
        return types.SimpleNamespace(logits=functional.linear(x, self.tensors["lm_head.weight"]),
                                     past_key_values=cache if use_cache else None,
                                     router_logits=router_logits if output_router_logits else None)
