// Rows in tiles of 16 × 32 (`row_layout::bf16_tiles`). Included only by the kernels that use them.
#pragma once

#include "kernels/cpu/simd/v16.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

constexpr std::size_t tile_rows = 16;
constexpr std::size_t tile_bytes = 1024;

TROUPE_FLAT void pack_row_tiles(const std::byte* row, dtype type, std::size_t k, std::byte* out) {
  constexpr std::size_t tile_k = 32;
  for (std::size_t i = 0; i < k; i += tile_k, out += tile_bytes) {
    const std::size_t count = smaller(tile_k, k - i);
    auto* to = reinterpret_cast<bfloat16*>(out);
    if (type == dtype::bf16) {
      const auto* from = reinterpret_cast<const bfloat16*>(row) + i;
      if (count == tile_k) {
        _mm512_storeu_si512(to, _mm512_loadu_si512(from));
        continue;
      }
      std::memcpy(to, from, count * sizeof(bfloat16));
    } else {
      const auto* from = reinterpret_cast<const float*>(row) + i;
      for_each_16(count,
                  [&](std::size_t j, std::size_t n) { store_some(to + j, n, load_some(from + j, n)); });
    }
    for (std::size_t j = count; j < tile_k; ++j)
      to[j] = {};
  }
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
