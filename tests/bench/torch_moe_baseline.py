#!/usr/bin/python3
"""The two common implementations of Mixture-of-Experts layers in PyTorch, on a Mixtral folder.

    torch_moe_baseline.py MODEL_DIR [--threads N] [--dtype float32] [--capacity-factor 1.0] [--min-capacity 4]

Answers the commands of peer_workload.hpp on stdin, and `use einsum` or `use loop`, which choose how experts are
computed:

einsum  the papers' baseline (GShard, Switch, DeepSpeed): a one-hot dispatch mask [tokens, experts, capacity] gathers
        tokens into a padded batch of each expert and spreads the outputs again; every expert computes `capacity` rows,
        and tokens beyond it are dropped. Capacity is top_k · tokens / experts · factor, at least the minimum (the
        defaults are DeepSpeed's).
loop    for each expert, the tokens that chose it; nothing is padded or dropped.

Weights and activations are of --dtype; dense parts are the same for both.
"""

import argparse
import json
import math
import os
import pathlib
import struct
import sys
import time

import numpy as np
import torch

from peer_tokens import WARM_UP_STEPS, token_at


def read_folder(path, dtype):
    """name -> tensor, of a folder with BF16 weights."""
    tensors = {}
    for file in sorted(pathlib.Path(path).glob("*.safetensors")):
        data = np.memmap(file, dtype=np.uint8, mode="r")
        (length,) = struct.unpack("<Q", data[:8].tobytes())
        for name, entry in json.loads(data[8 : 8 + length].tobytes()).items():
            if name != "__metadata__":
                begin, end = (8 + length + offset for offset in entry["data_offsets"])
                values = (data[begin:end].view(np.uint16).astype(np.uint32) << 16).view(np.float32)
                tensors[name] = torch.from_numpy(values.reshape(entry["shape"])).to(dtype)
    return tensors


