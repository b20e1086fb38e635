#include "kernels/model/config.hpp"

#include "tests/unit/model/config_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace troupe::model {
namespace {

using json = nlohmann::json;
using test::parse;
using test::refusal;
using testing::ElementsAre;
using testing::HasSubstr;

json mixtral() {
  return json::parse(R"({
    "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "vocab_size": 32000, "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "num_local_experts": 8, "num_experts_per_tok": 2, "hidden_act": "silu", "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": null, "tie_word_embeddings": false,
    "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2, "output_router_logits": false,
    "router_aux_loss_coef": 0.02, "attention_dropout": 0.0, "initializer_range": 0.02, "use_cache": true,
    "transformers_version": "4.36.0.dev0"})");
}

json olmoe_fields() {
  return json::parse(R"({
    "architectures": ["OlmoeForCausalLM"], "model_type": "olmoe", "vocab_size": 50304, "hidden_size": 2048,
    "intermediate_size": 1024, "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 16,
    "num_experts": 64, "num_experts_per_tok": 8, "norm_topk_prob": false, "hidden_act": "silu",
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "rope_scaling": null,
    "attention_bias": false, "clip_qkv": null, "pad_token_id": 1, "eos_token_id": 50279,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16"})");
}

json qwen2() {
  return json::parse(R"({
    "architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe", "vocab_size": 151936, "hidden_size": 2048,
    "intermediate_size": 5632, "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16,
    "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632, "norm_topk_prob": false, "decoder_sparse_step": 1,
    "hidden_act": "silu", "max_position_embeddings": 8192, "max_window_layers": 21, "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0, "sliding_window": 32768, "use_sliding_window": false, "tie_word_embeddings": false,
    "torch_dtype": "bfloat16", "bos_token_id": 151643, "eos_token_id": 151643})");
}

json qwen3() {
  return json::parse(R"({
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048,
    "intermediate_size": 6144, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
    "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
    "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": [], "attention_bias": false,
    "hidden_act": "silu", "max_position_embeddings": 40960, "max_window_layers": 48, "rms_norm_eps": 1e-06,
    "rope_scaling": null, "rope_theta": 1000000.0, "sliding_window": null, "use_sliding_window": false,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "bos_token_id": 151643, "eos_token_id": 151645})");
}

TEST(config, mixtral_as_published) {
  const auto config = parse(mixtral());
  EXPECT_EQ(config.architecture, "MixtralForCausalLM");
  EXPECT_EQ(config.num_layers(), 32U);
  EXPECT_EQ(config.max_context, 32768U);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(2));
  EXPECT_EQ(config.rope.base, 1e6);
  EXPECT_EQ(config.rope.rotary_dim, 128U);
  const auto& layer = config.layers.back();
  const auto& attend = *layer.find<attend_op>();
  EXPECT_EQ(attend.num_kv_heads, 8U);
  EXPECT_EQ(attend.head_dim, 128U);
  EXPECT_EQ(attend.window, 0U);
  EXPECT_FALSE(attend.norm.has_value());
  ASSERT_NE(layer.moe(), nullptr);
  EXPECT_EQ(layer.moe()->num_experts, 8U);
  EXPECT_EQ(layer.moe()->intermediate, 14336U);
  EXPECT_TRUE(layer.find<route_op>()->renormalise);
  EXPECT_EQ(layer.find<feed_forward_op>(), nullptr);
}

TEST(config, olmoe_norms_whole_projections_and_keeps_softmax_weights) {
  const auto config = parse(olmoe_fields());
  const auto& layer = config.layers.front();
  const auto& attend = *layer.find<attend_op>();
  ASSERT_TRUE(attend.norm.has_value());
  EXPECT_FALSE(attend.norm->per_head);
  EXPECT_EQ(attend.norm->epsilon, 1e-5F);
  EXPECT_FALSE(layer.find<route_op>()->renormalise);
  EXPECT_EQ(layer.moe()->num_topk, 8U);
}

TEST(config, qwen2_has_qkv_bias_and_a_gated_shared_expert) {
  const auto config = parse(qwen2());
  const auto& layer = config.layers.front();
  const auto& qkv = *layer.find<project_op>();
  EXPECT_EQ(qkv.matrix.biases.size(), 3U);        // transformers' default: published configs do not say it
  EXPECT_EQ(layer.find<attend_op>()->window, 0U); // given, but not in use
  ASSERT_NE(layer.find<feed_forward_op>(), nullptr);
  EXPECT_EQ(layer.find<feed_forward_op>()->mlp.intermediate(), 5632U);
  EXPECT_TRUE(layer.find<add_op>()->gate.has_value());
}

TEST(config, qwen3_has_an_explicit_head_dim_and_a_norm_per_head) {
  const auto config = parse(qwen3());
  const auto& layer = config.layers.front();
  const auto& attend = *layer.find<attend_op>();
  EXPECT_EQ(attend.head_dim, 128U); // not 2048 / 32
  ASSERT_TRUE(attend.norm.has_value());
  EXPECT_TRUE(attend.norm->per_head);
  EXPECT_TRUE(layer.find<route_op>()->renormalise);
  EXPECT_EQ(layer.moe()->intermediate, 768U);
}

