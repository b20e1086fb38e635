// Configurations of published checkpoints (the facts, not the files): they are accepted, with their end
// tokens.
#include "kernels/model/config.hpp"
#include "kernels/model/generation_config.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/unit/model/config_text.hpp"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace troupe::model {
namespace {

using json = nlohmann::json;
using test::with;

// As written by transformers 4.36 to 4.40.
const json mixtral_8x7b = json::parse(R"({
  "architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
  "max_position_embeddings": 32768, "model_type": "mixtral", "num_attention_heads": 32, "num_experts_per_tok": 2,
  "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8, "output_router_logits": false,
  "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02, "sliding_window": null,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.36.0.dev0",
  "use_cache": true, "vocab_size": 32000})");
const json mixtral_generation = json::parse(
    R"({"_from_model_config": true, "bos_token_id": 1, "eos_token_id": 2, "transformers_version": "4.36.0.dev0"})");

const json mixtral_8x22b = with(mixtral_8x7b, json::parse(R"({
  "hidden_size": 6144, "intermediate_size": 16384, "max_position_embeddings": 65536, "num_attention_heads": 48,
  "num_hidden_layers": 56, "rope_theta": 1000000, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0,
  "transformers_version": "4.40.0.dev0", "vocab_size": 32768})"));

const json olmoe = json::parse(R"({
  "_name_or_path": "step23842-hf", "architectures": ["OlmoeForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "clip_qkv": null, "eos_token_id": 50279, "hidden_act": "silu", "hidden_size": 2048,
  "initializer_range": 0.02, "intermediate_size": 1024, "max_position_embeddings": 4096, "model_type": "olmoe",
  "norm_topk_prob": false, "num_attention_heads": 16, "num_experts": 64, "num_experts_per_tok": 8,
  "num_hidden_layers": 16, "num_key_value_heads": 16, "output_router_logits": false, "pad_token_id": 1,
  "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0, "router_aux_loss_coef": 0.01,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.43.0.dev0",
  "use_cache": true, "vocab_size": 50304})");
const json olmoe_generation =
    json::parse(R"({"_from_model_config": true, "eos_token_id": 50279, "pad_token_id": 1,
  "transformers_version": "4.43.0.dev0"})");

const json qwen15 = json::parse(R"({
  "architectures": ["Qwen2MoeForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
  "decoder_sparse_step": 1, "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 2048,
  "initializer_range": 0.02, "intermediate_size": 5632, "max_position_embeddings": 8192, "max_window_layers": 21,
  "model_type": "qwen2_moe", "moe_intermediate_size": 1408, "norm_topk_prob": false, "num_attention_heads": 16,
  "num_experts": 60, "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 16,
  "output_router_logits": false, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001,
  "shared_expert_intermediate_size": 5632, "sliding_window": 32768, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "transformers_version": "4.39.0.dev0", "use_cache": true,
  "use_sliding_window": false, "vocab_size": 151936})");
const json qwen_chat_generation = json::parse(R"({"bos_token_id": 151643, "do_sample": true,
  "eos_token_id": [151645, 151643], "pad_token_id": 151643, "repetition_penalty": 1.05, "temperature": 0.7,
  "top_k": 20, "top_p": 0.8, "transformers_version": "4.41.2"})");
const json qwen_base_generation = json::parse(R"({"bos_token_id": 151643, "do_sample": false,
  "eos_token_id": 151643, "max_new_tokens": 2048, "transformers_version": "4.40.1"})");

const json qwen2_57b = with(qwen15, json::parse(R"({
  "hidden_size": 3584, "intermediate_size": 18944, "max_position_embeddings": 131072, "max_window_layers": 28,
  "moe_intermediate_size": 2560, "num_attention_heads": 28, "num_experts": 64, "num_experts_per_tok": 8,
  "num_hidden_layers": 28, "num_key_value_heads": 4, "shared_expert_intermediate_size": 20480,
  "sliding_window": 131072, "transformers_version": "4.40.1"})"));

