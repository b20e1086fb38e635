#include "kernels/coded_bf16.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/packed_matrix.hpp"

namespace troupe::kernels {

namespace {

constexpr std::size_t code_columns = 16;
constexpr std::size_t group_k = 8;
constexpr std::size_t line_bytes = 64;
constexpr std::uint32_t num_codes = 16;
constexpr std::uint8_t no_code = num_codes;

// Place of k % 4 in a lane of signs and mantissas.
constexpr std::array<unsigned, 4> sign_at{31, 23, 15, 7};
constexpr std::array<unsigned, 4> mantissa_at{16, 8, 0, 24};

// Place of k % 8 in a lane of codes. The upper word has k = 0, 1, 4, 5.
constexpr std::array<unsigned, group_k> code_at{16, 20, 0, 4, 24, 28, 8, 12};

std::uint32_t exponent_of(bfloat16 value) {
  return value.bits >> 7 & 0xffU;
}

std::uint32_t lane_of(const std::byte* line, std::size_t column) {
  std::uint32_t lane = 0;
  std::memcpy(&lane, line + column * 4, sizeof lane);
  return lane;
}

/// The most frequent exponents, in order; among equally frequent ones the larger.
std::array<std::uint8_t, num_codes> frequent_exponents(const bfloat16* pairs, std::size_t count) {
  // Four sets of counters: a counter that was just stored takes a while to be loaded again.
  std::array<std::array<std::uint32_t, 4>, 256> counts{};
  for (std::size_t i = 0; i < count; ++i)
    ++counts[exponent_of(pairs[i])][i % 4];
  std::array<std::uint32_t, 256> frequency{};
  for (std::size_t e = 0; e < frequency.size(); ++e)
    frequency[e] = counts[e][0] + counts[e][1] + counts[e][2] + counts[e][3];
  std::array<std::uint8_t, 256> exponents{};
  for (std::size_t i = 0; i < exponents.size(); ++i)
    exponents[i] = static_cast<std::uint8_t>(i);
  std::partial_sort(exponents.begin(), exponents.begin() + num_codes, exponents.end(),
                    [&](std::uint8_t a, std::uint8_t b) {
                      return frequency[a] != frequency[b] ? frequency[a] > frequency[b] : a > b;
                    });
  std::array<std::uint8_t, num_codes> result{};
  std::copy_n(exponents.begin(), num_codes, result.begin());
  std::sort(result.begin(), result.end());
  return result;
}

constexpr std::uint32_t signs_and_mantissas = 0x807f807f;

/// Signs and mantissas of four k of one column, whose pairs are (k, k + 1) and (k + 2, k + 3).
std::uint32_t rest_of(std::uint32_t first, std::uint32_t second) {
  const std::uint32_t even = (first << 16 | (second & 0xffffU)) & signs_and_mantissas;
  const std::uint32_t odd = ((first & 0xffff0000U) | second >> 16) & signs_and_mantissas;
  return even | std::rotr(odd, 8);
}

} // namespace

bool code_panel(const bfloat16* pairs, std::size_t blocks, std::byte* out) {
  if (blocks >= block_of(no_exception))
    return false;
  const std::size_t k_count = blocks * block_k;
  const auto exponents = frequent_exponents(pairs, k_count * code_columns);
  std::array<std::uint8_t, 256> code_of{};
  code_of.fill(no_code);
  auto* table = reinterpret_cast<std::uint16_t*>(out);
  for (std::uint8_t i = 0; i < num_codes; ++i) {
    code_of[exponents[i]] = i;
    table[i] = table[num_codes + i] = static_cast<std::uint16_t>(exponents[i] << 7);
  }
  auto* exception = reinterpret_cast<std::uint32_t*>(out + exponent_table_bytes);
  auto* const last = exception + exceptions_bytes(blocks) / sizeof *exception - 1;
  std::fill(exception, last + 1, no_exception);
  auto* lines = reinterpret_cast<std::uint32_t*>(out + coded_header_bytes(blocks));
  const auto* lanes = reinterpret_cast<const std::byte*>(pairs);
  for (std::size_t k = 0; k < k_count; k += group_k, lines += 3 * code_columns, lanes += 4 * line_bytes) {
    std::uint32_t all_codes = 0;
    for (std::size_t column = 0; column < code_columns; ++column) {
      const std::array<std::uint32_t, 4> of_two{lane_of(lanes, column), lane_of(lanes + line_bytes, column),
                                                lane_of(lanes + 2 * line_bytes, column),
                                                lane_of(lanes + 3 * line_bytes, column)};
      std::uint32_t codes = 0;
      for (std::size_t i = 0; i < group_k; ++i) {
        const std::uint32_t code = code_of[of_two[i / 2] >> (i % 2 * 16 + 7) & 0xffU];
        all_codes |= code;
        codes |= code % num_codes << code_at[i]; // an exception's is 0
      }
      lines[column] = codes;
      lines[code_columns + column] = rest_of(of_two[0], of_two[1]);
      lines[2 * code_columns + column] = rest_of(of_two[2], of_two[3]);
    }
    if (all_codes < no_code)
      continue;
    for (std::size_t i = 0; i < group_k; ++i)
      for (std::size_t column = 0; column < code_columns; ++column) {
        const std::uint32_t exponent = exponent_of(pairs[((k + i) / 2 * code_columns + column) * 2 + i % 2]);
        if (code_of[exponent] != no_code)
          continue;
        if (exception == last)
          return false;
        *exception++ = static_cast<std::uint32_t>((k + i) * code_columns + column) << 8 | exponent;
      }
  }
  return true;
}

bool has_valid_exceptions(const std::byte* panel, std::size_t blocks) {
  const auto* exceptions = reinterpret_cast<const std::uint32_t*>(panel + exponent_table_bytes);
  const std::size_t count = exceptions_bytes(blocks) / sizeof *exceptions;
  std::size_t i = 0;
  for (; i < count && exceptions[i] != no_exception; ++i)
    if (block_of(exceptions[i]) >= blocks || (i > 0 && exceptions[i] >> 8 <= exceptions[i - 1] >> 8))
      return false;
  return i < count && std::all_of(exceptions + i, exceptions + count, [](std::uint32_t exception) {
           return exception == no_exception;
         });
}

bfloat16 decoded(const std::byte* panel, std::size_t blocks, std::size_t k, std::size_t column) {
  const std::byte* group = panel + coded_header_bytes(blocks) + k / group_k * coded_group_bytes;
  const std::uint32_t rest = lane_of(group + line_bytes * (1 + k % group_k / 4), column);
  const std::uint32_t code = lane_of(group, column) >> code_at[k % group_k] & 0xfU;
  auto exponent = static_cast<std::uint32_t>(reinterpret_cast<const std::uint16_t*>(panel)[code]) >> 7;
  const std::size_t position = k * code_columns + column;
  const std::uint32_t* exception = exceptions_from(panel, k / block_k);
  while (*exception >> 8 < position)
    ++exception;
  if (*exception >> 8 == position)
    exponent = *exception & 0xffU;
  return {static_cast<std::uint16_t>((rest >> sign_at[k % 4] & 1U) << 15 | exponent << 7
                                     | (rest >> mantissa_at[k % 4] & 0x7fU))};
}

} // namespace troupe::kernels