TEST(config, dense_layers_lie_where_step_and_list_put_them) {
  auto fields = qwen3();
  fields["num_hidden_layers"] = 6;
  fields["decoder_sparse_step"] = 2;
  fields["mlp_only_layers"] = {3};
  const auto config = parse(fields);
  std::vector<bool> routed;
  for (const auto& layer : config.layers)
    routed.push_back(layer.moe() != nullptr);
  EXPECT_THAT(routed, ElementsAre(false, true, false, false, false, true));
  EXPECT_EQ(config.layers[0].find<feed_forward_op>()->mlp.intermediate(), 6144U);
}

TEST(config, windows) {
  auto fields = mixtral();
  fields["sliding_window"] = 4096;
  EXPECT_EQ(parse(fields).layers.back().find<attend_op>()->window, 4096U);

  fields = qwen3();
  fields["use_sliding_window"] = true;
  fields["sliding_window"] = 100;
  EXPECT_EQ(parse(fields).layers.back().find<attend_op>()->window, 100U);

  fields = qwen2();
  fields["use_sliding_window"] = true;
  fields["num_hidden_layers"] = 5;
  fields["max_window_layers"] = 3;
  std::vector<std::size_t> windows;
  for (const auto& layer : parse(fields).layers)
    windows.push_back(layer.find<attend_op>()->window);
  EXPECT_THAT(windows, ElementsAre(32768U, 0U, 32768U, 0U, 0U));

  fields["num_hidden_layers"] = 2;
  fields["layer_types"] = {"full_attention", "sliding_attention"};
  EXPECT_EQ(parse(fields).layers[0].find<attend_op>()->window, 0U);
  EXPECT_EQ(parse(fields).layers[1].find<attend_op>()->window, 32768U);
  fields["layer_types"] = {"full_attention", "chunked_attention"};
  EXPECT_THAT(refusal(fields), HasSubstr("'layer_types' has unsupported type 'chunked_attention'"));
}

