// The numerics contract over whole models, for every backend: the bits of a sequence's logits do not depend
// on anything else.
#include "kernels/isa.hpp"
#include "kernels/model/local_forward.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/reference/tested_backends.hpp"
#include "tests/unit/kernels/random_plan.hpp"
#include "tests/unit/model/batch_runner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>

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
  bool is_for_all = false;        // also for slow backends
};

constexpr contract_case cases[] = {{"mixtral", dtype::bf16},
                                   {"mixtral", dtype::f32},
                                   {"mixtral_window", dtype::bf16},
                                   {"olmoe", dtype::bf16},
                                   {"olmoe_bias", dtype::f32},
                                   {"qwen2_dense_layers", dtype::bf16, {}, true},
                                   {"qwen2_window", dtype::f32},
                                   {"qwen3", dtype::bf16},
                                   {"gpt_moe", dtype::bf16, {}, true},
                                   {"qwen3_yarn", dtype::f32},
                                   {"mixtral_window", dtype::bf16, dtype::int8, true},
                                   {"olmoe_bias", dtype::f32, dtype::int8},
                                   {"qwen3", dtype::bf16, dtype::int8},
                                   // latent attention: groups of experts, sigmoid and softmax
                                   {"deepseek_v3", dtype::bf16},
                                   {"deepseek_v2", dtype::f32},
                                   {"deepseek_v2_lite", dtype::bf16},
                                   // a part of a head rotates; F32 routers with a bias of the choice
                                   {"glm4_moe", dtype::bf16},
                                   {"glm4_moe", dtype::bf16, dtype::int8},
                                   {"minimax_m2", dtype::bf16},
                                   {"ernie4_5_moe", dtype::bf16},
                                   {"hunyuan_v1_moe", dtype::bf16},
                                   {"granitemoeshared", dtype::f32},
                                   // LayerNorm, sparsemixer
                                   {"phimoe", dtype::bf16},
                                   // windows and sinks; experts with biases
                                   {"gpt_oss", dtype::bf16},
                                   {"gpt_oss", dtype::f32},
                                   {"gpt_oss", dtype::bf16, dtype::int8},
                                   // chunks, a temperature of queries, weights of inputs
                                   {"llama4", dtype::bf16},
                                   {"llama4", dtype::f32, dtype::int8}};

std::string name_of(const contract_case& x) {
  return std::string{x.variant} + "_" + kernels::name_of(x.type)
         + (x.kv_type ? std::string{"_kv_"} + kernels::name_of(*x.kv_type) : "");
}

void PrintTo(const contract_case& x, std::ostream* out) {
  *out << name_of(x);
}

/// A backend of tested_backends(), with a case.
class contract : public testing::TestWithParam<std::tuple<std::string, contract_case>> {
 protected:
  static const contract_case& tested() { return std::get<1>(GetParam()); }

  /// Made once; no test writes to it.
  static const test::random_model& model() {
    static std::map<std::string, test::random_model> made;
    return made.try_emplace(tested().variant, tested().variant).first->second;
  }

  static dtype_choice choice() {
    return tested().type == dtype::bf16 ? dtype_choice::bfloat16 : dtype_choice::float32;
  }

  static batch_runner make(kernels::context& ctx, std::size_t num_hosts,
                           const std::filesystem::path& folder) {
    return batch_runner(test::open_backend(std::get<0>(GetParam()), ctx, folder, choice()), num_hosts,
                        tested().kv_type);
  }

  static batch_runner make(kernels::context& ctx) { return make(ctx, 1, model().folder()); }

  batch_runner make(std::size_t num_hosts = 1) { return make(ctx_, num_hosts, model().folder()); }

  /// One sequence alone, in one micro-batch: the reference of all comparisons.
  batch_logits alone(const std::vector<std::uint32_t>& tokens) {
    auto result = make().run({{0, tokens}});
    for (const auto& row : result)
      for (const auto logit : row)
        EXPECT_TRUE(std::isfinite(logit));
    return result;
  }

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
      append(got, runner.run({{0, slice(a_, i, chunk)}}));
    EXPECT_EQ(got, expected) << "chunks of " << chunk;
  }
}

