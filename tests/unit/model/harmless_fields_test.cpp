// Fields of config.json without effect: they are accepted, and listed if they might have been meant.
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
using test::with;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

json base(const char* architecture) {
  auto config = json::parse(R"({
    "vocab_size": 1000, "hidden_size": 512, "intermediate_size": 256, "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 8, "num_experts": 4, "num_experts_per_tok": 2, "max_position_embeddings": 2048,
    "eos_token_id": 3})");
  config["architectures"] = {architecture};
  return config;
}

json harmless_qwen3() {
  auto config = base("Qwen3MoeForCausalLM");
  config.erase("shared_expert_intermediate_size");
  return config;
}

TEST(harmless_fields, that_nobody_reads_are_named) {
  EXPECT_THAT(parse(harmless_qwen3()).ignored, IsEmpty());
  EXPECT_THAT(parse(with(harmless_qwen3(), {{"use_qk_norm", true},
                                            {"unsloth_version", "2025.8.1"},
                                            {"attn_logit_softcapping", 50.0},
                                            {"max_sequence_length", 4096}}))
                  .ignored,
              ElementsAre("attn_logit_softcapping", "max_sequence_length", "unsloth_version", "use_qk_norm"));
}

TEST(harmless_fields, that_say_nothing_are_not_named) {
  EXPECT_THAT(parse(with(harmless_qwen3(), {{"qkv_bias", false},
                                            {"shared_expert_intermediate_size", 0},
                                            {"n_shared_experts", 0.0},
                                            {"chat_format", ""},
                                            {"quantization_config", json::object()},
                                            {"per_layer_config", nullptr},
                                            {"extra", json::array()}}))
                  .ignored,
              IsEmpty());
}

TEST(harmless_fields, numbers_may_have_a_point) {
  const auto config = parse(with(harmless_qwen3(), {{"hidden_size", 512.0},
                                                    {"num_hidden_layers", 2.0},
                                                    {"head_dim", 64.0},
                                                    {"eos_token_id", {3.0, 4}},
                                                    {"rope_theta", 5000},
                                                    {"mlp_only_layers", {0.0}}}));
  EXPECT_EQ(config.hidden, 512U);
  EXPECT_EQ(config.num_layers(), 2U);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(3, 4));
  EXPECT_EQ(config.layers[0].moe(), nullptr);
  EXPECT_THAT(refusal(with(harmless_qwen3(), {{"hidden_size", 512.5}})),
              HasSubstr("'hidden_size' must be an integer"));
  EXPECT_THAT(refusal(with(harmless_qwen3(), {{"hidden_size", 1e19}})),
              HasSubstr("'hidden_size' must be an integer"));
}

TEST(harmless_fields, zero_and_false_say_that_there_is_none) {
  for (const auto& none : {json(0), json(false), json(nullptr), json(0.0)}) {
    SCOPED_TRACE(none.dump());
    EXPECT_EQ(parse(with(base("MixtralForCausalLM"), {{"sliding_window", none}}))
                  .layers[0]
                  .find<attend_op>()
                  ->window,
              0U);
    EXPECT_EQ(refusal(with(base("OlmoeForCausalLM"), {{"clip_qkv", none}, {"sliding_window", none}})),
              "accepted");
    EXPECT_EQ(parse(with(harmless_qwen3(), {{"use_sliding_window", true}, {"sliding_window", none}}))
                  .layers[0]
                  .find<attend_op>()
                  ->window,
              0U);
  }
  const auto config = parse(with(base("Qwen2MoeForCausalLM"), {{"rope_scaling", false},
                                                               {"mlp_only_layers", false},
                                                               {"qkv_bias", 0},
                                                               {"norm_topk_prob", 1},
                                                               {"shared_expert_intermediate_size", 0}}));
  EXPECT_EQ(config.rope.scaling, kernels::rope_scaling::none);
  EXPECT_TRUE(config.layers[0].find<project_op>()->matrix.biases.empty());
  EXPECT_TRUE(config.layers[0].find<route_op>()->renormalise);
  EXPECT_EQ(config.layers[0].find<feed_forward_op>(), nullptr);
}

TEST(harmless_fields, of_rope_are_named_with_their_object) {
  const auto config = parse(with(harmless_qwen3(), {{"rope_scaling",
                                                     {{"rope_type", "yarn"},
                                                      {"factor", 4},
                                                      {"beta_fast", 0},
                                                      {"mscale", 0},
                                                      {"finetuned", true},
                                                      {"attn_factor", 1.0},
                                                      {"original_max_position_embeddings", 1024.0}}}}));
  EXPECT_THAT(config.ignored, ElementsAre("rope_scaling.attn_factor", "rope_scaling.finetuned"));
  EXPECT_EQ(config.rope.beta_fast, 32.0);
  EXPECT_FALSE(config.rope.mscale.has_value());
  EXPECT_EQ(config.max_context, 4096U);
}

