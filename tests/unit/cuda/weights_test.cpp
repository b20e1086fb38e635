#include "kernels/cuda/weights.hpp"

#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/dequantize.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels::cuda {

namespace {

std::vector<std::int8_t> random_integers(std::size_t count, int least, int most) {
  std::mt19937 engine(7);
  std::uniform_int_distribution<int> distribution(least, most);
  std::vector<std::int8_t> values(count);
  for (auto& value : values)
    value = static_cast<std::int8_t>(distribution(engine));
  return values;
}

std::uint32_t word_at(const std::vector<std::byte>& bytes, std::size_t index) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + index * sizeof word, sizeof word);
  return word;
}

float half_of(std::uint32_t pair, unsigned index) {
  return index % 2 == 0 ? lower_float(pair) : upper_float(pair);
}

} // namespace

TEST(cuda_weights, each_int8_lies_in_the_word_of_its_step_and_channel) {
  const weight_shape shape{weight_format::int8, 21, 136};
  const auto integers = random_integers(shape.outputs * shape.inputs, -127, 127);
  std::vector<std::byte> bytes(shape.weight_bytes());
  pack_int8(shape, integers, bytes);
  for (std::size_t output = 0; output < shape.strips() * strip_channels; ++output)
    for (std::size_t input = 0; input < shape.chunks() * chunk_inputs; ++input) {
      const weight_place at = place_of(output, input);
      const std::size_t block = at.strip * shape.chunks() + at.chunk;
      const std::size_t word = ((block * 2 + at.half) * 32 + at.lane) * 4 + at.index / 4 * 2 + at.upper;
      const bool inside = output < shape.outputs && input < shape.inputs;
      EXPECT_EQ(half_of(int8_pair(word_at(bytes, word), pair_of(at.index)), at.index),
                inside ? static_cast<float>(integers[output * shape.inputs + input]) : 0.0F)
          << output << ", " << input;
    }
}

TEST(cuda_weights, each_int4_lies_in_the_word_of_its_step_and_meets_its_group_scale) {
  for (const std::size_t group : {0U, 32U, 64U}) {
    const weight_shape shape{weight_format::int4, 35, 72};
    const std::size_t groups = group == 0 ? 0 : (shape.inputs + group - 1) / group;
    const auto integers = random_integers(shape.outputs * shape.inputs, -8, 7);
    const auto scales = random_integers(shape.outputs * groups, -15, 15);
    std::vector<std::byte> bytes(shape.weight_bytes());
    std::vector<std::uint32_t> words(shape.group_scale_words());
    pack_int4(shape, integers, group, scales, bytes, words);
    for (std::size_t output = 0; output < shape.outputs; ++output)
      for (std::size_t input = 0; input < shape.inputs; ++input) {
        const weight_place at = place_of(output, input);
        const std::size_t block = at.strip * shape.chunks() + at.chunk;
        const std::uint32_t pair = int8_pair(words[block * 8 + at.lane / 4], at.half);
        const int4_scale scale = int4_scale_of(at.upper == 0 ? both_lower(pair) : both_upper(pair));
        const std::uint32_t word = word_at(bytes, (block * 32 + at.lane) * 4 + step_of(at.half, at.index));
        const int g = group == 0 ? 1 : scales[output * groups + input / group];
        EXPECT_EQ(half_of(int4_pair(word, 2 * at.upper + pair_of(at.index), scale), at.index),
                  static_cast<float>(integers[output * shape.inputs + input] * g))
            << output << ", " << input;
      }
  }
}

TEST(cuda_weights, sizes_that_do_not_fit_are_refused) {
  const weight_shape shape{weight_format::int8, 16, 64};
  const std::vector<std::int8_t> integers(16 * 64);
  std::vector<std::byte> bytes(shape.weight_bytes());
  EXPECT_NO_THROW(pack_int8(shape, integers, bytes));
  EXPECT_THROW(pack_int8(shape, std::span(integers).first(1), bytes), kernel_error);
  EXPECT_THROW(pack_int8(shape, integers, std::span(bytes).first(1)), kernel_error);
  EXPECT_THROW(pack_int8({weight_format::int4, 16, 64}, integers, bytes), kernel_error);
  EXPECT_THROW(pack_int8({weight_format::int8, 16, 63}, integers, bytes), kernel_error);
  EXPECT_THROW(pack_int4({weight_format::int4, 16, 64}, integers, 16, {}, std::span(bytes).first(512), {}),
               kernel_error);
}

} // namespace troupe::kernels::cuda
