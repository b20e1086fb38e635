// Products so large that their rows are cut into several tiles, the last one with few rows: a matrix unit
// treats that tile differently.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/gemm.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

struct cut_weights {
  packed_format format;
  row_quant rows;

  packed_matrix pack(const_tensor_view weights) const {
    const bool coded = format == packed_format::bf16_coded;
    return finished(packed_matrix::pack(coded ? packed_format::bf16_pair : format, weights));
  }

  packed_matrix pack_gate_up(const_tensor_view gate, const_tensor_view up) const {
    const bool coded = format == packed_format::bf16_coded;
    return finished(packed_matrix::pack_gate_up(coded ? packed_format::bf16_pair : format, gate, up));
  }

 private:
  packed_matrix finished(packed_matrix packed) const {
    if (format == packed_format::bf16_coded)
      packed = packed_matrix::code(packed).value();
    packed.set_rows(rows);
    return packed;
  }
};

inline constexpr cut_weights all_cut_weights[] = {
    {packed_format::bf16_pair, row_quant::none},    {packed_format::bf16_coded, row_quant::none},
    {packed_format::int8_channel, row_quant::none}, {packed_format::int8_channel, row_quant::int8},
    {packed_format::int4_group32, row_quant::none}, {packed_format::int4_group32, row_quant::int8},
};

/// Rows together give the bits that each gives alone. Every number of rows has its own context, whose scratch
/// has only the needed size: sanitizers detect writes beyond it.
inline void expect_rows_as_alone_in_gemm(const kernel_table& table) {
  constexpr std::size_t k = 4096; // a matrix unit's tiles have 64 (BF16) or 96 (int8) rows
  constexpr std::size_t n = 256;
  constexpr std::size_t most = 209;
  thread_pool pool({.threads = 1});
  const auto x = rounded(random_floats(most * k, 1));
  const auto w = rounded(random_floats(n * k, 2, 0.1F));
  for (const cut_weights& kind : all_cut_weights) {
    const packed_matrix weight = kind.pack(view_of(w.data(), n, k));
    std::vector<float> alone(most * n, poison);
    context one(pool, table);
    for (std::size_t r = 0; r < most; ++r)
      gemm(one, {.input = view_of(x.data() + r * k, 1, k),
                 .weight = &weight,
                 .output = view_of(alone.data() + r * n, 1, n)});
    for (const std::size_t rows : {84UL, 193UL, most}) {
      context together(pool, table);
      std::vector<float> y(rows * n, poison);
      gemm(together,
           {.input = view_of(x.data(), rows, k), .weight = &weight, .output = view_of(y.data(), rows, n)});
      for (std::size_t r = 0; r < rows; ++r)
        ASSERT_TRUE(same_bits(std::span<const float>(y).subspan(r * n, n),
                              std::span<const float>(alone).subspan(r * n, n)))
            << name_of(table.set) << ", format " << static_cast<int>(kind.format) << ", rows in "
            << (kind.rows == row_quant::int8 ? "int8" : "BF16") << ", row " << r << " of " << rows;
    }
  }
}

/// The same for experts, whose second product has a longer K.
inline void expect_rows_as_alone_in_expert_ffn(const kernel_table& table) {
  constexpr std::size_t hidden = 256;
  constexpr std::size_t ffn = 5504; // a matrix unit's tiles of the second product have 64 rows
  constexpr std::size_t most = 84;
  thread_pool pool({.threads = 1});
  const auto x = rounded(random_floats(most * hidden, 3));
  const auto gate = rounded(random_floats(ffn * hidden, 4, 0.1F));
  const auto up = rounded(random_floats(ffn * hidden, 5, 0.1F));
  const auto down = rounded(random_floats(hidden * ffn, 6, 0.1F));
  for (const cut_weights& kind : all_cut_weights) {
    if (is_quantized(kind.format) && kind.rows == row_quant::none)
      continue; // nothing that gemm does not have
    expert_weights weights;
    weights.gate_up = kind.pack_gate_up(view_of(gate.data(), ffn, hidden), view_of(up.data(), ffn, hidden));
    weights.down = kind.pack(view_of(down.data(), hidden, ffn));
    const auto run = [&](context& ctx, std::size_t first, std::size_t rows, std::vector<bfloat16>& y) {
      std::vector<const std::byte*> from;
      std::vector<std::byte*> to;
      for (std::size_t r = 0; r < rows; ++r) {
        from.push_back(reinterpret_cast<const std::byte*>(x.data() + (first + r) * hidden));
        to.push_back(reinterpret_cast<std::byte*>(y.data() + (first + r) * hidden));
      }
      const expert_segment segment{&weights, from, to};
      expert_ffn(ctx, {{&segment, 1}, dtype::bf16});
    };
    std::vector<bfloat16> alone(most * hidden);
    context one(pool, table);
    for (std::size_t r = 0; r < most; ++r)
      run(one, r, 1, alone);
    for (const std::size_t rows : {65UL, most}) {
      context together(pool, table);
      std::vector<bfloat16> y(most * hidden);
      run(together, 0, rows, y);
      for (std::size_t r = 0; r < rows; ++r)
        ASSERT_TRUE(same_bits(std::span<const bfloat16>(y).subspan(r * hidden, hidden),
                              std::span<const bfloat16>(alone).subspan(r * hidden, hidden)))
            << name_of(table.set) << ", format " << static_cast<int>(kind.format) << ", rows in "
            << (kind.rows == row_quant::int8 ? "int8" : "BF16") << ", row " << r << " of " << rows;
    }
  }
}

} // namespace troupe::kernels
