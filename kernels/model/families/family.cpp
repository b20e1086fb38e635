#include "kernels/model/families/family.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace troupe::model {

namespace {

constexpr std::array families{
    family{"DeepseekV2ForCausalLM", "deepseek_v2", build_deepseek_v2},
    family{"DeepseekV3ForCausalLM", "deepseek_v3", build_deepseek_v3},
    family{"DeepseekV3ForCausalLM", "kimi_k2", build_deepseek_v3},
    family{"Dots1ForCausalLM", "dots1", build_dots1},
    family{"Ernie4_5_MoeForCausalLM", "ernie4_5_moe", build_ernie4_5_moe},
    family{"Glm4MoeForCausalLM", "glm4_moe", build_glm4_moe},
    family{"Glm4MoeLiteForCausalLM", "glm4_moe_lite", build_glm4_moe_lite},
    family{"GptMoeForCausalLM", "gpt_moe", build_gpt_moe},
    family{"GptOssForCausalLM", "gpt_oss", build_gpt_oss},
    family{"GraniteMoeForCausalLM", "granitemoe", build_granitemoe},
    family{"GraniteMoeSharedForCausalLM", "granitemoeshared", build_granitemoe},
    family{"HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe", build_hunyuan_v1_moe},
    family{"Llama4ForConditionalGeneration", "llama4", build_llama4, true},
    family{"MiniMaxM2ForCausalLM", "minimax_m2", build_minimax_m2},
    family{"MixtralForCausalLM", "mixtral", build_mixtral},
    family{"OlmoeForCausalLM", "olmoe", build_olmoe},
    family{"PhiMoEForCausalLM", "phimoe", build_phimoe},
    family{"PhimoeForCausalLM", "phimoe", build_phimoe}, // as transformers saves it
    family{"Qwen2MoeForCausalLM", "qwen2_moe", build_qwen2_moe},
    family{"Qwen3MoeForCausalLM", "qwen3_moe", build_qwen3_moe},
};

struct refused_architecture {
  const char* name;
  const char* why;
};

constexpr refused_architecture refused[] = {
    {"DeepseekV32ForCausalLM", "its sparse attention (the indexer) is not implemented"},
    {"GraniteMoeHybridForCausalLM", "its Mamba layers are not implemented"},
    {"KimiK25ForConditionalGeneration", "its vision side and its nested language model are not implemented"},
    {"Llama4ForCausalLM", "only the whole Llama 4 (Llama4ForConditionalGeneration) is read"},
    {"Qwen3NextForCausalLM", "its gated delta net, a state beside the KV cache, is not implemented"},
    {"Qwen3_5MoeForConditionalGeneration",
     "its gated delta net, a state beside the KV cache, is not implemented"},
};

} // namespace

const family* find_family(const std::string& architecture) {
  const auto found = std::ranges::find(families, architecture, &family::architecture);
  return found == families.end() ? nullptr : &*found;
}

const family& family_of_type(const json_object& json) {
  if (!json.has("model_type"))
    json.fail("architectures", "is missing");
  const auto type = json.at<std::string>("model_type");
  const auto found = std::ranges::find(families, type, &family::model_type);
  if (found == families.end())
    json.fail("model_type",
              "is '" + type + "', which is not supported (supported: " + supported_architectures() + ")");
  return *found;
}

std::string why_not(const std::string& architecture) {
  for (const auto& known : refused)
    if (architecture == known.name)
      return known.why;
  return {};
}

std::string supported_architectures() {
  std::string names;
  const char* last = "";
  for (const auto& known : families)
    if (std::exchange(last, known.architecture) != std::string_view{known.architecture})
      names += (names.empty() ? "" : ", ") + std::string{known.architecture};
  return names;
}

} // namespace troupe::model
