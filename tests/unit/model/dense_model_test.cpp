#include "kernels/model/dense_model.hpp"

#include "tests/reference/random_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::model {
namespace {

using testing::HasSubstr;

class dense_model_test : public testing::Test {
 protected:
  std::shared_ptr<const cpu_weights> source(kernels::dtype type, const quantization& quant = {}) {
    return std::make_shared<const checkpoint_source>(weights_, config_, type, quant);
  }

  dense_model load(const load_options& options, kernels::dtype type = kernels::dtype::f32,
                   const load_progress& progress = {}) {
    return dense_model::load(source(type), options, progress);
  }

  test::random_model model_{"qwen2_dense_layers"};
  model_config config_ = load_config(model_.folder());
  std::shared_ptr<const checkpoint> weights_ =
      std::make_shared<const checkpoint>(checkpoint::open(model_.folder()));
};

TEST_F(dense_model_test, progress_grows_up_to_the_whole) {
  std::vector<std::pair<std::size_t, std::size_t>> calls;
  load({}, kernels::dtype::bf16,
       [&](std::size_t loaded, std::size_t total) { calls.emplace_back(loaded, total); });
  ASSERT_FALSE(calls.empty());
  EXPECT_EQ(calls.back().first, calls.back().second);
  for (std::size_t i = 1; i < calls.size(); ++i)
    EXPECT_LE(calls[i - 1].first, calls[i].first);
}

TEST_F(dense_model_test, bf16_weights_take_about_half_of_f32) {
  const auto wide = load({}, kernels::dtype::f32).num_bytes();
  const auto narrow = load({}, kernels::dtype::bf16).num_bytes();
  EXPECT_GT(narrow, 0U);
  EXPECT_LT(narrow, wide * 2 / 3);
}

TEST_F(dense_model_test, positions_end_at_the_context_or_where_asked) {
  EXPECT_EQ(load({.max_positions = 100}).max_positions(), 100U);
  EXPECT_EQ(load({}).max_positions(), config_.max_context);
  EXPECT_EQ(load({.max_positions = 1'000'000}).max_positions(), config_.max_context);
}

TEST_F(dense_model_test, a_context_whose_tables_would_not_fit_is_refused) {
  config_.max_context = 1'000'000'000;
  try {
    load({});
    FAIL();
  } catch (const model_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("a context of 1000000000 tokens"));
  }
  EXPECT_EQ(load({.max_positions = 64}).max_positions(), 64U);
}

TEST_F(dense_model_test, computes_in_f32_or_bf16_only) {
  EXPECT_THROW(load({}, kernels::dtype::f16), model_error);
  EXPECT_THROW(load({}, kernels::dtype::int8), model_error);
}

TEST_F(dense_model_test, cache_groups_layers_of_one_shape) {
  const auto model = load({}, kernels::dtype::bf16);
  const auto cache = model.kv_config(32);
  EXPECT_EQ(cache.block_tokens, 32U);
  ASSERT_EQ(cache.groups.size(), 1U);
  EXPECT_EQ(cache.groups[0], (kernels::kv_layer_group{config_.num_layers(), 2, 16, kernels::dtype::bf16}));
}

TEST_F(dense_model_test, cache_is_int8_where_asked) {
  const auto cache = load({.kv_type = kernels::dtype::int8}, kernels::dtype::bf16).kv_config();
  ASSERT_EQ(cache.groups.size(), 1U);
  EXPECT_EQ(cache.groups[0].type, kernels::dtype::int8);
}

TEST_F(dense_model_test, a_pause_describes_its_layer) {
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
  EXPECT_EQ(state.normed().type, kernels::dtype::bf16);
  EXPECT_EQ(state.normed().cols, config_.hidden);

  // The table names every (row, slot) exactly once, under its expert, rows rising.
  const auto entries = state.expert_entries();
  const auto offsets = state.expert_offsets();
  ASSERT_EQ(entries.size(), 40U);
  std::vector<int> seen(entries.size());
  for (std::size_t e = 0; e < state.num_experts(); ++e)
    for (auto i = offsets[e]; i < offsets[e + 1]; ++i) {
      EXPECT_EQ(state.topk_ids()[entries[i]], e);
      ++seen[entries[i]];
      if (i > offsets[e]) {
        EXPECT_LT(entries[i - 1], entries[i]);
      }
    }
  EXPECT_THAT(seen, testing::Each(1));

  // This variant normalizes: the weights of a row add up to one.
  for (std::size_t r = 0; r < state.num_rows(); ++r)
    EXPECT_NEAR(state.topk_weights()[2 * r] + state.topk_weights()[2 * r + 1], 1.0F, 1e-6F);
}

} // namespace
} // namespace troupe::model
