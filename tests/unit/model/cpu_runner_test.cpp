#include "kernels/model/cpu_runner.hpp"

#include "kernels/model/numerics.hpp"
#include "kernels/model/plan_weights.hpp"
#include "tests/reference/random_model.hpp"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::model {
namespace {

using testing::HasSubstr;

class cpu_runner_test : public testing::Test {
 protected:
  std::shared_ptr<const cpu_weights> source(kernels::dtype type, const quantization& quant = {}) {
    return std::make_shared<const checkpoint_source>(weights_, config_, type, quant);
  }

  cpu_runner load(const load_options& options, kernels::dtype type = kernels::dtype::f32,
                  const load_progress& progress = {}) {
    return cpu_runner::load(source(type), options, progress);
  }

  test::random_model model_{"qwen2_dense_layers"};
  model_config config_ = load_config(model_.folder());
  std::shared_ptr<const checkpoint> weights_ =
      std::make_shared<const checkpoint>(checkpoint::open(model_.folder()));
};

TEST_F(cpu_runner_test, progress_grows_up_to_the_whole) {
  std::vector<std::pair<std::size_t, std::size_t>> calls;
  load({}, kernels::dtype::bf16,
       [&](std::size_t loaded, std::size_t total) { calls.emplace_back(loaded, total); });
  ASSERT_FALSE(calls.empty());
  EXPECT_EQ(calls.back().first, calls.back().second);
  for (std::size_t i = 1; i < calls.size(); ++i)
    EXPECT_LE(calls[i - 1].first, calls[i].first);
}

TEST_F(cpu_runner_test, bf16_weights_take_about_half_of_f32) {
  const auto wide = load({}, kernels::dtype::f32).num_bytes();
  const auto narrow = load({}, kernels::dtype::bf16).num_bytes();
  EXPECT_GT(narrow, 0U);
  EXPECT_LT(narrow, wide * 2 / 3);
}

TEST_F(cpu_runner_test, positions_end_at_the_context_or_where_asked) {
  EXPECT_EQ(load({.max_positions = 100}).max_positions(), 100U);
  EXPECT_EQ(load({}).max_positions(), config_.max_context);
  EXPECT_EQ(load({.max_positions = 1'000'000}).max_positions(), config_.max_context);
}

TEST_F(cpu_runner_test, a_context_whose_tables_would_not_fit_is_refused) {
  config_.max_context = 1'000'000'000;
  try {
    load({});
    FAIL();
  } catch (const model_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("a context of 1000000000 tokens"));
  }
  EXPECT_EQ(load({.max_positions = 64}).max_positions(), 64U);
}

TEST_F(cpu_runner_test, computes_in_f32_or_bf16_only) {
  EXPECT_THROW(load({}, kernels::dtype::f16), model_error);
  EXPECT_THROW(load({}, kernels::dtype::int8), model_error);
}

TEST_F(cpu_runner_test, cache_groups_layers_of_one_shape) {
  const auto model = load({}, kernels::dtype::bf16);
  const auto cache = model.kv_config(32);
  EXPECT_EQ(cache.block_tokens, 32U);
  ASSERT_EQ(cache.groups.size(), 1U);
  EXPECT_EQ(cache.groups[0], (kernels::kv_layer_group{config_.num_layers(), 2, 16, kernels::dtype::bf16}));
}

TEST_F(cpu_runner_test, cache_is_int8_where_asked) {
  const auto cache = load({.kv_type = kernels::dtype::int8}, kernels::dtype::bf16).kv_config();
  ASSERT_EQ(cache.groups.size(), 1U);
  EXPECT_EQ(cache.groups[0].type, kernels::dtype::int8);
}

