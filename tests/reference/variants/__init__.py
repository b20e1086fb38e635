"""The small models of each family, one file each: ARCHITECTURES (fields of config.json), VARIANTS, TENSORS,
FLOAT32 and OUTPUTS."""

from variants import deepseek, dots1, ernie, glm, gpt_oss, granite, hunyuan, llama4, minimax, mixtral, olmoe
from variants import gpt_moe, phimoe, qwen
from variants.parts import ABSENT, TINY

MODULES = (mixtral, olmoe, qwen, deepseek, glm, dots1, minimax, ernie, hunyuan, granite, phimoe, gpt_oss, llama4, gpt_moe)


def merged(name):
    return {key: value for module in MODULES for key, value in getattr(module, name, {}).items()}


ARCHITECTURES = merged("ARCHITECTURES")
VARIANTS = merged("VARIANTS")  # name: (architecture, fields that differ, dtype, number of files)
TENSORS = merged("TENSORS")  # model_type: gives (name, shape) of every tensor
FLOAT32 = merged("FLOAT32")  # model_type: endings of tensors that are F32 whatever the others are
OUTPUTS = merged("OUTPUTS")  # model_type: see values.py


def config_of(variant):
    architecture, fields, dtype, _ = VARIANTS[variant]
    config = {**TINY, **ARCHITECTURES[architecture], **fields}
    spelling = "dtype" if config["transformers_version"].startswith("5") else "torch_dtype"
    config[spelling] = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}[dtype]
    return {name: value for name, value in config.items() if value is not ABSENT}


def tensors_of(config):
    """(name, shape) of every tensor, layer by layer."""
    return TENSORS[config["model_type"]](config)


def dtype_of(config, name, dtype):
    """The dtype of a tensor among those of the given dtype."""
    if name.endswith(("e_score_correction_bias", *FLOAT32.get(config["model_type"], ()))):
        return "F32"
    return dtype


def outputs_of(config):
    """How small the matrices are whose results join the residual stream (values.py)."""
    if "residual_multiplier" in config:
        return 1.0
    return OUTPUTS.get(config["model_type"], 1.0) * (0.25 if config.get("tie_word_embeddings") else 1.0)
