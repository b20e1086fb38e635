"""Writes and reads the model as a Hugging Face folder: config.json, model.safetensors (BF16), tokenizer
files.

The names and the config are those of Qwen3MoeForCausalLM, and of Qwen3ForCausalLM for the dense drafts. The
embedding is tied, so there is no lm_head.
"""

import json
import math
import struct

import torch

import model as models
import tokenizer as bpe


def _named(model):
    """Yields (Hugging Face name, tensor) of every weight."""
    for name, weight in model.state_dict().items():
        if name.endswith(("mlp.gate_up", "mlp.down")):
            stem = name.rsplit(".", 1)[0]
            for expert, matrix in enumerate(weight):
                base = f"model.{stem}.experts.{expert}."
                if name.endswith("gate_up"):
                    gate, up = matrix.chunk(2, 0)
                    yield base + "gate_proj.weight", gate
                    yield base + "up_proj.weight", up
                else:
                    yield base + "down_proj.weight", matrix
        else:
            yield "model." + name, weight


def config(shape):
    """Returns the contents of config.json."""
    common = {
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": shape.context,
        "rms_norm_eps": shape.norm_eps,
        "rope_theta": shape.rope_theta,
        "rope_scaling": None,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "use_sliding_window": False,
        "sliding_window": None,
        "max_window_layers": shape.layers,
        "tie_word_embeddings": True,
        "initializer_range": 0.02,
        "use_cache": True,
        "bos_token_id": None,
        "eos_token_id": bpe.END_OF_TEXT,
        "pad_token_id": bpe.END_OF_TEXT,
        "torch_dtype": "bfloat16",
    }
    if not shape.experts:
        return {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "intermediate_size": shape.intermediate,
            **common,
        }
    return {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "intermediate_size": shape.top_k * shape.intermediate,
        "moe_intermediate_size": shape.intermediate,
        "num_experts": shape.experts,
        "num_experts_per_tok": shape.top_k,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "output_router_logits": False,
        "router_aux_loss_coef": 0.01,
        **common,
    }


def save(model, tokenizer, out):
    """Writes the folder `out` (all but the model card)."""
    out.mkdir(parents=True, exist_ok=True)
    header, blobs, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, weight in sorted(_named(model)):
        blob = weight.detach().cpu().to(torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": list(weight.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with open(out / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        file.writelines(blobs)

    def dump(name, contents):
        (out / name).write_text(json.dumps(contents, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    dump("config.json", config(model.shape))
    dump("tokenizer_config.json", tokenizer.config_json(model.shape.context))
    dump(
        "generation_config.json",
        {
            "do_sample": True,
            "temperature": 0.7,
            "top_k": 0,
            "top_p": 1.0,
            "eos_token_id": bpe.END_OF_TEXT,
            "pad_token_id": bpe.END_OF_TEXT,
        },
    )
    (out / "tokenizer.json").write_text(bpe.dumps(tokenizer.to_json()), encoding="utf-8")


def load(source):
    """Reads a folder that `save` wrote: returns (model in float32 with the stored BF16 values, tokenizer)."""
    fields = json.loads((source / "config.json").read_text())
    experts = fields.get("num_experts", 0)
    shape = models.Shape(
        vocabulary=fields["vocab_size"],
        hidden=fields["hidden_size"],
        layers=fields["num_hidden_layers"],
        heads=fields["num_attention_heads"],
        kv_heads=fields["num_key_value_heads"],
        head_dim=fields["head_dim"],
        experts=experts,
        top_k=fields.get("num_experts_per_tok", 0),
        intermediate=fields["moe_intermediate_size"] if experts else fields["intermediate_size"],
        context=fields["max_position_embeddings"],
        rope_theta=fields["rope_theta"],
        norm_eps=fields["rms_norm_eps"],
    )
    packed = (source / "model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", packed)
    tensors = {}
    for name, entry in json.loads(packed[8 : 8 + length]).items():
        if name != "__metadata__":
            begin, _ = entry["data_offsets"]
            raw = torch.frombuffer(
                bytearray(packed[8 + length + begin : 8 + length + entry["data_offsets"][1]]),
                dtype=torch.int16,
                count=math.prod(entry["shape"]),
            )
            tensors[name] = raw.view(torch.bfloat16).view(entry["shape"]).float()
    model = models.Model(shape)
    state = {}
    for name in model.state_dict():
        stem = f"model.{name.rsplit('.', 1)[0]}.experts."
        if name.endswith("mlp.gate_up"):
            state[name] = torch.stack(
                [
                    torch.cat(
                        (
                            tensors[f"{stem}{expert}.gate_proj.weight"],
                            tensors[f"{stem}{expert}.up_proj.weight"],
                        )
                    )
                    for expert in range(experts)
                ]
            )
        elif name.endswith("mlp.down"):
            state[name] = torch.stack(
                [tensors[f"{stem}{expert}.down_proj.weight"] for expert in range(experts)]
            )
        else:
            state[name] = tensors["model." + name]
    model.load_state_dict(state)
    return model.eval(), bpe.Tokenizer.from_json(source / "tokenizer.json")