TEST(harmless_fields, rope_may_be_told_twice_if_it_is_the_same) {
  const json rope = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 7000.0}};
  const auto config = parse(with(harmless_qwen3(), {{"rope_scaling", rope}, {"rope_parameters", rope}}));
  EXPECT_EQ(config.rope.base, 7000.0);
  EXPECT_EQ(config.max_context, 4096U);
  EXPECT_THAT(refusal(with(harmless_qwen3(),
                           {{"rope_scaling", rope}, {"rope_parameters", {{"rope_type", "default"}}}})),
              HasSubstr("'rope_scaling' is given beside rope_parameters, and differs"));
}

TEST(harmless_fields, the_length_before_stretching_may_stand_outside) {
  auto fields = with(harmless_qwen3(), {{"original_max_position_embeddings", 512},
                                        {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 8.0}}}});
  EXPECT_EQ(parse(fields).rope.original_max_positions, 512.0);
  fields["rope_scaling"]["original_max_position_embeddings"] = 1024;
  EXPECT_THAT(refusal(fields),
              HasSubstr("'original_max_position_embeddings' differs from the field of that name"));
  fields["rope_scaling"] = nullptr;
  EXPECT_THAT(parse(fields).ignored, ElementsAre("original_max_position_embeddings"));
}

TEST(harmless_fields, the_architecture_may_follow_from_the_type_or_stand_second) {
  auto fields = harmless_qwen3();
  fields["model_type"] = "qwen3_moe";
  fields.erase("architectures");
  EXPECT_EQ(parse(fields).architecture, "Qwen3MoeForCausalLM");
  fields["architectures"] = {"Qwen3MoeForSequenceClassification", "Qwen3MoeForCausalLM"};
  EXPECT_EQ(parse(fields).architecture, "Qwen3MoeForCausalLM");
  fields["architectures"] = json::array();
  fields["model_type"] = "llama";
  EXPECT_THAT(refusal(fields),
              HasSubstr("'model_type' is 'llama', which is not supported (supported: DeepseekV2ForCausalLM"));
}

TEST(harmless_fields, end_tokens_that_never_come_are_named) {
  const auto config = parse(with(harmless_qwen3(), {{"eos_token_id", {-1, 3, 1000, 4294967296}}}));
  EXPECT_THAT(config.eos_token_ids, ElementsAre(3));
  EXPECT_THAT(config.ignored, ElementsAre("eos_token_id -1 (not in the vocabulary)",
                                          "eos_token_id 1000 (not in the vocabulary)",
                                          "eos_token_id 4294967296 (not in the vocabulary)"));
  EXPECT_THAT(refusal(with(harmless_qwen3(), {{"eos_token_id", "</s>"}})),
              HasSubstr("'eos_token_id' must be an integer"));
}

TEST(harmless_fields, layer_types_that_repeat_what_is_known) {
  EXPECT_THAT(parse(with(harmless_qwen3(), {{"layer_types", {"full_attention", "full_attention"}}})).ignored,
              IsEmpty());
  EXPECT_THAT(
      refusal(with(harmless_qwen3(), {{"layer_types", {"full_attention", "sliding_attention"}}})),
      HasSubstr("'layer_types' has 'sliding_attention', which is not supported where every layer has no"));
}

// What transformers reads for these architectures and is not computed here stays an error.
TEST(harmless_fields, are_not_those_that_change_what_is_computed) {
  const std::pair<json, const char*> cases[] = {
      {with(harmless_qwen3(), {{"partial_rotary_factor", 0.5}}),
       "'partial_rotary_factor' other than 1 is not supported"},
      {with(harmless_qwen3(), {{"is_encoder_decoder", true}}), "'is_encoder_decoder' is not supported"},
      {with(harmless_qwen3(), {{"per_layer_config", {{"1", {{"head_dim", 32}}}}}}),
       "'per_layer_config' is not supported"},
      {with(harmless_qwen3(), {{"quantization_config", {{"quant_method", "fp8"}}}}),
       "'quantization_config' is not supported"},
      {with(harmless_qwen3(), {{"rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}}}),
       "rope_parameters: field 'full_attention' is not supported"},
      {with(base("OlmoeForCausalLM"), {{"clip_qkv", 8.0}}), "'clip_qkv' is not supported"},
      {with(base("OlmoeForCausalLM"), {{"sliding_window", 64}}), "'sliding_window' is not supported"},
      {with(harmless_qwen3(), {{"hidden_act", "gelu"}}), "'hidden_act' is 'gelu', which is not supported"},
  };
  for (const auto& [config, message] : cases)
    EXPECT_THAT(refusal(config), HasSubstr(message));
}

} // namespace
} // namespace troupe::model