class Model:
    def __init__(self, folder, capacity_factor, min_capacity, dtype=torch.float32, max_batch=32, max_tokens=1024):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            self.config = config = json.load(file)
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.head_dim = config["hidden_size"] // self.heads
        self.experts, self.top_k = config["num_local_experts"], config["num_experts_per_tok"]
        self.eps = config["rms_norm_eps"]
        self.capacity_factor, self.min_capacity = capacity_factor, min_capacity
        self.experts_of = self.experts_einsum
        tensors = read_folder(folder, dtype)
        self.embeddings = tensors.pop("model.embed_tokens.weight")
        self.final_norm = tensors.pop("model.norm.weight")
        self.lm_head = tensors.pop("lm_head.weight")
        self.layers = [self.take_layer(tensors, i) for i in range(config["num_hidden_layers"])]
        frequencies = config["rope_theta"] ** -(torch.arange(0, self.head_dim, 2) / self.head_dim)
        angles = torch.outer(torch.arange(max_tokens), frequencies).repeat(1, 2)
        self.cos, self.sin = angles.cos().to(dtype), angles.sin().to(dtype)
        shape = (len(self.layers), max_batch, self.kv_heads, max_tokens, self.head_dim)
        self.keys, self.values = torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)

    def take_layer(self, tensors, i):
        prefix = f"model.layers.{i}."
        layer = {"attention_norm": tensors.pop(prefix + "input_layernorm.weight")}
        layer["mlp_norm"] = tensors.pop(prefix + "post_attention_layernorm.weight")
        layer["qkv"] = torch.cat([tensors.pop(f"{prefix}self_attn.{name}_proj.weight") for name in "qkv"])
        layer["output"] = tensors.pop(prefix + "self_attn.o_proj.weight")
        layer["router"] = tensors.pop(prefix + "block_sparse_moe.gate.weight")
        for weight in ("w1", "w2", "w3"):
            experts = [f"{prefix}block_sparse_moe.experts.{e}.{weight}.weight" for e in range(self.experts)]
            layer[weight] = torch.stack([tensors.pop(name) for name in experts])  # [experts, out, in]
        return layer

    def norm(self, x, weight):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * weight

    def rotate(self, x, cos, sin):
        """x: [batch, heads, tokens, head_dim]."""
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-second, first], dim=-1) * sin

    def attention(self, number, layer, x, position):
        """x: [batch, tokens, hidden], all sequences at the same position."""
        batch, tokens, _ = x.shape
        q, k, v = torch.nn.functional.linear(x, layer["qkv"]).split(
            [n * self.head_dim for n in (self.heads, self.kv_heads, self.kv_heads)], dim=-1
        )
        q, k, v = (t.view(batch, tokens, -1, self.head_dim).transpose(1, 2) for t in (q, k, v))
        end = position + tokens
        cos, sin = self.cos[position:end], self.sin[position:end]
        self.keys[number, :batch, :, position:end] = self.rotate(k, cos, sin)
        self.values[number, :batch, :, position:end] = v
        keys, values = (cache[number, :batch, :, :end] for cache in (self.keys, self.values))
        q = self.rotate(q, cos, sin).reshape(batch, self.kv_heads, -1, self.head_dim)  # query heads of one KV head
        scores = q @ keys.transpose(-1, -2) * self.head_dim**-0.5
        if tokens > 1:
            future = torch.full((tokens, end), -math.inf, dtype=x.dtype).triu(position + 1)
            scores = scores + future.repeat(self.heads // self.kv_heads, 1)
        out = (scores.softmax(-1) @ values).reshape(batch, self.heads, tokens, self.head_dim)
        return torch.nn.functional.linear(out.transpose(1, 2).reshape(batch, tokens, -1), layer["output"])

    def route(self, layer, x):
        """x: [tokens, hidden] -> weights and ids, [tokens, top_k]."""
        weights, ids = torch.nn.functional.linear(x, layer["router"]).softmax(-1).topk(self.top_k)
        return weights / weights.sum(-1, keepdim=True), ids

    def experts_einsum(self, layer, x):
        weights, ids = self.route(layer, x)
        tokens = x.shape[0]
        capacity = math.ceil(self.top_k * tokens / self.experts * self.capacity_factor)
        capacity = min(tokens, max(self.min_capacity, capacity))
        chosen = torch.nn.functional.one_hot(ids, self.experts)  # [tokens, top_k, experts]
        # First choices get places first, then second ones, as in GShard.
        by_choice = chosen.transpose(0, 1).reshape(-1, self.experts)
        place = (by_choice.cumsum(0) - 1).view(self.top_k, tokens, self.experts).transpose(0, 1)
        kept = chosen * (place < capacity)
        place = (place * kept).sum(-1)  # [tokens, top_k]
        slots = torch.nn.functional.one_hot(place, capacity).to(x.dtype)
        combine = torch.einsum("tk,tke,tkc->tec", weights, kept.to(x.dtype), slots)
        dispatch = (combine > 0).to(x.dtype)
        rows = torch.einsum("tec,th->ech", dispatch, x)
        gate = torch.einsum("ech,efh->ecf", rows, layer["w1"])
        up = torch.einsum("ech,efh->ecf", rows, layer["w3"])
        out = torch.einsum("ecf,ehf->ech", torch.nn.functional.silu(gate) * up, layer["w2"])
        return torch.einsum("tec,ech->th", combine, out)

    def experts_loop(self, layer, x):
        weights, ids = self.route(layer, x)
        result = torch.zeros_like(x)
        for expert in ids.unique().tolist():
            token, slot = torch.where(ids == expert)
            rows = x[token]
            hidden = torch.nn.functional.silu(torch.nn.functional.linear(rows, layer["w1"][expert]))
            hidden = hidden * torch.nn.functional.linear(rows, layer["w3"][expert])
            out = torch.nn.functional.linear(hidden, layer["w2"][expert])
            result.index_add_(0, token, out * weights[token, slot, None])
        return result

    def step(self, tokens, position):
        """tokens: [batch, tokens] at a position common to all. @returns logits of the last one, [batch, vocab]"""
        x = self.embeddings[tokens]
        for number, layer in enumerate(self.layers):
            x = x + self.attention(number, layer, self.norm(x, layer["attention_norm"]), position)
            normed = self.norm(x, layer["mlp_norm"])
            x = x + self.experts_of(layer, normed.view(-1, x.shape[-1])).view(x.shape)
        return torch.nn.functional.linear(self.norm(x[:, -1], self.final_norm), self.lm_head)


def run_prefill(model, count):
    tokens = torch.tensor([[token_at(0, i, model.config["vocab_size"]) for i in range(count)]])
    begin = time.perf_counter()
    model.step(tokens, 0)
    return {"tokens": count, "seconds": time.perf_counter() - begin}


def run_decode(model, batch, steps):
    seconds = 0.0
    for position in range(steps + WARM_UP_STEPS):
        tokens = torch.tensor([[token_at(s, position, model.config["vocab_size"])] for s in range(batch)])
        begin = time.perf_counter()
        model.step(tokens, position)
        if position >= WARM_UP_STEPS:
            seconds += time.perf_counter() - begin
    return {"tokens": batch * steps, "seconds": seconds}


def run_greedy(model, prompt, count):
    tokens = torch.tensor([[token_at(0, i, model.config["vocab_size"]) for i in range(prompt)]])
    result = [int(model.step(tokens, 0).argmax())]
    while len(result) < count:
        result.append(int(model.step(torch.tensor([[result[-1]]]), prompt + len(result) - 1).argmax()))
    return {"greedy": result}


def answer(model, words):
    if words[0] == "use":
        model.experts_of = {"einsum": model.experts_einsum, "loop": model.experts_loop}[words[1]]
        return {"using": words[1]}
    run = {"prefill": run_prefill, "decode": run_decode, "greedy": run_greedy}[words[0]]
    return run(model, *map(int, words[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL_DIR")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--capacity-factor", type=float, default=1.0)
    parser.add_argument("--min-capacity", type=int, default=4)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with torch.inference_mode():
        model = Model(args.model, args.capacity_factor, args.min_capacity, getattr(torch, args.dtype))
        print(json.dumps({"ready": True, "engine": f"torch {torch.__version__}"}), flush=True)
        for line in sys.stdin:
            print(json.dumps(answer(model, line.split())), flush=True)


if __name__ == "__main__":
    main()
