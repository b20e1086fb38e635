// Sampling from logits on a GPU, real or emulated, equals sampling on the CPU.
#include "kernels/model/cuda/cuda_sampler.hpp"

#include "tests/reference/sampling_requests.hpp"
#include "tests/unit/kernels/test_data.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <gtest/gtest.h>
#include <limits>
#include <span>
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

/// All space for top logprobs, including unwritten entries.
template <class Row>
void expect_same_tops(const std::vector<Row>& got, const std::vector<Row>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i].top.size(), want[i].top.size());
    for (std::size_t place = 0; place < want[i].top.size(); ++place) {
      const auto& [token, logprob] = want[i].top[place];
      EXPECT_EQ(got[i].top[place].token, token) << i << ", " << place;
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got[i].top[place].logprob),
                std::bit_cast<std::uint32_t>(logprob))
          << i << ", " << place;
    }
  }
}

class cuda_sampler_test : public testing::Test {
 protected:
  /// Samples all rows on both sides.
  void compare(cuda_sampler& sampler, const std::vector<float>& logits, std::size_t rows,
               std::span<const kernels::sampling_row> drawn,
               std::span<const kernels::logprob_row> known = {}) {
    const auto vocab = logits.size() / rows;
    const auto view = kernels::view_of(logits.data(), rows, vocab);
    std::vector<sampled_token> want(drawn.size());
    std::vector<sampled_token> want_known(known.size());
    const test::rows_with_own_tops<kernels::sampling_row> cpu_drawn(drawn);
    const test::rows_with_own_tops<kernels::logprob_row> cpu_known(known);
    kernels::sample(ctx_, view, cpu_drawn.rows(), want);
    kernels::token_logprobs(ctx_, view, cpu_known.rows(), want_known);

    cuda::device_memory on_device(logits.size() * sizeof(float));
    on_.copy_to_device(on_device.data(), logits.data(), on_device.size());
    std::vector<sampled_token> got(drawn.size());
    std::vector<sampled_token> got_known(known.size());
    const test::rows_with_own_tops<kernels::sampling_row> gpu_drawn(drawn);
    const test::rows_with_own_tops<kernels::logprob_row> gpu_known(known);
    const std::vector<std::uint32_t> numbers(rows);
    sampler.sample(on_, on_device.as<float>(), vocab,
                   {numbers, gpu_drawn.rows(), got, gpu_known.rows(), got_known});
    expect_same(got, want);
    expect_same(got_known, want_known);
    expect_same_tops(gpu_drawn.rows(), cpu_drawn.rows());
    expect_same_tops(gpu_known.rows(), cpu_known.rows());
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
      known.push_back(
          {.logits_row = i, .token = static_cast<std::uint32_t>(i * 97 % vocab), .num_logprobs = 3 * i});
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
  // 5 tokens are not 60 % of a nearly flat row.
  const auto flat = kernels::random_floats(rows * vocab, 4, 0.5F);
  std::erase_if(wanted, [](const kernels::sampling_row& row) { return row.params.top_k != 0; });
  cuda_sampler short_sighted(ctx_, 5);
  compare(short_sighted, flat, rows, wanted);
  EXPECT_EQ(short_sighted.num_whole_rows(), 1U) << "the one with top-p, once for all its draws";
}

TEST_F(cuda_sampler_test, rows_of_equals_and_sick_rows_are_as_on_the_cpu) {
  constexpr std::size_t rows = 6;
  constexpr std::size_t vocab = 1500;
  std::vector<float> logits(rows * vocab, 0.25F); // more equals than there is room for
  // NaN whose bits are the largest number: all of a row, and a few of one whose other logits differ.
  const auto nan = std::bit_cast<float>(0x7fffffffU);
  std::fill_n(logits.begin() + 3 * vocab, vocab, nan);
  const auto others = kernels::random_floats(2 * vocab, 8, 3.0F);
  std::copy(others.begin(), others.end(), logits.begin() + 4 * vocab);
  logits[4 * vocab] = logits[4 * vocab + 800] = logits[5 * vocab - 1] = nan;
  logits[vocab + 700] = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t i = 0; i < vocab; ++i)
    logits[2 * vocab + i] = i % 2 == 0 ? 0.0F : -0.0F;
  std::vector<kernels::logprob_row> known;
  for (std::uint32_t i = 0; i < rows; ++i)
    known.push_back({.logits_row = i, .token = 700, .num_logprobs = 5});
  cuda_sampler sampler(ctx_, 10);
  compare(sampler, logits, rows, test::sampling_requests(60, rows, vocab, 4).rows(), known);
}

} // namespace
} // namespace troupe::model
