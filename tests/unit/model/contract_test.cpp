// The numerics contract over whole models: a sequence's logits are the same bits whatever happens around it.
#include "kernels/isa.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/unit/model/batch_runner.hpp"

#include <cmath>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <optional>
#include <random>

namespace troupe::model {
namespace {

using kernels::dtype;
using test::batch_logits;
using test::batch_part;
using test::batch_runner;

std::vector<std::uint32_t> random_tokens(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint32_t> result;
  for (std::size_t i = 0; i < count; ++i)
    result.push_back(static_cast<std::uint32_t>(random() % 260));
  return result;
}

std::vector<std::uint32_t> slice(const std::vector<std::uint32_t>& tokens, std::size_t first,
                                 std::size_t count) {
  const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(std::min(count, tokens.size() - first))};
}

void append(batch_logits& all, batch_logits more) {
  for (auto& row : more)
    all.push_back(std::move(row));
}

struct contract_case {
  const char* variant;
  dtype type;
  std::optional<dtype> kv_type{}; // nothing: `type`
};

std::string name_of(const contract_case& x) {
  return std::string{x.variant} + "_" + kernels::name_of(x.type)
         + (x.kv_type ? std::string{"_kv_"} + kernels::name_of(*x.kv_type) : "");
}

void PrintTo(const contract_case& x, std::ostream* out) {
  *out << name_of(x);
}

class contract : public testing::TestWithParam<contract_case> {
 protected:
  batch_runner make(std::size_t num_hosts = 1) {
    return batch_runner(model_.folder(), GetParam().type, num_hosts, {}, GetParam().kv_type);
  }

  /// One sequence alone, in one micro-batch: what everything else is compared with.
  batch_logits alone(const std::vector<std::uint32_t>& tokens) {
    auto result = make().run(ctx_, {{0, tokens}});
    for (const auto& row : result)
      for (const auto logit : row)
        EXPECT_TRUE(std::isfinite(logit));
    return result;
  }

  test::random_model model_{GetParam().variant};
  kernels::thread_pool pool_{{.threads = 1}};
  kernels::context ctx_{pool_};
  std::vector<std::uint32_t> a_ = random_tokens(53, 1);
  std::vector<std::uint32_t> b_ = random_tokens(70, 2);
  std::vector<std::uint32_t> c_ = random_tokens(9, 3);
};

TEST_P(contract, prefill_in_chunks_of_any_length_and_token_by_token) {
  const auto expected = alone(a_);
  for (const std::size_t chunk : {1U, 7U, 16U, 33U}) {
    auto runner = make();
    batch_logits got;
    for (std::size_t i = 0; i < a_.size(); i += chunk)
      append(got, runner.run(ctx_, {{0, slice(a_, i, chunk)}}));
    EXPECT_EQ(got, expected) << "chunks of " << chunk;
  }
}

TEST_P(contract, other_sequences_in_the_batch) {
  // a decodes while b prefills in chunks and c comes and goes.
  auto runner = make();
  batch_logits got_a = runner.run(ctx_, {{0, slice(a_, 0, 40)}});
  batch_logits got_b;
  batch_logits got_c;
  for (std::size_t i = 40; i < a_.size(); ++i) {
    const auto part_b = slice(b_, (i - 40) * 5, 5);
    std::vector<batch_part> parts{{1, part_b}, {0, {a_[i]}}};
    if (i == 45)
      parts.insert(parts.begin(), {2, c_});
    auto rows = runner.run(ctx_, parts);
    if (i == 45) {
      append(got_c, {rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(c_.size())});
      rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(c_.size()));
    }
    got_a.push_back(rows.back());
    rows.pop_back();
    append(got_b, rows);
  }
  EXPECT_EQ(got_a, alone(a_));
  auto expected_b = alone(b_);
  expected_b.resize(got_b.size());
  EXPECT_EQ(got_b, expected_b);
  EXPECT_EQ(got_c, alone(c_));
}

TEST_P(contract, rows_of_sequences_in_any_order) {
  auto runner = make();
  const auto half = slice(a_, 0, 20);
  const auto rows = runner.run(ctx_, {{0, slice(a_, 0, 3)}, {1, slice(b_, 0, 11)}, {0, slice(a_, 3, 17)}});
  batch_logits got_a(rows.begin(), rows.begin() + 3);
  append(got_a, {rows.begin() + 14, rows.end()});
  EXPECT_EQ(got_a, alone(half));
}