TEST(config, rope_scaling_in_both_spellings) {
  auto fields = qwen3();
  fields["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  auto config = parse(fields);
  EXPECT_EQ(config.rope.scaling, kernels::rope_scaling::yarn);
  EXPECT_EQ(config.rope.factor, 4.0);
  EXPECT_EQ(config.rope.original_max_positions, 32768.0);
  EXPECT_FALSE(config.rope.attention_factor.has_value());
  EXPECT_EQ(config.max_context, 131072U);

  fields["rope_scaling"]["attention_factor"] = nullptr;
  EXPECT_FALSE(parse(fields).rope.attention_factor.has_value());
  fields["rope_scaling"]["attention_factor"] = 0.5;
  EXPECT_EQ(parse(fields).rope.attention_factor, 0.5);

  fields.erase("rope_scaling");
  fields.erase("rope_theta");
  fields["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5e5}};
  config = parse(fields);
  EXPECT_EQ(config.rope.scaling, kernels::rope_scaling::linear);
  EXPECT_EQ(config.rope.base, 5e5);
  EXPECT_EQ(config.max_context, 81920U);

  fields["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e5}};
  EXPECT_EQ(parse(fields).rope.scaling, kernels::rope_scaling::none);
}

TEST(config, llama3_scaling_wants_all_its_fields) {
  auto fields = mixtral();
  fields["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 8192}};
  EXPECT_EQ(parse(fields).rope.scaling, kernels::rope_scaling::llama3);
  fields["rope_scaling"].erase("low_freq_factor");
  EXPECT_THAT(refusal(fields), HasSubstr("rope_scaling: field 'low_freq_factor' is missing"));
}

TEST(config, eos_may_be_a_list) {
  auto fields = qwen3();
  fields["eos_token_id"] = {1, 2};
  EXPECT_THAT(parse(fields).eos_token_ids, ElementsAre(1, 2));
}

struct refused {
  const char* field;
  json value;
  const char* message;
};

void PrintTo(const refused& r, std::ostream* out) {
  *out << r.field << " = " << r.value.dump();
}

class refuses : public testing::TestWithParam<refused> {};

TEST_P(refuses, by_name) {
  auto fields = qwen3();
  fields[GetParam().field] = GetParam().value;
  const auto message = refusal(fields);
  EXPECT_THAT(message, HasSubstr(GetParam().message));
  EXPECT_THAT(message, testing::StartsWith("config.json: "));
}

INSTANTIATE_TEST_SUITE_P(
    config, refuses,
    testing::Values(
        refused{"architectures",
                {"LlamaForCausalLM"},
                "'LlamaForCausalLM', which is not supported (supported: DeepseekV2ForCausalLM"},
        refused{"quantization_config", {{"quant_method", "fp8"}}, "'quantization_config' is not supported"},
        refused{"quantization_config", "fp8", "'quantization_config' is not supported"},
        refused{"quantization_config", {"fp8"}, "'quantization_config' is not supported"},
        refused{"quantization_config", 8, "'quantization_config' is not supported"},
        refused{"quantization_config", true, "'quantization_config' is not supported"},
        refused{"per_layer_config", "sliding", "'per_layer_config' is not supported"},
        refused{"per_layer_config", {{{"head_dim", 32}}}, "'per_layer_config' is not supported"},
        refused{"hidden_act", "gelu", "'hidden_act' is 'gelu', which is not supported"},
        refused{"rope_scaling", {{"rope_type", "ntk"}}, "'rope_type' is 'ntk', which is not supported"},
        refused{"rope_scaling", {{"rope_type", "longrope"}}, "rope_scaling: field 'short_factor' is missing"},
        refused{"rope_scaling",
                {{"type", "dynamic"}, {"factor", 2}},
                "'type' is 'dynamic', which is not supported"},
        refused{"rope_scaling", {{"type", "linear"}}, "rope_scaling: field 'factor' is missing"},
        refused{"rope_scaling", {{"type", "linear"}, {"factor", 0.5}}, "'factor' must be at least 1"},
        refused{"rope_scaling",
                {{"type", "yarn"}, {"factor", 4}, {"attention_factor", 0}},
                "rope_scaling: field 'attention_factor' must be a positive number"},
        refused{"rope_scaling",
                {{"type", "yarn"}, {"factor", 4}, {"attention_factor", -1.5}},
                "rope_scaling: field 'attention_factor' must be a positive number"},
        refused{"rope_scaling", "yarn", "'rope_scaling' must be an object"},
        refused{"partial_rotary_factor", 0.5, "'partial_rotary_factor' other than 1 is not supported"},
        refused{"torch_dtype", "float64", "'torch_dtype' is 'float64', which is not supported"},
        refused{"hidden_size", "2048", "'hidden_size' must be an integer, found string"},
        refused{"hidden_size", 0, "'hidden_size' must lie in 1.."},
        refused{"hidden_size", -5, "'hidden_size' must lie in 1.."},
        refused{"hidden_size", 2048.5, "'hidden_size' must be an integer"},
        refused{"hidden_size", 18446744073709551615ULL, "'hidden_size' must be an integer"},
        refused{"vocab_size", nullptr, "'vocab_size' is missing"},
        refused{"num_key_value_heads", 5, "must divide num_attention_heads"},
        refused{"head_dim", 12, "'head_dim' must be a multiple of 8"},
        refused{"head_dim", 512, "'head_dim' must be a multiple of 8 up to 256"},
        refused{"num_experts_per_tok", 129, "'num_experts_per_tok' must lie in 1.."},
        refused{"num_local_experts", 7, "'num_local_experts' differs from num_experts"},
        refused{"mlp_only_layers", {48}, "'mlp_only_layers' names layer 48 of 48"},
        refused{"mlp_only_layers", {"a"}, "'mlp_only_layers' must be a list of integers"},
        refused{"decoder_sparse_step", 0, "'decoder_sparse_step' must lie in 1.."},
        refused{"norm_topk_prob", "yes", "'norm_topk_prob' must be true or false"},
        refused{"rms_norm_eps", 0.0, "'rms_norm_eps' must lie between 0 and 1"},
        refused{"rope_theta", -1.0, "'rope_theta' must be a positive number"},
        refused{"num_hidden_layers", 4096, "routed experts, at most"},
        refused{"attention_bias", "x", "'attention_bias' must be true or false"}));

TEST(config, without_architectures_and_type_is_refused_by_name) {
  auto fields = qwen3();
  fields.erase("architectures");
  fields.erase("model_type");
  EXPECT_THAT(refusal(fields), HasSubstr("'architectures' is missing"));
}

TEST(config, not_json_says_so) {
  for (const auto* text : {"", "{", "[1, 2", "{\"a\": 1e999}", "\xff\xfe", "{\"a\": 1} x"})
    EXPECT_THROW(
        {
          try {
            parse_config(text, "config.json");
          } catch (const model_error& e) {
            EXPECT_THAT(e.what(), HasSubstr("config.json: not valid JSON"));
            EXPECT_LT(std::string{e.what()}.size(), 300U);
            throw;
          }
        },
        model_error)
        << text;
}

TEST(config, other_documents_are_refused) {
  EXPECT_THROW(parse_config("[]", "config.json"), model_error);
  EXPECT_THROW(parse_config("{\"architectures\": [\"A\"], \"architectures\": [\"B\"]}", "config.json"),
               model_error);
  EXPECT_THROW(parse_config(std::string(100'000, '['), "config.json"), model_error);
  std::string nested = "1";
  for (int i = 0; i < 40; ++i)
    nested = "{\"a\":" + nested + "}";
  EXPECT_THAT(refusal(json::parse(nested)), HasSubstr("nested deeper than 32"));
}

TEST(config, canonical_text_does_not_depend_on_order_or_blanks) {
  EXPECT_EQ(parse_config(mixtral().dump(2), "a").canonical_json,
            parse_config(mixtral().dump(), "b").canonical_json);
}

} // namespace
} // namespace troupe::model