TEST_P(contract, other_sequences_in_the_batch) {
  // a decodes while b prefills in chunks and c joins and leaves.
  auto runner = make();
  batch_logits got_a = runner.run({{0, slice(a_, 0, 40)}});
  batch_logits got_b;
  batch_logits got_c;
  for (std::size_t i = 40; i < a_.size(); ++i) {
    const auto part_b = slice(b_, (i - 40) * 5, 5);
    std::vector<batch_part> parts{{1, part_b}, {0, {a_[i]}}};
    if (i == 45)
      parts.insert(parts.begin(), {2, c_});
    auto rows = runner.run(parts);
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
  const auto rows = runner.run({{0, slice(a_, 0, 3)}, {1, slice(b_, 0, 11)}, {0, slice(a_, 3, 17)}});
  batch_logits got_a(rows.begin(), rows.begin() + 3);
  append(got_a, {rows.begin() + 14, rows.end()});
  EXPECT_EQ(got_a, alone(half));
}

TEST_P(contract, experts_on_any_number_of_hosts) {
  const auto expected = alone(b_);
  for (const std::size_t hosts : {2U, 3U, 5U})
    EXPECT_EQ(make(hosts).run({{0, b_}}), expected) << hosts << " hosts";
}

/// Cases for the CPU alone.
class cpu_contract : public contract {};

TEST_P(cpu_contract, any_number_of_threads) {
  const auto expected = alone(b_);
  for (const unsigned threads : {2U, 3U}) {
    kernels::thread_pool pool{{.threads = threads}};
    kernels::context ctx{pool};
    EXPECT_EQ(make(ctx).run({{0, b_}}), expected) << threads << " threads";
  }
}

TEST_P(cpu_contract, every_instruction_set_of_this_machine) {
  const auto expected = alone(a_);
  for (const auto set : kernels::supported_isas()) {
    kernels::context ctx{pool_, set};
    EXPECT_EQ(make(ctx).run({{0, a_}}), expected) << kernels::name_of(set);
  }
}

TEST_P(cpu_contract, any_plan_of_kernels) {
  const auto expected = alone(a_);
  std::vector<const kernels::kernel_table*> tables;
  for (const auto set : kernels::supported_isas())
    tables.push_back(&kernels::table_of(set));
  for (unsigned seed = 1; seed < 4; ++seed) {
    kernels::thread_pool pool{{.threads = 2}};
    kernels::context ctx{pool, kernels::plan_drawer(tables, seed).draw()};
    EXPECT_EQ(make(ctx).run({{0, a_}}), expected) << "plan " << seed;
  }
}

TEST_P(contract, micro_batches_in_flight_at_once) {
  auto runner = make(2);
  const auto first = runner.make_pass();
  const auto second = runner.make_pass();
  auto why_first = runner.begin({{0, a_}}, *first);
  auto why_second = runner.begin({{1, c_}, {2, b_}}, *second);
  while (why_first == pause::experts || why_second == pause::experts) {
    if (why_second == pause::experts)
      why_second = runner.step(*second, false);
    if (why_first == pause::experts)
      why_first = runner.step(*first, true);
  }
  EXPECT_EQ(runner.logits(*first, a_.size()), alone(a_));
  auto expected = alone(c_);
  append(expected, alone(b_));
  EXPECT_EQ(runner.logits(*second, c_.size() + b_.size()), expected);
}

TEST_P(contract, a_pass_that_is_used_again) {
  auto runner = make();
  const auto pass = runner.make_pass();
  const auto run = [&](std::uint32_t sequence, const std::vector<std::uint32_t>& tokens) {
    auto why = runner.begin({{sequence, tokens}}, *pass);
    while (why == pause::experts)
      why = runner.step(*pass);
    return runner.logits(*pass, tokens.size());
  };
  const auto expected_a = alone(a_);
  EXPECT_EQ(run(0, c_), alone(c_));
  EXPECT_EQ(run(1, b_), alone(b_));
  EXPECT_EQ(run(2, a_), expected_a);
}

TEST_P(contract, a_fork_continues_on_copied_blocks) {
  auto runner = make();
  runner.run({{0, slice(a_, 0, 40)}}); // its last block is half full
  runner.fork(0, 1);
  // The original continues differently, in the same block.
  auto other = slice(a_, 0, 40);
  const auto tail = slice(b_, 0, 10);
  other.insert(other.end(), tail.begin(), tail.end());
  const auto got_other = runner.run({{0, tail}});
  const auto got = runner.run({{1, slice(a_, 40, a_.size())}});
  const auto last_of = [](batch_logits all, std::size_t count) {
    return batch_logits(all.end() - static_cast<std::ptrdiff_t>(count), all.end());
  };
  EXPECT_EQ(got, last_of(alone(a_), a_.size() - 40));
  EXPECT_EQ(got_other, last_of(alone(other), tail.size()));
}

// Many sequences by turns: each writes over blocks that the windows of others have passed.
TEST_P(contract, blocks_that_no_window_sees_are_used_again) {
  const auto expected = alone(b_);
  auto runner = make();
  std::vector<batch_logits> got(4);
  for (std::size_t i = 0; i < b_.size(); i += 3)
    for (std::uint32_t sequence = 0; sequence < got.size(); ++sequence)
      append(got[sequence], runner.run({{sequence, slice(b_, i, 3)}}));
  for (const auto& one : got)
    EXPECT_EQ(one, expected);
  const auto whole = (b_.size() + 15) / 16; // blocks
  std::size_t most = 0;
  for (const auto& [window, chunk] : runner.attention().kv_reaches()) {
    const auto reach = std::max(window, chunk);
    most += got.size() * (reach == 0 ? whole : std::min(whole, (reach + 3) / 16 + 2));
  }
  EXPECT_LE(runner.num_blocks(), most);
}

// The same without tables of their own, whatever the places of blocks.
TEST_P(cpu_contract, tables_by_reach_change_no_bit) {
  local_forward whole(test::open_backend("cpu", ctx_, model().folder(), choice()),
                      {.kv_type = tested().kv_type});
  const auto flat = whole.append(b_);
  const auto expected = alone(b_);
  const auto vocab = expected.front().size();
  for (std::size_t r = 0; r < b_.size(); ++r)
    EXPECT_TRUE(std::ranges::equal(expected[r], std::span{flat}.subspan(r * vocab, vocab))) << "row " << r;
}

TEST_P(contract, samples_are_of_the_logits) {
  auto runner = make();
  const auto pass = runner.make_pass();
  auto why = runner.begin({{0, a_}}, *pass);
  while (why == pause::experts)
    why = runner.step(*pass);
  const auto logits = runner.logits(*pass, a_.size());
  const std::vector<std::uint32_t> rows{static_cast<std::uint32_t>(a_.size() - 1), 4};
  const kernels::sampling_row greedy{.logits_row = 0, .params = {.temperature = 0}};
  const kernels::logprob_row known{.logits_row = 1, .token = a_[5]};
  kernels::sampled_token drawn;
  kernels::sampled_token reported;
  runner.attention().sample(*pass, {.rows = rows,
                                    .drawn = {&greedy, 1},
                                    .drawn_tokens = {&drawn, 1},
                                    .known = {&known, 1},
                                    .known_tokens = {&reported, 1}});
  const auto logprob = [&](std::size_t row, std::uint32_t token) {
    double sum = 0;
    for (const auto logit : logits[row])
      sum += std::exp(static_cast<double>(logit));
    return static_cast<double>(logits[row][token]) - std::log(sum);
  };
  const auto& last = logits[rows[0]];
  EXPECT_EQ(drawn.token,
            static_cast<std::uint32_t>(std::max_element(last.begin(), last.end()) - last.begin()));
  EXPECT_NEAR(drawn.logprob, logprob(rows[0], drawn.token), 1e-4);
  EXPECT_EQ(drawn.rank, 1U);
  EXPECT_EQ(reported.token, known.token);
  EXPECT_NEAR(reported.logprob, logprob(4, known.token), 1e-4);
}

TEST_P(contract, weights_that_lie_unaligned_in_their_file) {
  const auto expected = alone(c_);
  const test::random_model moved(tested().variant);
  // One more blank in the header moves all data by one byte.
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator{moved.folder()})
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
  EXPECT_EQ(make(ctx_, 1, moved.folder()).run({{0, c_}}), expected);
}

std::string name_of_test(const testing::TestParamInfo<contract::ParamType>& info) {
  return std::get<0>(info.param) + "_" + name_of(std::get<1>(info.param));
}

/// The cases for the backends chosen by `wanted`.
std::vector<contract::ParamType> cases_of(const std::function<bool(const std::string&)>& wanted) {
  std::vector<contract::ParamType> result;
  for (const auto& backend : test::tested_backends())
    for (const auto& one : cases)
      if (wanted(backend) && test::computes(backend, one.type) && (one.is_for_all || !test::is_slow(backend)))
        result.emplace_back(backend, one);
  return result;
}

INSTANTIATE_TEST_SUITE_P(model, contract, testing::ValuesIn(cases_of([](const auto&) { return true; })),
                         name_of_test);
// Absent if only the emulated GPU is tested.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(cpu_contract);
INSTANTIATE_TEST_SUITE_P(model, cpu_contract,
                         testing::ValuesIn(cases_of([](const auto& name) { return name == "cpu"; })),
                         name_of_test);

} // namespace
} // namespace troupe::model