TEST_F(cpu_runner_test, a_pause_describes_its_layer) {
  const auto model = load({}, kernels::dtype::bf16);
  kernels::thread_pool pool{{.threads = 1}};
  kernels::context ctx{pool};
  kernels::kv_cache cache(model.kv_config(), 4);
  const std::vector<std::uint32_t> blocks{2, 0};
  const std::span<const std::uint32_t> table{blocks};
  std::vector<batch_row> rows;
  for (std::uint32_t i = 0; i < 20; ++i)
    rows.push_back({i, i, 0, blocks[i / 16] * 16 + i % 16});
  forward_state state;
  ASSERT_EQ(model.begin(ctx, cache, {rows, {&table, 1}}, state), pause::experts);
  EXPECT_EQ(state.layer(), 1U); // layer 0 is dense
  EXPECT_EQ(state.num_rows(), 20U);
  EXPECT_EQ(state.num_topk(), 2U);
  EXPECT_EQ(state.num_experts(), 8U);
  EXPECT_EQ(state.expert_inputs().type, kernels::dtype::bf16);
  EXPECT_EQ(state.expert_inputs().cols, config_.hidden);

  // The table contains every (row, slot) exactly once, under its expert, rows rising.
  const auto entries = state.expert_entries();
  const auto offsets = state.expert_offsets();
  ASSERT_EQ(entries.size(), 40U);
  std::vector<int> seen(entries.size());
  for (std::size_t e = 0; e < state.num_experts(); ++e)
    for (auto i = offsets[e]; i < offsets[e + 1]; ++i) {
      EXPECT_EQ(state.topk_ids()[entries[i]], e);
      ++seen[entries[i]];
      if (i > offsets[e])
        EXPECT_LT(entries[i - 1], entries[i]);
    }
  EXPECT_THAT(seen, testing::Each(1));

  // This variant normalizes: the weights of a row add up to one.
  for (std::size_t r = 0; r < state.num_rows(); ++r)
    EXPECT_NEAR(state.topk_weights()[2 * r] + state.topk_weights()[2 * r + 1], 1.0F, 1e-6F);
}

/// A model of another family.
cpu_runner load_variant(const char* variant, const load_options& options,
                        const std::function<void(model_config&)>& change = {}) {
  const test::random_model model(variant);
  auto config = load_config(model.folder());
  if (change)
    change(config);
  auto weights = std::make_shared<checkpoint>(checkpoint::open(model.folder()));
  weights->match(config);
  return cpu_runner::load(
      std::make_shared<const checkpoint_source>(std::move(weights), std::move(config), kernels::dtype::bf16),
      options);
}

// Every other layer of gpt-oss slides, and three of four in Llama 4 see chunks: a block has a place for one
// layer of each table.
TEST(tables_by_reach, have_as_many_layers_each) {
  const auto sliding = load_variant("gpt_oss", {.tables_by_reach = true});
  EXPECT_EQ(sliding.tables().reaches, (std::vector<kv_reach>{{.window = 11}, {}}));
  EXPECT_EQ(sliding.tables().table_of, (std::vector<std::size_t>{0, 1, 0, 1}));
  EXPECT_EQ(sliding.tables().place_of, (std::vector<std::size_t>{0, 0, 1, 1}));
  EXPECT_EQ(2 * sliding.kv_config().bytes_per_block(),
            load_variant("gpt_oss", {}).kv_config().bytes_per_block());
  const auto chunked = load_variant("llama4", {.tables_by_reach = true});
  EXPECT_EQ(chunked.tables().reaches,
            (std::vector<kv_reach>{{.chunk = 13}, {.chunk = 13}, {.chunk = 13}, {}}));
  EXPECT_EQ(chunked.tables().place_of, (std::vector<std::size_t>{0, 0, 0, 0}));
  EXPECT_EQ(load_variant("phimoe", {.tables_by_reach = true}).tables().reaches, std::vector<kv_reach>{{}})
      << "its window is the whole context";
  EXPECT_EQ(load_variant("gpt_oss", {}).tables().reaches, std::vector<kv_reach>{{}})
      << "unless it is asked for";
}

