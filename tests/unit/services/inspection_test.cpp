// `troupe inspect` of folders and of a configuration by itself.
#include "services/troupe/inspection.hpp"

#include <filesystem>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kernels/model/cpu_backend.hpp"
#include "kernels/model/error.hpp"
#include "kernels/model/peer_weights.hpp"
#include "services/attention/kv_room.hpp"
#include "services/expert/expert_room.hpp"
#include "services/troupe/memory_needs.hpp"
#include "tests/reference/random_model.hpp"

namespace troupe {
namespace {

using json = nlohmann::json;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

inspect_options options_for(const std::filesystem::path& model) {
  inspect_options options;
  options.model.model_dir = model.string();
  return options;
}

json config_of(const std::filesystem::path& folder) {
  std::ifstream in(folder / "config.json");
  return json::parse(in);
}

void set_config(const std::filesystem::path& folder, const json& config) {
  std::ofstream(folder / "config.json") << config;
}

TEST(inspection, of_a_folder_that_loads) {
  const test::random_model model("gpt_oss");
  const auto page = inspect(options_for(model.folder()));
  EXPECT_EQ(page.error, std::nullopt);
  EXPECT_TRUE(page.loads);
  EXPECT_THAT(page.weights, EndsWith(" tensors"));
  EXPECT_THAT(page.end_tokens, ElementsAre(256, 258)); // of both configurations
  EXPECT_EQ(page.tokenizer, "tokenizer.json, 260 tokens");
  ASSERT_TRUE(page.program && page.needs);
  ASSERT_EQ(page.program->attention.size(), 2U);
  const auto& windowed = page.program->attention[0];
  EXPECT_EQ(windowed.layers, 2U);
  EXPECT_EQ(windowed.window, 11U);
  EXPECT_TRUE(windowed.sinks);
  EXPECT_EQ(page.program->attention[1].window, std::nullopt);
  // 2 layers, 2 KV heads, a key of 24 that takes 32 and a value that takes 32, in BF16.
  EXPECT_EQ(windowed.kv_bytes_per_token, 2U * 2 * (32 + 32) * 2);
  EXPECT_EQ(page.needs->kv_bytes_per_token, 2 * windowed.kv_bytes_per_token);
  EXPECT_THAT(page.needs->numerics_class, HasSubstr("/bf16/none/"));
}

TEST(inspection, of_a_folder_with_a_tensor_too_few_and_one_too_many) {
  const test::random_model model("mixtral_sharded");
  auto config = config_of(model.folder());
  config["num_hidden_layers"] = 2; // the third is not needed
  config["unsloth_version"] = "1";
  set_config(model.folder(), config);
  auto page = inspect(options_for(model.folder()));
  EXPECT_TRUE(page.loads);
  EXPECT_THAT(page.ignored, ElementsAre("unsloth_version"));
  config["num_hidden_layers"] = 4;
  set_config(model.folder(), config);
  page = inspect(options_for(model.folder()));
  EXPECT_FALSE(page.loads);
  EXPECT_THAT(page.error.value_or(""),
              HasSubstr("tensor 'model.layers.3.input_layernorm.weight' is missing"));
  EXPECT_EQ(page.program->layers, 4U) << "what the configuration says is said";
}

TEST(inspection, a_damaged_tokenizer_is_told_also_without_weights) {
  const test::random_model model("mixtral");
  std::filesystem::remove(model.folder() / "model.safetensors");
  for (const auto* name : {"tokenizer.json", "tokenizer.model", "tiktoken.model"}) {
    std::filesystem::remove(model.folder() / "tokenizer.json");
    std::ofstream(model.folder() / name) << "not a tokenizer";
    const auto page = inspect(options_for(model.folder()));
    EXPECT_EQ(page.weights, "none");
    EXPECT_THAT(page.error.value_or(""), HasSubstr(name));
    std::filesystem::remove(model.folder() / name);
  }
  EXPECT_EQ(inspect(options_for(model.folder())).error, std::nullopt) << "it need not have one";
}

TEST(inspection, of_a_configuration_by_itself) {
  const test::random_model model("mixtral");
  const auto page = inspect(options_for(model.folder() / "config.json"));
  EXPECT_EQ(page.error, std::nullopt);
  EXPECT_FALSE(page.loads);
  EXPECT_EQ(page.weights, "none");
  EXPECT_EQ(page.tokenizer, std::nullopt);
  ASSERT_TRUE(page.needs);
  const auto whole = inspect(options_for(model.folder()));
  EXPECT_EQ(page.needs->one_machine, whole.needs->one_machine);
  EXPECT_EQ(page.needs->attention_weights, whole.needs->attention_weights);
}

TEST(inspection, of_quantized_weights_says_why_not_and_describes_the_original) {
  const test::random_model model("deepseek_v2");
  const auto file = model.folder() / "config.json";
  const auto original = inspect(options_for(file));
  auto config = config_of(model.folder());
  config["quantization_config"] = {{"quant_method", "fp8"}};
  set_config(model.folder(), config);
  auto page = inspect(options_for(file));
  EXPECT_THAT(page.error.value_or(""),
              HasSubstr("config.json: field 'quantization_config' is not supported"));
  ASSERT_TRUE(page.program);
  EXPECT_EQ(page.program->parameters, original.program->parameters);
  config["scoring_func"] = "tanh";
  set_config(model.folder(), config);
  page = inspect(options_for(file));
  EXPECT_THAT(page.error.value_or(""), HasSubstr("'quantization_config'")) << "the one that serve names";
  EXPECT_FALSE(page.program) << "and not all";
}

TEST(inspection, takes_the_flags_that_change_what_is_needed) {
  const test::random_model model("qwen3");
  auto options = options_for(model.folder());
  const auto plain = *inspect(options).needs;
  options.model.expert_quant = "int4";
  options.model.dense_quant = "int8";
  options.model.kv_cache_dtype = "int8";
  options.expert_workers = 1;
  const auto small = *inspect(options).needs;
  EXPECT_THAT(small.numerics_class, HasSubstr("/bf16/int4-group32+dense-int8+kv-int8/"));
  EXPECT_LT(small.expert_weights, plain.expert_weights);
  EXPECT_LT(small.attention_weights, plain.attention_weights);
  EXPECT_LT(small.kv_bytes_per_token, plain.kv_bytes_per_token);
  EXPECT_EQ(small.expert_worker_of_fewer, std::nullopt);
}

TEST(inspection, knows_what_the_kv_cache_cannot_hold) {
  const test::random_model model("deepseek_v3");
  auto options = options_for(model.folder());
  options.model.kv_cache_dtype = "int8";
  EXPECT_EQ(inspect(options).error,
            "--kv-cache-dtype int8: the KV cache of DeepseekV3ForCausalLM holds latents, which are not "
            "quantized; choose auto");
}

/// A model of 8 GB of experts that is nowhere.
std::shared_ptr<const model::cpu_weights> large_weights() {
  const auto* config = R"({"architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 2048,
    "max_position_embeddings": 4096, "moe_intermediate_size": 768, "num_attention_heads": 32, "num_experts": 128,
    "num_experts_per_tok": 8, "num_hidden_layers": 7, "num_key_value_heads": 4, "vocab_size": 151936})";
  return std::make_shared<const model::peer_weights>(model::parse_config(config, "config.json"),
                                                     kernels::dtype::bf16, model::quantization{}, "", "");
}

