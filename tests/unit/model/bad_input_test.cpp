// A model folder that is damaged in one place: one error that names file, and field or tensor. For every
// family.
#include "kernels/model/checkpoint.hpp"
#include "kernels/model/config.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/unit/model/config_text.hpp"
#include "tests/unit/model/folder_refusal.hpp"
#include "tests/unit/model/safetensors_edit.hpp"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <regex>

namespace troupe::model {
namespace {

using json = nlohmann::json;
using test::random_model;
using test::safetensors_edit;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

using names = std::vector<std::string>;

/// Every family has these.
const names always_required = {"hidden_size", "max_position_embeddings", "num_attention_heads",
                               "num_hidden_layers", "vocab_size"};

/// What every family accepts with any content: nothing that is computed depends on it.
const names bookkeeping = {"architectures",        "attention_dropout", "bos_token_id",
                           "hidden_dropout",       "initializer_range", "model_type",
                           "output_router_logits", "pad_token_id",      "router_aux_loss_coef",
                           "transformers_version", "use_cache"};

struct damaged_family {
  const char* variant;
  names required;          ///< besides those of all
  names null_is_none = {}; ///< may be null, which is not what absence means
  names unread = {};       ///< any content is accepted, of training or of another program
};

void PrintTo(const damaged_family& family, std::ostream* out) {
  *out << family.variant;
}

const names latent = {"intermediate_size", "kv_lora_rank",        "moe_intermediate_size",
                      "n_routed_experts",  "num_experts_per_tok", "q_lora_rank",
                      "qk_nope_head_dim",  "qk_rope_head_dim",    "v_head_dim"};
const names noaux = {"intermediate_size", "moe_intermediate_size", "n_routed_experts", "num_experts_per_tok"};
const names local_experts = {"intermediate_size", "num_experts_per_tok", "num_local_experts"};

class bad_input : public testing::TestWithParam<damaged_family> {
 protected:
  /// The fields of the language model.
  static json& fields(json& config) {
    return config.contains("text_config") ? config["text_config"] : config;
  }

  const std::filesystem::path& folder() const { return model_.folder(); }

  json read_config() const {
    std::ifstream in(folder() / "config.json");
    return json::parse(in);
  }

  static bool is_listed(const names& list, const std::string& name) {
    return std::ranges::find(list, name) != list.end();
  }

