#include "services/attention/kv_room.hpp"

#include <cstdint>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "kernels/model/error.hpp"

namespace troupe {
namespace {

constexpr std::uint64_t one_mebibyte = std::uint64_t{1} << 20U;
constexpr std::uint64_t block = 2 * one_mebibyte;

const attention_memory held{.weights = 100 * one_mebibyte, .is_mapped = false, .reserve = 36 * one_mebibyte};

memory_budget budget_of(std::uint64_t mebibytes) {
  return memory_budget(mebibytes * one_mebibyte);
}

TEST(kv_room_test, is_what_was_asked_for_or_usual_without_a_limit) {
  const memory_budget none{std::nullopt};
  EXPECT_EQ(kv_room_of(0, block, held, none), usual_kv_cache_bytes);
  EXPECT_EQ(kv_room_of(5, block, held, none), 5U) << "the engine says that no block fits";
}

TEST(kv_room_test, beside_experts_is_a_quarter_of_what_they_leave) {
  constexpr std::uint64_t experts = 600 * one_mebibyte;
  EXPECT_EQ(shared_kv_cache_bytes(memory_budget{std::nullopt}, experts, 8), usual_kv_cache_bytes);
  EXPECT_EQ(shared_kv_cache_bytes(budget_of(64 + 600 + 8192), experts, 2), usual_kv_cache_bytes);
  EXPECT_EQ(shared_kv_cache_bytes(budget_of(64 + 1000), experts, 1), 100 * one_mebibyte);
  EXPECT_EQ(shared_kv_cache_bytes(budget_of(64 + 1000), experts, 2), 50 * one_mebibyte);
  EXPECT_EQ(shared_kv_cache_bytes(budget_of(64 + 320), experts, 1), 10 * one_mebibyte);
}

// 64 MiB for the program, 100 for weights, 36 for rows.
TEST(kv_room_test, follows_from_a_memory_limit) {
  EXPECT_EQ(kv_room_of(0, block, held, budget_of(300)), 100 * one_mebibyte);
  EXPECT_EQ(kv_room_of(30 * one_mebibyte, block, held, budget_of(300)), 30 * one_mebibyte);
}

TEST(kv_room_test, is_refused_where_the_limit_leaves_none) {
  try {
    kv_room_of(0, block, held, budget_of(201));
    FAIL() << "no block fits";
  } catch (const model::model_error& error) {
    EXPECT_EQ(std::string{error.what()},
              "the memory limit of the cgroup is 201 MiB, of which the program takes 64 MiB, the attention "
              "side's weights 100 MiB and its rows and tables 36 MiB: that leaves no room for the KV cache; "
              "raise the limit, or choose --dense-quant");
  }
  try {
    kv_room_of(137 * one_mebibyte, block, held, budget_of(300));
    FAIL() << "it would be killed";
  } catch (const model::model_error& error) {
    EXPECT_EQ(
        std::string{error.what()},
        "--kv-cache-memory is 137 MiB, and the memory limit of the cgroup is 300 MiB, of which the "
        "program takes 64 MiB, the attention side's weights 100 MiB and its rows and tables 36 MiB: that "
        "leaves 136 MiB; lower it, or raise the limit");
  }
}

TEST(kv_room_test, weights_that_do_not_fit_are_refused_while_they_load) {
  EXPECT_NO_THROW(check_attention_fits(held, budget_of(200)));
  EXPECT_THROW(check_attention_fits(held, budget_of(199)), model::model_error);
  auto mapped = held;
  mapped.is_mapped = true;
  EXPECT_NO_THROW(check_attention_fits(mapped, budget_of(70))) << "their pages come and go";
  EXPECT_EQ(kv_room_of(20 * one_mebibyte, block, mapped, budget_of(100)), 20 * one_mebibyte);
}

/// One layer of 4 heads of 8, hidden 32, 2 of 4 experts.
TEST(kv_room_test, rows_logits_and_tables_are_counted) {
  model::model_config config;
  config.hidden = 32;
  config.vocab_size = 1000;
  config.rope.rotary_dim = 8;
  model::route_op route;
  route.experts.num_experts = 4;
  route.experts.num_topk = 2;
  config.layers.assign(3, {{model::project_op{.matrix = {.parts = {{"qkv", {64, 32}}}}},
                            model::attend_op{.num_heads = 4, .num_kv_heads = 2, .head_dim = 8}, route}});
  attention_options options;
  options.max_num_batched_tokens = 100;
  options.micro_batches = 2;
  // A row: 32 × (4 + 3 × 2) hidden values, 64 of queries, keys and values, 32 attended, 2 answers of 32
  // twice, 4 scores.
  constexpr std::uint64_t row = 320 + 256 + 64 + 256 + 16;
  constexpr std::uint64_t logits = 64 * 1000 * 4;
  constexpr std::uint64_t rope = 500 * 8 * 4;
  EXPECT_EQ(attention_reserve(config, kernels::dtype::bf16, 500, options), 200 * row + logits + rope);
}

/// 4 heads of 12 + 8, a latent of 32 and values of 16, from a compressed query of 40.
TEST(kv_room_test, rows_of_latent_attention_are_counted) {
  model::model_config config;
  config.hidden = 32;
  config.vocab_size = 1000;
  config.rope.rotary_dim = 8;
  using model::rows_of;
  const auto project = [](rows_of to, std::size_t outputs) {
    return model::project_op{.to = to, .matrix = {.parts = {{"matrix", {outputs, 32}}}}};
  };
  model::attend_latent_op latent;
  latent.num_heads = 4;
  latent.nope_dim = 12;
  latent.rope_dim = 8;
  latent.latent_dim = 32;
  latent.value_dim = 16;
  config.layers.assign(
      3,
      {{project(rows_of::query_latent, 40),
        model::norm_op{.weight = {"norm", {40}}, .from = rows_of::query_latent, .to = rows_of::query_normed},
        project(rows_of::projected, 80), project(rows_of::key_latent, 40), latent,
        project(rows_of::residual, 32)}});
  attention_options options;
  options.max_num_batched_tokens = 100;
  options.micro_batches = 2;
  // Hidden values, the compressed query and its norm, queries, the latent; 4 heads of absorbed queries,
  // attended latents and values.
  constexpr std::uint64_t row = 320 + 40 * (4 + 2) + 80 * 4 + 40 * 4 + 4 * (40 * 4 + (32 + 16) * 2);
  constexpr std::uint64_t logits = 64 * 1000 * 4;
  constexpr std::uint64_t rope = 500 * 8 * 4;
  EXPECT_EQ(attention_reserve(config, kernels::dtype::bf16, 500, options), 200 * row + logits + rope);
}

/// A number of every position in each layer whose queries have a temperature.
TEST(kv_room_test, tables_of_temperatures_are_counted) {
  model::model_config config;
  config.rope.rotary_dim = 8;
  config.layers.assign(3, {{model::attend_op{}}});
  const auto reserve = [&] { return attention_reserve(config, kernels::dtype::bf16, 500, {}); };
  const auto before = reserve();
  config.layers[2].find<model::attend_op>()->temperature = {.scale = 0.1F, .floor = 8.0F};
  EXPECT_EQ(reserve(), before + 500 * 4);
}

} // namespace
} // namespace troupe
