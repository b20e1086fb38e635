// What is sampled from logits on a GPU, real or emulated, is what the CPU samples.
#include "kernels/model/cuda/cuda_sampler.hpp"

#include "tests/reference/sampling_requests.hpp"
#include "tests/unit/kernels/test_data.hpp"

#include <cstddef>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

namespace troupe::model {
namespace {

namespace cuda = kernels::cuda;
using kernels::same_bits;
using kernels::sampled_token;

void expect_same(std::span<const sampled_token> got, std::span<const sampled_token> want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].token, want[i].token) << i;
    EXPECT_TRUE(same_bits(std::span(&got[i].logprob, 1), std::span(&want[i].logprob, 1))) << i;
    EXPECT_EQ(got[i].rank, want[i].rank) << i;
    EXPECT_EQ(got[i].num_top, want[i].num_top) << i;
  }
}

std::vector<kernels::token_logprob> tops_of(std::span<const kernels::sampling_row> rows) {
  std::vector<kernels::token_logprob> result;
  for (const auto& row : rows)
    result.insert(result.end(), row.top.begin(), row.top.begin() + row.num_logprobs);
  return result;
}

class cuda_sampler_test : public testing::Test {
 protected:
  /// Samples all of it on both sides.
  void compare(cuda_sampler& sampler, const std::vector<float>& logits, std::size_t rows,
               std::span<const kernels::sampling_row> drawn,
               std::span<const kernels::logprob_row> known = {}) {
    const auto vocab = logits.size() / rows;
    const auto view = kernels::view_of(logits.data(), rows, vocab);
    std::vector<sampled_token> want(drawn.size());
    std::vector<sampled_token> want_known(known.size());
    kernels::sample(ctx_, view, drawn, want);
    const auto want_top = tops_of(drawn);
    kernels::token_logprobs(ctx_, view, known, want_known);

    cuda::device_memory on_device(logits.size() * sizeof(float));
    on_.copy_to_device(on_device.data(), logits.data(), on_device.size());
    std::vector<sampled_token> got(drawn.size());
    std::vector<sampled_token> got_known(known.size());
    const std::vector<std::uint32_t> numbers(rows);
    sampler.sample(on_, on_device.as<float>(), vocab, {numbers, drawn, got, known, got_known});
    expect_same(got, want);
    expect_same(got_known, want_known);
    const auto got_top = tops_of(drawn);
    ASSERT_EQ(got_top.size(), want_top.size());
    for (std::size_t i = 0; i < got_top.size(); ++i) {
      EXPECT_EQ(got_top[i].token, want_top[i].token);
      EXPECT_TRUE(same_bits(std::span(&got_top[i].logprob, 1), std::span(&want_top[i].logprob, 1)));
    }
  }

  kernels::thread_pool pool_{{.threads = 2}};
  kernels::context ctx_{pool_};
  cuda::stream on_;
};

TEST_F(cuda_sampler_test, gives_what_the_cpu_gives_whatever_is_asked_for) {
  cuda_sampler sampler(ctx_, 64);
  for (const std::size_t vocab : {1U, 17U, 260U, 2600U}) {
    SCOPED_TRACE(vocab);
    constexpr std::size_t rows = 5;
    auto logits = kernels::random_floats(rows * vocab, static_cast<unsigned>(vocab), 3.0F);
    for (std::size_t i = 5; i < logits.size(); i += 7) // equals
      logits[i] = logits[i - 4];
    const test::sampling_requests requests(60, rows, vocab, 9);
    std::vector<kernels::logprob_row> known;
    for (std::uint32_t i = 0; i < rows; ++i)
      known.push_back({.logits_row = i, .token = static_cast<std::uint32_t>(i * 97 % vocab)});
    compare(sampler, logits, rows, requests.rows(), known);
  }
}

TEST_F(cuda_sampler_test, few_rows_have_to_be_copied_whole) {
  constexpr std::size_t rows = 4;
  constexpr std::size_t vocab = 5000;
  const auto logits = kernels::random_floats(rows * vocab, 3, 4.0F);
  std::vector<kernels::sampling_row> wanted;
  for (std::uint32_t i = 0; i < 40; ++i)
    wanted.push_back({.logits_row = i % rows,
                      .params = {.temperature = i % 4 == 0 ? 0.0F : 1.0F,
                                 .top_k = i % 4 == 2 ? 40U : 0U,
                                 .top_p = i % 4 == 3 ? 0.6F : 1.0F},
                      .key = {i, 0, 3, 0}});
  cuda_sampler sampler(ctx_);
  compare(sampler, logits, rows, wanted);
  EXPECT_EQ(sampler.num_whole_rows(), 0U);
  // 5 tokens are not 60 % of what is nearly flat.
  const auto flat = kernels::random_floats(rows * vocab, 4, 0.5F);
  std::erase_if(wanted, [](const kernels::sampling_row& row) { return row.params.top_k != 0; });
  cuda_sampler short_sighted(ctx_, 5);
  compare(short_sighted, flat, rows, wanted);
  EXPECT_EQ(short_sighted.num_whole_rows(), 1U) << "the one with top-p, once for all its draws";
}

TEST_F(cuda_sampler_test, rows_of_equals_and_sick_rows_are_as_on_the_cpu) {
  constexpr std::size_t rows = 3;
  constexpr std::size_t vocab = 1500;
  std::vector<float> logits(rows * vocab, 0.25F); // more equals than there is room for
  logits[vocab + 700] = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t i = 0; i < vocab; ++i)
    logits[2 * vocab + i] = i % 2 == 0 ? 0.0F : -0.0F;
  cuda_sampler sampler(ctx_, 10);
  compare(sampler, logits, rows, test::sampling_requests(30, rows, vocab, 4).rows());
}

} // namespace
} // namespace troupe::model
