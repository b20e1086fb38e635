#include "kernels/coded_bf16.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace troupe::kernels {

namespace {

constexpr std::size_t columns = 16;
constexpr std::size_t block_k = 32;
constexpr std::size_t group_k = 8;
constexpr std::size_t line_bytes = 64;
constexpr std::size_t num_codes = 16;
constexpr std::uint32_t no_code = num_codes;

// Of k % 4: where a lane of signs and mantissas has them.
constexpr std::array<unsigned, 4> sign_at{31, 23, 15, 7};
constexpr std::array<unsigned, 4> mantissa_at{16, 8, 0, 24};

// Of k % 8: where a lane of codes has it. The upper word has k = 0, 1, 4, 5.
constexpr std::array<unsigned, group_k> code_at{16, 20, 0, 4, 24, 28, 8, 12};

std::uint32_t exponent_of(bfloat16 value) {
  return value.bits >> 7 & 0xffU;
}

std::uint32_t lane_of(const std::byte* line, std::size_t column) {
  std::uint32_t lane = 0;
  std::memcpy(&lane, line + column * 4, sizeof lane);
  return lane;
}

bfloat16 pair_value(const bfloat16* pairs, std::size_t k, std::size_t column) {
  return pairs[(k / 2 * columns + column) * 2 + k % 2];
}

/// The most frequent exponents, in order; among equally frequent ones the larger.
std::array<std::uint8_t, num_codes> frequent_exponents(const bfloat16* pairs, std::size_t count) {
  std::array<std::uint32_t, 256> frequency{};
  for (std::size_t i = 0; i < count; ++i)
    ++frequency[exponent_of(pairs[i])];
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

/// Eight of K of one column. Codes of exceptions are 0.
struct coded_lanes {
  std::uint32_t codes = 0;
  std::array<std::uint32_t, 2> rest{}; // of the first and of the last four

  void add(std::size_t k, bfloat16 value, std::uint32_t code) {
    codes |= code << code_at[k];
    rest[k / 4] |= static_cast<std::uint32_t>(value.bits >> 15) << sign_at[k % 4]
                   | static_cast<std::uint32_t>(value.bits & 0x7fU) << mantissa_at[k % 4];
  }
};

} // namespace

bool code_panel(const bfloat16* pairs, std::size_t blocks, std::byte* out) {
  const std::size_t k_count = blocks * block_k;
  if (blocks >= block_of(no_exception))
    return false;
  const auto exponents = frequent_exponents(pairs, k_count * columns);
  std::array<std::uint32_t, 256> code_of{};
  code_of.fill(no_code);
  auto* table = reinterpret_cast<std::uint16_t*>(out);
  for (std::uint32_t i = 0; i < num_codes; ++i) {
    code_of[exponents[i]] = i;
    table[i] = table[num_codes + i] = static_cast<std::uint16_t>(exponents[i] << 7);
  }
  auto* exception = reinterpret_cast<std::uint32_t*>(out + exponent_table_bytes);
  auto* const exceptions_end = exception + exceptions_bytes(blocks) / sizeof *exception;
  std::fill(exception, exceptions_end, no_exception);
  std::byte* group = out + coded_header_bytes(blocks);
  for (std::size_t first = 0; first < k_count; first += group_k, group += coded_group_bytes) {
    std::array<coded_lanes, columns> lanes{};
    for (std::size_t k = 0; k < group_k; ++k)
      for (std::size_t column = 0; column < columns; ++column) {
        const bfloat16 value = pair_value(pairs, first + k, column);
        const std::uint32_t code = code_of[exponent_of(value)];
        lanes[column].add(k, value, code % num_codes);
        if (code != no_code)
          continue;
        if (exception + 1 == exceptions_end)
          return false;
        *exception++ = static_cast<std::uint32_t>((first + k) * columns + column) << 8 | exponent_of(value);
      }
    for (std::size_t column = 0; column < columns; ++column) {
      std::memcpy(group + column * 4, &lanes[column].codes, 4);
      std::memcpy(group + line_bytes + column * 4, &lanes[column].rest[0], 4);
      std::memcpy(group + 2 * line_bytes + column * 4, &lanes[column].rest[1], 4);
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
  const std::size_t position = k * columns + column;
  const std::uint32_t* exception = exceptions_from(panel, k / block_k);
  while (*exception >> 8 < position)
    ++exception;
  if (*exception >> 8 == position)
    exponent = *exception & 0xffU;
  return {static_cast<std::uint16_t>((rest >> sign_at[k % 4] & 1U) << 15 | exponent << 7
                                     | (rest >> mantissa_at[k % 4] & 0x7fU))};
}

} // namespace troupe::kernels