TEST_P(contract, experts_on_any_number_of_hosts) {
  const auto expected = alone(b_);
  for (const std::size_t hosts : {2U, 3U, 5U})
    EXPECT_EQ(make(hosts).run(ctx_, {{0, b_}}), expected) << hosts << " hosts";
}

TEST_P(contract, any_number_of_threads) {
  const auto expected = alone(b_);
  for (const unsigned threads : {2U, 3U}) {
    kernels::thread_pool pool{{.threads = threads}};
    kernels::context ctx{pool};
    EXPECT_EQ(make().run(ctx, {{0, b_}}), expected) << threads << " threads";
  }
}

TEST_P(contract, every_instruction_set_of_this_machine) {
  const auto expected = alone(a_);
  for (const auto set : kernels::supported_isas()) {
    kernels::context ctx{pool_, set};
    EXPECT_EQ(make().run(ctx, {{0, a_}}), expected) << kernels::name_of(set);
  }
}

TEST_P(contract, micro_batches_in_flight_at_once) {
  auto runner = make(2);
  forward_state first;
  forward_state second;
  auto why_first = runner.begin(ctx_, {{0, a_}}, first);
  auto why_second = runner.begin(ctx_, {{1, c_}, {2, b_}}, second);
  while (why_first == pause::experts || why_second == pause::experts) {
    if (why_second == pause::experts)
      why_second = runner.step(ctx_, second, false);
    if (why_first == pause::experts)
      why_first = runner.step(ctx_, first, true);
  }
  EXPECT_EQ(runner.logits(ctx_, first), alone(a_));
  auto expected = alone(c_);
  append(expected, alone(b_));
  EXPECT_EQ(runner.logits(ctx_, second), expected);
}

TEST_P(contract, a_state_that_is_used_again) {
  auto runner = make();
  forward_state state;
  const auto run = [&](std::uint32_t sequence, const std::vector<std::uint32_t>& tokens) {
    auto why = runner.begin(ctx_, {{sequence, tokens}}, state);
    while (why == pause::experts)
      why = runner.step(ctx_, state);
    return runner.logits(ctx_, state);
  };
  const auto expected_a = alone(a_);
  EXPECT_EQ(run(0, c_), alone(c_));
  EXPECT_EQ(run(1, b_), alone(b_));
  EXPECT_EQ(run(2, a_), expected_a);
}

TEST_P(contract, weights_that_lie_unaligned_in_their_file) {
  const auto expected = alone(c_);
  // One more blank in the header moves all data by one byte.
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator{model_.folder()})
    if (entry.path().extension() == ".safetensors")
      files.push_back(entry.path());
  ASSERT_FALSE(files.empty());
  for (const auto& path : files) {
    std::ifstream in(path, std::ios::binary);
    std::string file{std::istreambuf_iterator<char>(in), {}};
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    file.insert(8 + length, " ");
    ++length;
    std::memcpy(file.data(), &length, sizeof length);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << file;
  }
  EXPECT_EQ(make().run(ctx_, {{0, c_}}), expected);
}

INSTANTIATE_TEST_SUITE_P(
    model, contract,
    testing::Values(contract_case{"mixtral", dtype::bf16}, contract_case{"mixtral", dtype::f32},
                    contract_case{"mixtral_window", dtype::bf16}, contract_case{"olmoe", dtype::bf16},
                    contract_case{"olmoe_bias", dtype::f32}, contract_case{"qwen2_dense_layers", dtype::bf16},
                    contract_case{"qwen2_window", dtype::f32}, contract_case{"qwen3", dtype::bf16},
                    contract_case{"qwen3_yarn", dtype::f32},
                    contract_case{"mixtral_window", dtype::bf16, dtype::int8},
                    contract_case{"olmoe_bias", dtype::f32, dtype::int8},
                    contract_case{"qwen3", dtype::bf16, dtype::int8}),
    [](const auto& c) { return name_of(c.param); });

} // namespace
} // namespace troupe::model