 private:
  const random_model model_{GetParam().variant};
};

TEST_P(bad_input, in_config_json_is_named) {
  const auto original = read_config();
  auto required = always_required;
  required.insert(required.end(), GetParam().required.begin(), GetParam().required.end());
  for (const auto& key : required) {
    auto config = original;
    ASSERT_EQ(fields(config).erase(key), 1U) << key;
    EXPECT_THAT(test::refusal(config),
                AllOf(StartsWith("config.json: "), HasSubstr(key), HasSubstr("missing")));
  }
  for (const auto& key : GetParam().null_is_none) {
    auto config = original;
    fields(config)[key] = nullptr;
    EXPECT_EQ(test::refusal(config), "accepted") << key;
  }
  auto copy = original;
  for (const auto& [key, value] : fields(copy).items())
    if (!is_listed(bookkeeping, key) && !is_listed(GetParam().unread, key))
      for (const json& wrong : {json("x"), json::array({json::object()})}) {
        auto config = original;
        fields(config)[key] = wrong;
        EXPECT_THAT(test::refusal(config),
                    AllOf(StartsWith("config.json: "), HasSubstr("field '" + key + "' ")));
      }
}

/// Tensors for other parts than the language model: pictures, and further tokens.
bool is_needed(const std::string& name, std::size_t num_layers) {
  static const std::regex layer(R"(^model\.layers\.(\d+)\.)");
  std::smatch found;
  return !(std::regex_search(name, found, layer) && std::stoul(found[1]) >= num_layers)
         && !name.starts_with("vision_model.") && !name.starts_with("multi_modal_projector.")
         && !name.starts_with("model.mtp_");
}

TEST_P(bad_input, in_tensors_is_named) {
  const auto path = folder() / "model.safetensors";
  safetensors_edit original(path);
  const auto num_layers = load_config(folder()).num_layers();
  std::erase_if(original.tensors, [&](const auto& tensor) { return !is_needed(tensor.name, num_layers); });
  original.write();
  ASSERT_EQ(test::refusal(folder()), "accepted");
  // One of each kind: layers and experts differ by number alone.
  static const std::regex number(R"(\.\d+\.)");
  std::map<std::string, std::string> kinds;
  for (const auto& tensor : original.tensors)
    kinds.emplace(std::regex_replace(tensor.name, number, ".N."), tensor.name);
  const auto one_problem = StartsWith(folder().string() + ": 1 problem");
  for (const auto& [kind, name] : kinds) {
    auto file = original;
    auto tensor = file.take(name);
    file.write();
    EXPECT_THAT(test::refusal(folder()), AllOf(one_problem, HasSubstr("tensor '" + name + "' is missing")));
    tensor.shape = {
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::size_t{1}, std::multiplies<>()), 1};
    file.tensors.push_back(tensor);
    file.write();
    EXPECT_THAT(test::refusal(folder()), AllOf(one_problem, HasSubstr("tensor '" + name + "' has shape [")));
  }
}

INSTANTIATE_TEST_SUITE_P(
    model, bad_input,
    testing::Values(
        damaged_family{"mixtral", local_experts, {"sliding_window"}, {"router_jitter_noise"}},
        damaged_family{"olmoe", {"intermediate_size", "num_experts", "num_experts_per_tok"}, {"clip_qkv"}},
        damaged_family{"qwen2",
                       {"moe_intermediate_size", "num_experts", "num_experts_per_tok",
                        "shared_expert_intermediate_size"},
                       {},
                       {"intermediate_size", "sliding_window"}},
        damaged_family{"qwen3",
                       {"moe_intermediate_size", "num_experts", "num_experts_per_tok"},
                       {"sliding_window"},
                       {"intermediate_size", "max_window_layers", "sliding_window"}},
        damaged_family{"deepseek_v2",
                       latent,
                       {"rope_scaling"},
                       {"aux_loss_alpha", "ep_size", "num_key_value_heads", "pretraining_tp", "seq_aux"}},
        damaged_family{"deepseek_v2_lite",
                       latent,
                       {"n_shared_experts"},
                       {"aux_loss_alpha", "ep_size", "n_group", "num_key_value_heads", "pretraining_tp",
                        "seq_aux", "topk_group"}},
        damaged_family{"kimi_k2",
                       latent,
                       {"n_group", "num_nextn_predict_layers", "rope_scaling"},
                       {"aux_loss_alpha", "ep_size", "num_key_value_heads", "seq_aux"}},
        damaged_family{"moonlight",
                       latent,
                       {"n_group", "n_shared_experts", "num_nextn_predict_layers"},
                       {"ep_size", "num_key_value_heads"}},
        damaged_family{"glm4_moe_lite",
                       latent,
                       {"n_group", "n_shared_experts", "num_nextn_predict_layers"},
                       {"num_key_value_heads"}},
        damaged_family{"glm4_moe", noaux, {"n_group", "n_shared_experts", "num_nextn_predict_layers"}},
        damaged_family{
            "dots1", noaux, {"n_group", "n_shared_experts"}, {"pretraining_tp", "use_sliding_window"}},
        damaged_family{
            "minimax_m2", local_experts, {"num_mtp_modules"}, {"mtp_transformer_layers", "use_mtp"}},
        damaged_family{"ernie4_5_moe",
                       {"intermediate_size", "moe_intermediate_size", "moe_num_experts"},
                       {"moe_num_shared_experts"},
                       {"moe_capacity", "moe_use_aux_free", "num_nextn_predict_layers"}},
        damaged_family{"hunyuan_v1_moe",
                       {"intermediate_size", "num_experts"},
                       {"routed_scaling_factor"},
                       {"cla_share_factor", "kv_lora_rank", "moe_drop_tokens", "n_group", "norm_type",
                        "q_lora_rank", "topk_group"}},
        damaged_family{"granitemoe", local_experts},
        damaged_family{"granitemoeshared", local_experts, {"shared_intermediate_size"}},
        damaged_family{"phimoe", local_experts, {"sliding_window"}, {"input_jitter_noise"}},
        damaged_family{"gpt_oss", local_experts, {}, {"initial_context_length"}},
        damaged_family{
            "llama4", local_experts, {"attention_chunk_size", "rope_scaling"}, {"intermediate_size_mlp"}}));

struct contradiction {
  const char* variant;
  json more;
  const char* message;
};

TEST(contradictory_fields, are_refused_by_name) {
  const contradiction cases[] = {
      {"mixtral", {{"num_experts", 5}}, "'num_local_experts' differs from num_experts"},
      {"mixtral", {{"experts_per_token", 1}}, "'experts_per_token' differs from num_experts_per_tok"},
      {"deepseek_v2_lite", {{"num_experts", 5}}, "'n_routed_experts' differs from num_experts"},
      {"deepseek_v2_lite",
       {{"qk_head_dim", 23}},
       "'qk_head_dim' differs from qk_nope_head_dim + qk_rope_head_dim"},
      {"deepseek_v2_lite",
       {{"shared_expert_intermediate_size", 40}},
       "'shared_expert_intermediate_size' differs from n_shared_experts"},
      {"deepseek_v2_lite", {{"first_k_dense_replace", -1}}, "'first_k_dense_replace' must not be negative"},
      {"deepseek_v2_lite",
       {{"n_group", 3}, {"topk_method", "noaux_tc"}},
       "'n_group' of 3 with topk_group of 1"},
      {"glm4_moe_lite",
       {{"first_k_dense_replace", 2}},
       "'mlp_layer_types' differs from first_k_dense_replace and moe_layer_freq"},
      {"glm4_moe_lite", {{"rope_theta", 5e5}}, "'rope_theta' differs from the one in rope_parameters"},
      {"minimax_m2", {{"partial_rotary_factor", 1.0}}, "'rotary_dim' differs from partial_rotary_factor"},
      {"hunyuan_v1_moe",
       {{"attention_head_dim", 8}, {"head_dim", 16}},
       "'head_dim' differs from attention_head_dim"},
      {"hunyuan_v1_moe", {{"moe_topk", 17}}, "'moe_topk' has 17, at most 16 are possible"},
      {"ernie4_5_moe",
       {{"moe_num_experts", 4}, {"moe_k", nullptr}},
       "'moe_k' is missing, and 6, which that means"},
      {"gpt_oss", {{"experts_per_token", 3}}, "'experts_per_token' differs from num_experts_per_tok"},
      {"gpt_oss",
       {{"sliding_window", nullptr}},
       "'layer_types' names sliding_attention, but there is no window"}};
  for (const auto& [variant, more, message] : cases) {
    const random_model model(variant);
    std::ifstream in(model.folder() / "config.json");
    EXPECT_THAT(test::refusal(test::with(json::parse(in), more)), HasSubstr(message)) << variant;
  }
}

TEST(contradictory_fields, of_a_nested_model_are_refused_by_name) {
  const random_model model("llama4");
  std::ifstream in(model.folder() / "config.json");
  auto config = json::parse(in);
  config["text_config"]["layer_types"] = {"chunked_attention", "full_attention", "chunked_attention",
                                          "full_attention"};
  EXPECT_THAT(test::refusal(config),
              HasSubstr("config.json: text_config: field 'layer_types' has 'full_attention' for layer 1"));
}

} // namespace
} // namespace troupe::model
