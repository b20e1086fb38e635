// Integer products of int8 rows with quantized weights on AMX. Included by amx_kernels.cpp only.
#pragma once

#include "kernels/cpu/amx_tiles.hpp"
#include "kernels/cpu/quant_integer_kernels.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

constexpr std::size_t int8_tile_k = 64;

/// 64 of K of an int4 panel as the int8 panel of the same integers, q · g: 1 KiB.
TROUPE_INLINE void unpack_int4_tile(const quant_panel& panel, std::size_t k, std::byte* out) {
  const std::byte* from = panel.weights + k / block_k * int4_block_bytes;
  const __m512i eight = _mm512_set1_epi8(8);
  for (std::size_t block = 0; block < int8_tile_k / block_k; ++block) {
    const std::size_t b = k / block_k + block;
    const __m512i g = panel.group_scales == nullptr
                          ? _mm512_set1_epi16(1)
                          : load_int8_int(panel.group_scales + b / panel.group_blocks * 16);
    // The scale in both halves of a lane; products of a byte fit one, so bytes are multiplied as 16-bit
    // numbers, even and odd ones apart.
    const __m512i scale = _mm512_mask_blend_epi16(0xaaaaaaaau, g, _mm512_slli_epi32(g, 16));
    const auto scaled = [&](__m512i half_bytes) {
      const __m512i q = _mm512_sub_epi8(half_bytes, eight);
      const __m512i even = _mm512_mullo_epi16(_mm512_srai_epi16(_mm512_slli_epi16(q, 8), 8), scale);
      const __m512i odd = _mm512_mullo_epi16(_mm512_srai_epi16(q, 8), scale);
      return _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaau, even, _mm512_slli_epi16(odd, 8));
    };
    for (std::size_t i = 0; i < block_k; i += 8, from += 64, out += 128) {
      const __m512i bytes = _mm512_loadu_si512(from);
      _mm512_storeu_si512(out, scaled(low_half_bytes(bytes)));
      _mm512_storeu_si512(out + 64, scaled(high_half_bytes(bytes)));
    }
  }
}

/// c = sums of up to 32 rows with one panel, all of K, in tiles 0 and 1.
static void amx_integer(const std::byte* a, std::size_t a_stride, std::size_t rows, const quant_panel& panel,
                        std::size_t k, float* c) {
  // The smaller integers come unpacked, once for all rows, a piece of K at a time.
  constexpr std::size_t piece_k = 1024;
  alignas(64) std::byte unpacked[piece_k * 16];
  alignas(64) std::int32_t sums[16 * 16];
  const bool int8 = panel.format == packed_format::int8_channel;
  const std::size_t padded = int8_row_sums(k);
  // Sums of one piece of K wait in `c`, as integers.
  for (std::size_t begin = 0; begin < padded; begin += piece_k) {
    const std::size_t end = smaller(begin + piece_k, padded);
    const std::byte* weights = panel.weights + begin * 16;
    if (!int8) {
      for (std::size_t i = begin; i < end; i += int8_tile_k)
        unpack_int4_tile(panel, i, unpacked + (i - begin) * 16);
      weights = unpacked;
    }
    for (std::size_t row = 0; row < rows; row += tile_rows) {
      const std::size_t count = smaller(tile_rows, rows - row);
      const tile_session session(count);
      const std::byte* x = a + row * a_stride;
      auto* to = reinterpret_cast<std::int32_t*>(c) + row * 16;
      if (begin == 0)
        _tile_zero(0);
      else
        _tile_loadd(0, to, 64);
      _tile_zero(1);
      for (std::size_t i = begin; i < end; i += 2 * int8_tile_k) {
        _tile_loadd(4, x + i, a_stride);
        _tile_loadd(6, weights + (i - begin) * 16, 64);
        _tile_dpbssd(0, 4, 6);
        if (i + int8_tile_k < end) {
          _tile_loadd(5, x + i + int8_tile_k, a_stride);
          _tile_loadd(7, weights + (i + int8_tile_k - begin) * 16, 64);
          _tile_dpbssd(1, 5, 7);
        }
      }
      _tile_stored(0, to, 64);
      _tile_stored(1, sums, 64);
      finish_stores();
      for (std::size_t r = 0; r < count; ++r)
        _mm512_storeu_si512(
            to + r * 16, _mm512_add_epi32(_mm512_loadu_si512(to + r * 16), _mm512_load_si512(sums + r * 16)));
    }
  }
  for (std::size_t r = 0; r < rows; ++r)
    store_integer_result(c + r * 16, _mm512_loadu_si512(c + r * 16), a + r * a_stride, k, panel.scales);
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