/// Whether a process with this limit would start.
template <class Start>
bool starts(std::uint64_t limit, const Start& start) {
  try {
    start(memory_budget(limit));
  } catch (const model::model_error&) {
    return false;
  }
  return true;
}

TEST(memory_needs, are_the_least_limits_with_which_processes_start) {
  constexpr std::uint64_t mebibyte = 1 << 20;
  constexpr std::uint32_t workers = 3;
  constexpr std::uint64_t positions = 4096;
  const auto weights = large_weights();
  const attention_options attention;
  const auto needs = memory_needs_of(*weights, positions, attention, workers);
  const attention_memory held{
      .weights = needs.attention_weights,
      .reserve = attention_reserve(weights->config(), weights->type(), positions, attention)};
  kernels::thread_pool pool{{.threads = 1}};
  kernels::context context{pool};
  const auto experts = model::cpu_backend(context, weights).make_experts();
  const auto start_attention = [&](const memory_budget& budget) {
    check_attention_fits(held, budget);
    kv_room_of(needs.kv_cache, mebibyte, held, budget);
  };
  const auto start_alone = [&](memory_budget budget) {
    start_attention(budget);
    budget.take(held.weights + held.reserve + needs.kv_cache);
    expert_room_of(*experts, {.is_alone = true}, budget);
  };
  EXPECT_TRUE(starts(needs.one_machine, start_alone));
  EXPECT_FALSE(starts(needs.one_machine - mebibyte, start_alone));
  EXPECT_TRUE(starts(needs.attention_worker, start_attention));
  const auto room = [&](std::uint64_t limit) { return expert_room_of(*experts, {}, memory_budget(limit)); };
  const auto sizes = sizes_of_experts(*weights);
  const auto share = (sizes.count + workers - 1) / workers * sizes.largest;
  EXPECT_GE(room(needs.expert_worker), share);
  EXPECT_LT(room(needs.expert_worker - mebibyte), share);
}

} // namespace
} // namespace troupe