const json qwen3_30b = json::parse(R"({
  "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 151643, "decoder_sparse_step": 1, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
  "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 6144, "max_position_embeddings": 40960,
  "max_window_layers": 48, "mlp_only_layers": [], "model_type": "qwen3_moe", "moe_intermediate_size": 768,
  "norm_topk_prob": true, "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8,
  "num_hidden_layers": 48, "num_key_value_heads": 4, "output_router_logits": false, "rms_norm_eps": 1e-06,
  "rope_scaling": null, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001, "sliding_window": null,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true,
  "use_sliding_window": false, "vocab_size": 151936})");
const json qwen3_generation = with(qwen_chat_generation, {{"temperature", 0.6}, {"top_p", 0.95}});
const json qwen3_2507 = with(qwen3_30b, {{"max_position_embeddings", 262144}, {"rope_theta", 10000000}});

const json qwen3_235b = with(qwen3_30b, json::parse(R"({"hidden_size": 4096, "intermediate_size": 12288,
  "max_window_layers": 94, "moe_intermediate_size": 1536, "num_attention_heads": 64, "num_hidden_layers": 94})"));

const json qwen3_coder_30b = [] {
  auto config = with(qwen3_30b, json::parse(R"({"intermediate_size": 5472, "max_position_embeddings": 262144,
    "max_window_layers": 28, "qkv_bias": false, "rope_theta": 10000000, "router_aux_loss_coef": 0.0,
    "shared_expert_intermediate_size": 0, "use_qk_norm": true})"));
  config.erase("bos_token_id");
  return config;
}();

const json qwen3_coder_480b =
    with(qwen3_coder_30b, json::parse(R"({"hidden_size": 6144, "intermediate_size": 8192,
  "max_window_layers": 62, "moe_intermediate_size": 2560, "num_attention_heads": 96, "num_experts": 160,
  "num_hidden_layers": 62, "num_key_value_heads": 8})"));

struct published {
  const char* name;
  json config;
  json generation; // null: no such file
  std::vector<std::int32_t> end_tokens;
  std::size_t context;
  std::vector<std::string> ignored = {};
};

void PrintTo(const published& p, std::ostream* out) {
  *out << p.name;
}

class published_configs : public testing::TestWithParam<published> {};

TEST_P(published_configs, are_taken_with_their_end_tokens) {
  const auto& model = GetParam();
  const test::scratch_folder folder;
  std::ofstream(folder.path() / "config.json") << model.config;
  if (!model.generation.is_null())
    std::ofstream(folder.path() / "generation_config.json") << model.generation;
  const auto config = load_config(folder.path());
  const auto generation = load_generation_config(folder.path(), config);
  EXPECT_EQ(generation.eos_token_ids, model.end_tokens);
  EXPECT_EQ(config.max_context, model.context);
  EXPECT_EQ(config.ignored, model.ignored);
  EXPECT_THAT(generation.ignored, testing::IsEmpty());
  EXPECT_EQ(config.num_layers(), model.config.at("num_hidden_layers").get<std::size_t>());
}

