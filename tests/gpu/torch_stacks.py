"""Stacks of layers with random weights and skewed routing, as published model folders: both sides of a comparison read them.

Weights are N(0, 1 / inputs), those that add to the residual stream smaller by the root of twice the layers, embeddings N(0, 1).
Routing is skewed through one channel: it has the same value in every token (an embedding's channel 0; no layer writes to it),
and each expert's row of the router has -ZIPF * ln(rank) there, over what is left of that value behind the norm. The rest of a
row is noise that gives logits the deviation of a Gumbel distribution, so that the first choice falls on the expert of a rank
with about rank^-ZIPF. Ranks are dealt out anew in each layer. What loads come of it is measured and printed.
"""
import json
import math
import os
import pathlib
import random
import shutil
import struct
import sys
import tempfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "reference"))

GUMBEL_DEVIATION = math.pi / math.sqrt(6)
CONSTANT_CHANNEL = 0
# name: (architecture of make_model.py, fields that differ, fields of a tiny one)
TINY = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 512}
STACKS = {
    "mixtral": ("mixtral", {
        "vocab_size": 32000, "hidden_size": 4096, "num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 8,
        "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 32768,
    }, TINY | {"num_key_value_heads": 2}),
    "olmoe": ("olmoe", {
        "vocab_size": 50304, "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 16,
        "intermediate_size": 1024, "num_experts": 64, "num_experts_per_tok": 8, "max_position_embeddings": 4096,
    }, TINY | {"num_key_value_heads": 4, "num_experts": 16, "num_experts_per_tok": 4}),
}


def config_of(name, tiny=False, layers=None):
    import make_model  # needs numpy

    architecture, fields, tiny_fields = STACKS[name]
    config = {**make_model.TINY, **make_model.ARCHITECTURES[architecture], **fields, **(tiny_fields if tiny else {})}
    config.update({"torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2})
    if layers:
        config["num_hidden_layers"] = min(layers, config["num_hidden_layers"])
    return config


def experts_of(config):
    return config.get("num_experts") or config["num_local_experts"]


def constant_value(hidden):
    """Of the constant channel in embeddings: a sixteenth of the stream's energy before the first layer."""
    return math.sqrt(hidden) / 4


def router_biases(experts, zipf, hidden, rng):
    """What the router's rows have at the constant channel."""
    ranks = list(range(1, experts + 1))
    rng.shuffle(ranks)
    seen = constant_value(hidden) / math.sqrt(1 + 1 / 16)  # after the norm
    return [-zipf * math.log(rank) / seen for rank in ranks]


def deviation_of(name, shape, config):
    if name == "model.embed_tokens.weight":
        return 1.0
    if name.endswith(".gate.weight"):
        return GUMBEL_DEVIATION * shape[-1] ** -0.5
    if adds_to_stream(name):
        return (2 * config["num_hidden_layers"] * shape[-1]) ** -0.5
    return shape[-1] ** -0.5


def adds_to_stream(name):
    return any(part in name for part in (".o_proj.", ".down_proj.", ".w2."))


def tensor_of(name, shape, config, seed, zipf, device):
    """The tensor's values in BF16: of the seed and the name alone."""
    import torch

    if "norm" in name:
        return torch.ones(shape, dtype=torch.bfloat16, device=device)
    number = seed << 32 | zlib.crc32(name.encode())
    generator = torch.Generator(device=device)
    generator.manual_seed(number)
    values = torch.randn(shape, generator=generator, device=device) * deviation_of(name, shape, config)
    if name == "model.embed_tokens.weight":
        values[:, CONSTANT_CHANNEL] = constant_value(config["hidden_size"])
    elif name.endswith(".gate.weight"):
        biases = router_biases(shape[0], zipf, shape[-1], random.Random(number))
        values[:, CONSTANT_CHANNEL] = torch.tensor(biases, device=device)
    elif adds_to_stream(name):
        values[CONSTANT_CHANNEL] = 0
    return values.to(torch.bfloat16)


def bytes_of(config):
    import make_model

    return sum(2 * math.prod(shape) for _, shape in make_model.tensors_of(config))


def header_of(tensors):
    """The beginning of a safetensors file with these (name, shape) in BF16."""
    header, offset = {}, 0
    for name, shape in tensors:
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the data starts aligned
    return struct.pack("<Q", len(text)) + text


def write_folder(folder, config, seed, zipf, device):
    import make_model
    import torch

    tensors = list(make_model.tensors_of(config))
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(header_of(tensors))
        for name, shape in tensors:
            values = tensor_of(name, shape, config, seed, zipf, device)
            file.write(values.view(torch.int16).cpu().numpy().data)
    if device != "cpu":
        torch.cuda.empty_cache()  # the other side uses the same card


def place_for(num_bytes, places=("/dev/shm", tempfile.gettempdir())):
    """A new folder in the first place that has room; none: OSError."""
    for place in places:
        if os.path.isdir(place) and shutil.disk_usage(place).free > num_bytes * 1.05 + (64 << 20):
            return tempfile.mkdtemp(prefix="troupe-compare-", dir=place)
    raise OSError(f"no room for {num_bytes / 1e9:.1f} GB in {' or '.join(places)}")
