#include "kernels/cuda/dequantize.hpp"

#include <gtest/gtest.h>

namespace troupe::kernels::cuda {

TEST(dequantize, every_int8_comes_back_exactly_in_every_place) {
  for (int q = -128; q < 128; ++q) {
    const int other = -1 - q; // all bits different
    const std::uint32_t words[4] = {int8_word(q, other, other, other), int8_word(other, q, other, other),
                                    int8_word(other, other, q, other), int8_word(other, other, other, q)};
    for (unsigned place = 0; place < 4; ++place)
      for (unsigned k = 0; k < 4; ++k) {
        const std::uint32_t pair = int8_pair(words[place], k / 2);
        EXPECT_EQ(k % 2 == 0 ? lower_float(pair) : upper_float(pair),
                  static_cast<float>(k == place ? q : other));
      }
  }
}

TEST(dequantize, every_int8_in_order_comes_back_exactly) {
  for (int q = -128; q < 128; ++q)
    for (unsigned place = 0; place < 4; ++place) {
      int numbers[4] = {-128, -1, 0, 127};
      numbers[place] = q;
      std::uint32_t word = 0;
      for (unsigned k = 0; k < 4; ++k)
        word |= (static_cast<std::uint32_t>(numbers[k]) & 0xffU) << (8 * k);
      const bits64 got = int8_in_order(word);
      for (unsigned k = 0; k < 4; ++k)
        EXPECT_EQ(k % 2 == 0 ? lower_float(got.word[k / 2]) : upper_float(got.word[k / 2]),
                  static_cast<float>(numbers[k]));
    }
}

TEST(dequantize, every_int4_times_every_group_scale_is_exact) {
  for (int g = -15; g <= 15; ++g) {
    const std::uint32_t factor = bf16_pair(static_cast<float>(g), static_cast<float>(g));
    const int4_scale scale = int4_scale_of(factor);
    EXPECT_EQ(lower_float(scale.offset), static_cast<float>(-136 * g));
    EXPECT_EQ(upper_float(scale.offset), static_cast<float>(-136 * g));
    for (int q = -8; q < 8; ++q) {
      const int values[8] = {q, -1 - q, 7, -8, 0, q, -1 - q, 1};
      const std::uint32_t word = int4_word(values);
      for (unsigned p = 0; p < 4; ++p) {
        const std::uint32_t pair = int4_pair(word, p, scale);
        EXPECT_EQ(lower_float(pair), static_cast<float>(values[2 * p] * g));
        EXPECT_EQ(upper_float(pair), static_cast<float>(values[2 * p + 1] * g));
      }
    }
  }
}

TEST(dequantize, int4_words_are_in_the_papers_order) {
  const int values[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(int4_word(values), 0xFDB9'ECA8U); // from the low half byte: 0, 2, 4, 6, 1, 3, 5, 7, each + 8
}

TEST(bits, halves_are_told_apart) {
  const std::uint32_t pair = bf16_pair(1.0F, -2.0F);
  EXPECT_EQ(lower_float(pair), 1.0F);
  EXPECT_EQ(upper_float(pair), -2.0F);
  EXPECT_EQ(both_lower(pair), bf16_pair(1.0F, 1.0F));
  EXPECT_EQ(both_upper(pair), bf16_pair(-2.0F, -2.0F));
  EXPECT_EQ(round_bf16(1.00390625F), to_bfloat16(1.00390625F)); // half way: to even
}

} // namespace troupe::kernels::cuda
