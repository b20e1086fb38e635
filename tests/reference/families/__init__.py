"""The forward pass of each family, one file each; `load` takes the one that a folder's config names."""

import json
import os

from families.deepseek import DeepseekV2, DeepseekV3, Glm4MoeLite
from families.dots1 import Dots1
from families.ernie import Ernie45Moe
from families.glm import Glm4Moe
from families.gpt_moe import GptMoe
from families.gpt_oss import GptOss
from families.granite import GraniteMoe
from families.hunyuan import HunYuanMoEV1
from families.llama4 import Llama4
from families.minimax import MiniMaxM2
from families.mixtral import Mixtral
from families.olmoe import Olmoe
from families.phimoe import Phimoe
from families.qwen import Qwen2Moe, Qwen3Moe
from rounding import exact

BY_ARCHITECTURE = {
    "MixtralForCausalLM": Mixtral,
    "OlmoeForCausalLM": Olmoe,
    "Qwen2MoeForCausalLM": Qwen2Moe,
    "Qwen3MoeForCausalLM": Qwen3Moe,
    "DeepseekV2ForCausalLM": DeepseekV2,
    "DeepseekV3ForCausalLM": DeepseekV3,
    "Glm4MoeLiteForCausalLM": Glm4MoeLite,
    "Glm4MoeForCausalLM": Glm4Moe,
    "Dots1ForCausalLM": Dots1,
    "MiniMaxM2ForCausalLM": MiniMaxM2,
    "Ernie4_5_MoeForCausalLM": Ernie45Moe,
    "HunYuanMoEV1ForCausalLM": HunYuanMoEV1,
    "GraniteMoeForCausalLM": GraniteMoe,
    "GraniteMoeSharedForCausalLM": GraniteMoe,
    "PhiMoEForCausalLM": Phimoe,
    "PhimoeForCausalLM": Phimoe,
    "GptMoeForCausalLM": GptMoe,
    "GptOssForCausalLM": GptOss,
    "Llama4ForConditionalGeneration": Llama4,
}


def load(folder, rounded=exact):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        architecture = json.load(file)["architectures"][0]
    return BY_ARCHITECTURE[architecture](folder, rounded)
