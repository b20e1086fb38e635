// GPT-MoE's config.json: GPT-2's fields, and those of the experts.
#include "kernels/model/config.hpp"
#include "kernels/model/required_tensors.hpp"
#include "tests/unit/model/config_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <vector>

namespace troupe::model {
namespace {

using json = nlohmann::json;
using test::parse;
using test::refusal;
using test::with;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// 350M+MoE-128 of DeepSpeed-MoE's table 1, with the fields that transformers writes for GPT-2.
const json of_350m = json::parse(R"({
  "activation_function": "gelu_new", "architectures": ["GptMoeForCausalLM"], "attn_pdrop": 0.1,
  "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "expert_interval": 2,
  "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt_moe", "n_ctx": 2048, "n_embd": 1024,
  "n_head": 16, "n_inner": null, "n_layer": 24, "n_positions": 2048, "num_experts": 128,
  "num_experts_per_tok": 1, "reorder_and_upcast_attn": false, "resid_pdrop": 0.1,
  "scale_attn_by_inverse_layer_idx": false, "scale_attn_weights": true, "summary_activation": null,
  "summary_first_dropout": 0.1, "summary_proj_to_labels": true, "summary_type": "cls_index",
  "summary_use_proj": true, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 50304})");

std::vector<std::size_t> experts_of(const model_config& config) {
  std::vector<std::size_t> result;
  for (const auto& layer : config.layers)
    result.push_back(layer.moe() == nullptr ? 0 : layer.moe()->num_experts);
  return result;
}

TEST(gpt_moe_config, has_experts_in_every_second_layer) {
  const auto config = parse(of_350m);
  EXPECT_THAT(config.ignored, IsEmpty());
  EXPECT_EQ(config.max_context, 2048U);
  EXPECT_EQ(config.rope.rotary_dim, 0U);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.position_embeddings->shape, (std::vector<std::size_t>{2048, 1024}));
  ASSERT_EQ(config.num_layers(), 24U);
  for (std::size_t i = 0; i < 24; ++i)
    EXPECT_EQ(experts_of(config)[i], i % 2 == 0 ? 0U : 128U);
  const auto& route = *config.layers[1].find<route_op>();
  EXPECT_FALSE(route.renormalise);
  EXPECT_EQ(route.experts.intermediate, 4096U);
  EXPECT_EQ(route.experts.act, kernels::activation::gelu_tanh);
  const auto expert = expert_tensors(config, 1, 7);
  EXPECT_EQ(
      expert.down.name,
      "language_model.encoder.layers.1.mlp.deepspeed_moe.experts.deepspeed_experts.7.dense_4h_to_h.weight");
  EXPECT_FALSE(expert.up);
  EXPECT_EQ(expert.biases.size(), 2U);
}

TEST(gpt_moe_config, may_have_a_number_of_experts_per_routed_layer) {
  const auto pyramid = with(of_350m, {{"n_layer", 6}, {"num_experts", {32, 1, 64}}});
  EXPECT_THAT(experts_of(parse(pyramid)), ElementsAre(0, 32, 0, 0, 0, 64));
  EXPECT_THAT(experts_of(parse(with(pyramid, {{"expert_interval", 1}, {"num_experts", 2}}))),
              ElementsAre(2, 2, 2, 2, 2, 2));
}

TEST(gpt_moe_config, is_read_with_the_usual_names_too) {
  auto usual = of_350m;
  for (const auto& [gpt2, name] :
       {std::pair{"n_embd", "hidden_size"}, std::pair{"n_layer", "num_hidden_layers"},
        std::pair{"n_head", "num_attention_heads"}, std::pair{"n_positions", "max_position_embeddings"}}) {
    usual[name] = usual[gpt2];
    usual.erase(gpt2);
  }
  const auto config = parse(usual);
  EXPECT_EQ(config.hidden, 1024U);
  EXPECT_EQ(config.num_layers(), 24U);
  EXPECT_EQ(config.max_context, 2048U);
}

TEST(gpt_moe_config, decides_activation_and_weights_of_the_chosen) {
  const auto config = parse(with(of_350m, {{"activation_function", "gelu"}, {"num_experts_per_tok", 2}}));
  const auto& route = *config.layers[1].find<route_op>();
  EXPECT_EQ(route.experts.act, kernels::activation::gelu_erf);
  EXPECT_EQ(config.layers[0].find<feed_forward_op>()->mlp.act, kernels::activation::gelu_erf);
  EXPECT_TRUE(route.renormalise);
}

TEST(gpt_moe_config, that_would_need_other_arithmetic_is_refused_by_name) {
  const auto refused = [](const json& fields) { return refusal(with(of_350m, fields)); };
  EXPECT_THAT(refused({{"mlp_type", "residual"}}), HasSubstr("field 'mlp_type' must be 'standard'"));
  EXPECT_THAT(refused({{"activation_function", "relu"}}),
              HasSubstr("field 'activation_function' is 'relu', which is not supported"));
  EXPECT_THAT(refused({{"scale_attn_weights", false}}), HasSubstr("field 'scale_attn_weights' must be true"));
  EXPECT_THAT(refused({{"scale_attn_by_inverse_layer_idx", true}}),
              HasSubstr("field 'scale_attn_by_inverse_layer_idx' is not supported"));
  EXPECT_THAT(refused({{"num_experts", {4, 8}}}),
              HasSubstr("field 'num_experts' must be one number, or 12: one per routed layer"));
  EXPECT_THAT(refused({{"num_experts", 0}}), HasSubstr("field 'num_experts' must lie in 1.."));
  EXPECT_THAT(refused({{"num_experts", nullptr}}), HasSubstr("field 'num_experts' is missing"));
  EXPECT_THAT(refused({{"num_experts_per_tok", 3}}),
              HasSubstr("field 'num_experts_per_tok' must lie in 1..2"));
  EXPECT_THAT(refused({{"num_key_value_heads", 4}}), HasSubstr("field 'num_key_value_heads' must equal"));
  EXPECT_THAT(refused({{"layer_norm_epsilon", 0.0}}), HasSubstr("field 'layer_norm_epsilon' must lie"));
  EXPECT_THAT(refused({{"n_positions", nullptr}}), HasSubstr("field 'max_position_embeddings'"));
}

} // namespace
} // namespace troupe::model
