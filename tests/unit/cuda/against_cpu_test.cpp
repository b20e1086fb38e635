// Models on a GPU, real or emulated, compared with the CPU: the same up to rounding, also if attention and
// experts are on different kinds of devices.
#include "tests/reference/mixed_backend.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/reference/tested_backends.hpp"
#include "tests/unit/model/batch_runner.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::model {
namespace {

using test::batch_logits;
using test::batch_runner;

struct compared_model {
  const char* variant;
  quantization quant;
  std::optional<kernels::dtype> kv_type{};
};

class against_cpu : public testing::TestWithParam<compared_model> {
 protected:
  std::unique_ptr<compute_backend> open(const std::string& name) {
    return test::open_backend(name, ctx_, model_.folder(), dtype_choice::bfloat16, GetParam().quant);
  }

  /// A prompt, and a few tokens after it, one by one.
  batch_logits run(const std::string& attention, const std::string& experts) {
    batch_runner runner(std::make_unique<test::mixed_backend>(open(attention), open(experts)), 2,
                        GetParam().kv_type);
    auto result = runner.run({{0, tokens(0, prompt_rows)}});
    for (auto first = prompt_rows; first < prompt_rows + decoded_rows; ++first)
      for (auto& row : runner.run({{0, tokens(first, 1)}}))
        result.push_back(std::move(row));
    return result;
  }

  static std::vector<std::uint32_t> tokens(std::size_t first, std::size_t count) {
    std::mt19937 random(5);
    random.discard(first);
    std::vector<std::uint32_t> result(count);
    for (auto& token : result)
      token = static_cast<std::uint32_t>(random() % 260);
    return result;
  }

  /// ‖got − want‖ / ‖want‖ of each row, ascending.
  static std::vector<double> errors(std::span<const std::vector<float>> got,
                                    std::span<const std::vector<float>> want) {
    std::vector<double> result;
    for (std::size_t r = 0; r < want.size(); ++r) {
      double error = 0.0;
      double norm = 0.0;
      for (std::size_t i = 0; i < want[r].size(); ++i) {
        const auto wanted = static_cast<double>(want[r][i]);
        error += std::pow(static_cast<double>(got[r].at(i)) - wanted, 2);
        norm += wanted * wanted;
      }
      result.push_back(std::sqrt(error / norm));
    }
    std::sort(result.begin(), result.end());
    return result;
  }

  /// Both round activations to 8 bits in the same places, from sums in another order: sometimes to the other
  /// neighbour, and after a few layers less than 2⁻⁶ apart. If two experts are nearly tied, a row may go to
  /// another one and differ, and so may, a little, the rows after it.
  static void expect_near(const batch_logits& got, const batch_logits& want) {
    ASSERT_EQ(got.size(), prompt_rows + decoded_rows);
    ASSERT_EQ(want.size(), got.size());
    for (const auto& [first, count] : {std::pair{0U, prompt_rows}, std::pair{prompt_rows, decoded_rows}}) {
      const auto sorted = errors(std::span{got}.subspan(first, count), std::span{want}.subspan(first, count));
      EXPECT_LT(sorted[sorted.size() / 2], 0x1p-6) << "the middle of rows " << first << " and on";
      EXPECT_LT(sorted[sorted.size() * 3 / 4], 0x1p-4) << "three quarters of rows " << first << " and on";
    }
  }

  static constexpr unsigned prompt_rows = 33;
  static constexpr unsigned decoded_rows = 8;

  test::random_model model_{GetParam().variant};
  kernels::thread_pool pool_{{.threads = 1}};
  kernels::context ctx_{pool_};
};

TEST_P(against_cpu, a_whole_model) {
  expect_near(run("cuda", "cuda"), run("cpu", "cpu"));
}

TEST_P(against_cpu, attention_there_and_experts_here_and_the_reverse) {
  const auto want = run("cpu", "cpu");
  expect_near(run("cuda", "cpu"), want);
  expect_near(run("cpu", "cuda"), want);
}

constexpr quantization with(expert_quant experts, dense_quant dense = dense_quant::none) {
  return {.experts = experts, .dense = dense, .rows = kernels::row_quant::none};
}

INSTANTIATE_TEST_SUITE_P(
    models, against_cpu,
    testing::Values(compared_model{"mixtral", {}}, compared_model{"mixtral_tied", {}},
                    compared_model{"olmoe_bias", {}}, compared_model{"qwen2_dense_layers", {}},
                    compared_model{"qwen3_yarn", {}, kernels::dtype::int8},
                    compared_model{"mixtral_tied", with(expert_quant::int8, dense_quant::int8)},
                    compared_model{"gpt_moe", {}},
                    compared_model{"gpt_moe", with(expert_quant::int8, dense_quant::int8)},
                    compared_model{"deepseek_v3", {}}, compared_model{"glm4_moe", {}},
                    compared_model{"gpt_oss", {}}, compared_model{"llama4", {}}, compared_model{"phimoe", {}},
                    compared_model{"qwen2", with(expert_quant::int4_group32, dense_quant::int4_group32)},
                    compared_model{"qwen3", with(expert_quant::int4_group64)},
                    compared_model{"olmoe", with(expert_quant::int4_channel)}),
    [](const auto& tested) {
      std::string name = std::string{tested.param.variant} + "_" + tested.param.quant.name()
                         + (tested.param.kv_type ? "_kv_int8" : "");
      for (auto& c : name)
        c = c == '-' || c == '+' ? '_' : c;
      return name;
    });

} // namespace
} // namespace troupe::model