TEST(latent_cache, holds_the_latent_and_the_rotated_key_once) {
  const auto cache = load_variant("deepseek_v3", {}).kv_config();
  ASSERT_EQ(cache.groups.size(), 1U);
  EXPECT_EQ(cache.groups[0], (kernels::kv_layer_group{3, 1, 32 + 8, kernels::dtype::bf16, 32}));
}

TEST(latent_cache, is_refused_in_int8) {
  try {
    load_variant("deepseek_v3", {.kv_type = kernels::dtype::int8});
    FAIL() << "latents cannot be quantized";
  } catch (const model_error& error) {
    EXPECT_STREQ(error.what(), "--kv-cache-dtype int8: the KV cache of DeepseekV3ForCausalLM holds latents, "
                               "which are not quantized; choose auto");
  }
}

// The longest context decides, not a sequence's length: a key's bits depend on its token and position alone.

TEST(two_rotations, the_short_one_is_for_contexts_that_it_was_trained_for) {
  const auto logits_of = [](const cpu_runner& model) {
    kernels::thread_pool pool{{.threads = 1}};
    kernels::context ctx{pool};
    kernels::kv_cache cache(model.kv_config(), 1);
    const std::vector<std::uint32_t> blocks{0};
    const std::span<const std::uint32_t> table{blocks};
    std::vector<batch_row> rows;
    for (std::uint32_t i = 0; i < 10; ++i)
      rows.push_back({i, i, 0, i});
    forward_state state;
    EXPECT_EQ(model.begin(ctx, cache, {rows, {&table, 1}}, state), pause::experts);
    const auto inputs = state.expert_inputs(); // behind the first layer's attention
    return std::vector<std::byte>(inputs.row(9), inputs.row(9) + inputs.cols * sizeof(kernels::bfloat16));
  };
  const auto of = [&](std::size_t positions, const std::function<void(model_config&)>& change = {}) {
    return logits_of(load_variant("phimoe", {.max_positions = positions}, change));
  };
  const auto only_short = of(64, [](model_config& config) {
    config.rope = *config.short_rope;
    config.short_rope.reset();
  });
  const auto only_long = of(64, [](model_config& config) { config.short_rope.reset(); });
  EXPECT_NE(only_short, only_long);
  EXPECT_EQ(of(64), only_short);
  EXPECT_EQ(of(65), only_long);
}

TEST(two_rotations, are_two_numerics_classes) {
  const test::random_model model("phimoe");
  auto config = load_config(model.folder());
  EXPECT_EQ(attention_class("cpu-x86/bf16/none/r1", config, 64), "cpu-x86/bf16/none+short-rope/r1");
  EXPECT_EQ(attention_class("cpu-x86/bf16/none/r1", config, 65), "cpu-x86/bf16/none/r1");
  config.short_rope.reset();
  EXPECT_EQ(attention_class("cpu-x86/bf16/none/r1", config, 64), "cpu-x86/bf16/none/r1");
}

// Latent attention has four projections; routers and heads are not measured.
TEST(plans, measure_the_matrices_of_the_program) {
  const auto shapes_of = [](const char* variant) {
    const test::random_model model(variant);
    return text_of(plan_weights(load_config(model.folder()), kernels::dtype::bf16,
                                {expert_quant::int8, dense_quant::none, kernels::row_quant::none},
                                weight_coding::none));
  };
  EXPECT_EQ(shapes_of("deepseek_v3"),
            "bf16/bf16-pair/bf16 40x64 96x40 40x64 64x64, int8/int8-channel/bf16 ffn 40x64");
  EXPECT_EQ(shapes_of("gpt_oss"), "bf16/bf16-pair/bf16 192x64 64x96, int8/int8-channel/bf16 ffn 40x64");
  EXPECT_THAT(shapes_of("gpt_moe"), testing::HasSubstr("int8/int8-channel/bf16 ungated ffn"))
      << "its middle layer is dense";
}

} // namespace
} // namespace troupe::model