INSTANTIATE_TEST_SUITE_P(
    model, published_configs,
    testing::Values(
        published{"mistralai/Mixtral-8x7B-Instruct-v0.1", mixtral_8x7b, mixtral_generation, {2}, 32768},
        published{"mistralai/Mixtral-8x22B-Instruct-v0.1", mixtral_8x22b, mixtral_generation, {2}, 65536},
        // Fine-tunes in ChatML: two more tokens, one of which ends a turn.
        published{"NousResearch/Nous-Hermes-2-Mixtral-8x7B-DPO",
                  with(mixtral_8x7b, {{"_name_or_path", "mistralai/Mixtral-8x7B-v0.1"},
                                      {"eos_token_id", 32000},
                                      {"use_cache", false},
                                      {"vocab_size", 32002}}),
                  nullptr,
                  {32000},
                  32768},
        // As Dolphin's: the base model's generation_config.json, and the window of its first revision.
        published{"a fine-tune of Mixtral-8x7B in ChatML with the base model's end token",
                  with(mixtral_8x7b, {{"_name_or_path", "mistralai/Mixtral-8x7B-v0.1"},
                                      {"eos_token_id", 32000},
                                      {"sliding_window", 4096},
                                      {"vocab_size", 32002}}),
                  mixtral_generation,
                  {2, 32000},
                  32768},
        published{"allenai/OLMoE-1B-7B-0924", olmoe, olmoe_generation, {50279}, 4096},
        published{"allenai/OLMoE-1B-7B-0125-Instruct",
                  with(olmoe, {{"transformers_version", "4.47.1"}}),
                  olmoe_generation,
                  {50279},
                  4096},
        published{"Qwen/Qwen1.5-MoE-A2.7B", qwen15, qwen_base_generation, {151643}, 8192},
        published{"Qwen/Qwen1.5-MoE-A2.7B-Chat", qwen15, qwen_chat_generation, {151645, 151643}, 8192},
        published{"Qwen/Qwen2-57B-A14B", qwen2_57b, qwen_base_generation, {151643}, 131072},
        published{"Qwen/Qwen2-57B-A14B-Instruct",
                  with(qwen2_57b, {{"eos_token_id", 151645}, {"max_position_embeddings", 32768}}),
                  qwen_chat_generation,
                  {151645, 151643},
                  32768},
        published{"Qwen/Qwen3-30B-A3B", qwen3_30b, qwen3_generation, {151645, 151643}, 40960},
        published{"Qwen/Qwen3-30B-A3B-Base",
                  with(qwen3_30b, {{"eos_token_id", 151643}, {"max_position_embeddings", 32768}}),
                  qwen_base_generation,
                  {151643},
                  32768},
        published{
            "Qwen/Qwen3-30B-A3B-Instruct-2507", qwen3_2507, qwen_chat_generation, {151645, 151643}, 262144},
        published{"Qwen/Qwen3-30B-A3B-Thinking-2507", qwen3_2507, qwen3_generation, {151645, 151643}, 262144},
        published{"Qwen/Qwen3-235B-A22B", qwen3_235b, qwen3_generation, {151645, 151643}, 40960},
        published{"Qwen/Qwen3-Coder-30B-A3B-Instruct",
                  qwen3_coder_30b,
                  qwen_chat_generation,
                  {151645, 151643},
                  262144,
                  {"use_qk_norm"}},
        published{"Qwen/Qwen3-Coder-480B-A35B-Instruct",
                  qwen3_coder_480b,
                  qwen_chat_generation,
                  {151645, 151643},
                  262144,
                  {"use_qk_norm"}},
        published{"a fine-tune of Qwen3-30B-A3B that Unsloth saved",
                  with(qwen3_30b, {{"pad_token_id", 151654},
                                   {"unsloth_fixed", true},
                                   {"unsloth_version", "2025.8.1"},
                                   {"use_cache", false}}),
                  qwen3_generation,
                  {151645, 151643},
                  40960,
                  {"unsloth_fixed", "unsloth_version"}},
        published{"a fine-tune of Qwen3-30B-A3B that transformers 5 saved",
                  [] {
                    auto config =
                        with(qwen3_30b,
                             {{"dtype", "bfloat16"},
                              {"num_local_experts", 128},
                              {"rope_parameters", {{"rope_theta", 1000000.0}, {"rope_type", "default"}}},
                              {"transformers_version", "5.0.0"}});
                    for (const auto* key : {"torch_dtype", "rope_theta", "rope_scaling", "num_experts"})
                      config.erase(key);
                    return config;
                  }(),
                  qwen3_generation,
                  {151645, 151643},
                  40960}));

} // namespace
} // namespace troupe::model
