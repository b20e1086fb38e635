// Every architecture and variant compared with the float64 reference, which computes the expected values
// during the test (tests/reference/reference.py): no stored file can become stale.
#include "kernels/model/local_forward.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/reference/tested_backends.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <tuple>

namespace troupe::model {
namespace {

constexpr std::size_t prompt_tokens = 128;
constexpr std::size_t greedy_tokens = 16;
constexpr unsigned seed = 11;

std::vector<double> log_softmax(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  const auto sum = std::accumulate(logits.begin(), logits.end(), 0.0,
                                   [&](double total, float x) { return total + std::exp(x - max); });
  std::vector<double> result;
  for (const auto x : logits)
    result.push_back(x - max - std::log(sum));
  return result;
}

/// Biggest difference over the vocabulary.
double max_difference(std::span<const float> logits, const std::vector<double>& expected) {
  const auto logprobs = log_softmax(logits);
  double result = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    result = std::max(result, std::abs(logprobs[i] - expected[i]));
  return result;
}

std::size_t best(std::span<const float> logits) {
  return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// A backend of tested_backends() and a variant of make_model.py.
class golden : public testing::TestWithParam<std::tuple<std::string, const char*>> {
 protected:
  golden() : model_(variant()) {
    std::mt19937 random(seed);
    for (std::size_t i = 0; i < prompt_tokens; ++i)
      prompt_.push_back(static_cast<std::uint32_t>(random() % 260));
  }

  static const char* variant() { return std::get<1>(GetParam()); }

  test::reference_result reference(std::size_t rounded_runs) {
    return test::run_reference(model_.folder(), prompt_, greedy_tokens, rounded_runs);
  }

  local_forward load(dtype_choice dtype) {
    return local_forward(test::open_backend(std::get<0>(GetParam()), ctx_, model_.folder(), dtype),
                         {.max_positions = prompt_tokens + greedy_tokens});
  }

  test::random_model model_;
  std::vector<std::uint32_t> prompt_;
  kernels::thread_pool pool_{{.threads = 2}};
  kernels::context ctx_{pool_};
};

class golden_float32 : public golden {};

class golden_bfloat16 : public golden {};

TEST_P(golden_float32, logprobs_and_greedy_continuation) {
  const auto expected = reference(0);
  auto forward = load(dtype_choice::float32);
  const auto vocab = forward.config().vocab_size;
  const auto logits = forward.append(prompt_);
  double worst = 0.0;
  for (std::size_t i = 0; i < prompt_.size(); ++i)
    worst =
        std::max(worst, max_difference(std::span{logits}.subspan(i * vocab, vocab), expected.logprobs[i]));
  EXPECT_LT(worst, 1e-4);
  EXPECT_EQ(forward.greedy(std::span{logits}.last(vocab), greedy_tokens), expected.greedy);
  RecordProperty("worst_logprob_difference", std::to_string(worst));
  std::printf("%s float32: worst |logprob difference| %.1e over all tokens at %zu positions\n", variant(),
              worst, prompt_.size());
}

TEST_P(golden_bfloat16, logprobs_and_greedy_continuation) {
  const auto expected = reference(8);
  auto forward = load(dtype_choice::bfloat16);
  const auto vocab = forward.config().vocab_size;
  const auto logits = forward.append(prompt_);
  // A client's view: the logprob of every prompt token after the tokens before it.
  std::size_t beyond = 0;
  std::vector<double> differences;
  for (std::size_t i = 0; i + 1 < prompt_.size(); ++i) {
    const auto logprobs = log_softmax(std::span{logits}.subspan(i * vocab, vocab));
    differences.push_back(std::abs(logprobs[prompt_[i + 1]] - expected.logprobs[i][prompt_[i + 1]]));
    beyond += differences.back() > 5e-2 ? 1 : 0;
  }
  EXPECT_LE(beyond, differences.size() / 20);

  // Along the reference's own continuation, so that one near-tie does not end the comparison.
  std::vector<float> last(logits.end() - static_cast<std::ptrdiff_t>(vocab), logits.end());
  std::size_t near_ties = 0;
  for (std::size_t i = 0; i < greedy_tokens; ++i) {
    if (best(last) != expected.greedy[i]) {
      ++near_ties;
      EXPECT_LT(expected.margins[i], expected.rounding_errors[i]) << "token " << i << " of the continuation";
    }
    last = forward.append({&expected.greedy[i], 1});
  }
  EXPECT_LT(near_ties, greedy_tokens / 2) << "near-ties everywhere prove nothing";
  std::nth_element(differences.begin(),
                   differences.begin() + static_cast<std::ptrdiff_t>(differences.size() / 2),
                   differences.end());
  std::printf("%s bfloat16: %zu of %zu positions beyond 5e-2, median difference %.1e; %zu of %zu greedy "
              "tokens differ "
              "at near-ties\n",
              variant(), beyond, differences.size(), differences[differences.size() / 2], near_ties,
              greedy_tokens);
}

constexpr const char* variants[] = {"mixtral",
                                    "mixtral_f32",
                                    "mixtral_f16",
                                    "mixtral_sharded",
                                    "mixtral_window",
                                    "mixtral_head_dim",
                                    "mixtral_tied",
                                    "mixtral_linear",
                                    "mixtral_llama3",
                                    "olmoe",
                                    "olmoe_bias",
                                    "qwen2",
                                    "qwen2_dense_layers",
                                    "qwen2_window",
                                    "qwen2_layer_types",
                                    "qwen3",
                                    "qwen3_yarn",
                                    "qwen3_rope_parameters",
                                    "qwen3_bias_window",
                                    "deepseek_v2",
                                    "deepseek_v2_lite",
                                    "deepseek_v2_mscale",
                                    "deepseek_v3",
                                    "deepseek_v3_rope_parameters",
                                    "kimi_k2",
                                    "moonlight",
                                    "glm4_moe_lite",
                                    "glm4_moe",
                                    "glm4_moe_rope_parameters",
                                    "glm4_moe_air",
                                    "dots1",
                                    "dots1_rope_parameters",
                                    "minimax_m2",
                                    "minimax_m2_rope_parameters",
                                    "ernie4_5_moe",
                                    "ernie4_5_moe_interval",
                                    "hunyuan_v1_moe",
                                    "hunyuan_v1_moe_lists",
                                    "hunyuan_v1_moe_numbers",
                                    "granitemoe",
                                    "granitemoeshared",
                                    "granitemoeshared_none",
                                    "granitemoeshared_rope_parameters",
                                    "phimoe",
                                    "phimoe_short",
                                    "gpt_moe",
                                    "gpt_moe_top2",
                                    "gpt_oss",
                                    "gpt_oss_rope_parameters",
                                    "llama4",
                                    "llama4_maverick",
                                    "llama4_rope_parameters"};

/// One of each kind of arithmetic, for slow backends.
constexpr std::string_view some[] = {
    "mixtral_tied",     "olmoe_bias", "qwen2",   "glm4_moe", "minimax_m2",  "ernie4_5_moe", "hunyuan_v1_moe",
    "granitemoeshared", "phimoe",     "gpt_moe", "gpt_oss",  "deepseek_v2", "deepseek_v3",  "llama4"};

/// Every variant on the backends that compute in `type`.
std::vector<golden::ParamType> cases_in(kernels::dtype type) {
  std::vector<golden::ParamType> result;
  for (const auto& backend : test::tested_backends())
    for (const auto* variant : variants)
      if (test::computes(backend, type)
          && (!test::is_slow(backend) || std::ranges::find(some, variant) != std::end(some)))
        result.emplace_back(backend, variant);
  return result;
}

std::string name_of_test(const testing::TestParamInfo<golden::ParamType>& tested) {
  return std::get<0>(tested.param) + "_" + std::get<1>(tested.param);
}

// Absent if only the emulated GPU is tested.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(golden_float32);
INSTANTIATE_TEST_SUITE_P(model, golden_float32, testing::ValuesIn(cases_in(kernels::dtype::f32)),
                         name_of_test);
INSTANTIATE_TEST_SUITE_P(model, golden_bfloat16, testing::ValuesIn(cases_in(kernels::dtype::bf16)),
                         name_of_test);

} // namespace
} // namespace troupe::model
