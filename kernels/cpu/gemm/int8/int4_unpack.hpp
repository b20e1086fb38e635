// Unpacks int4 weights with group scales to bytes. Included only by kernels of AVX-512 and AMX.
#pragma once

#include "kernels/cpu/gemm/int8/rows.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// The scales of a group's 16 columns, prepared for multiplying two bytes at a time. With u < 16 and |g| <
/// 16, u · |g| stays below 256, so a 16-bit product of two bytes with |g| holds both results. Then (u − 8) ·
/// g is u · |g| − 8 |g|, or (u ^ 15) · |g| − 7 |g| if g < 0.
struct group_multiplier {
  __m512i magnitude; // |g| in every 16 bits
  __m512i raised;    // 4096 |g|
  __m512i sign;      // all ones where g < 0
  __m512i offset;    // −8 |g| or −7 |g| in every byte, plus `added`

  /// @param added  to every product: 128 makes them unsigned
  explicit group_multiplier(const std::byte* scales, int added = 0) {
    // Each of the 16 bytes four times.
    const __m512i four_times = _mm512_set_epi32(
        0x0f0f0f0f, 0x0e0e0e0e, 0x0d0d0d0d, 0x0c0c0c0c, 0x0b0b0b0b, 0x0a0a0a0a, 0x09090909, 0x08080808,
        0x07070707, 0x06060606, 0x05050505, 0x04040404, 0x03030303, 0x02020202, 0x01010101, 0x00000000);
    const __m512i g = _mm512_shuffle_epi8(
        _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales))), four_times);
    const __m512i absolute = _mm512_abs_epi8(g);
    magnitude = _mm512_and_si512(absolute, _mm512_set1_epi16(0x00ff));
    raised = _mm512_slli_epi16(absolute, 12);
    sign = _mm512_srai_epi16(g, 15);
    // 8 |g| stays below 128: no carry into the next byte.
    offset = _mm512_sub_epi8(_mm512_and_si512(absolute, sign), _mm512_slli_epi16(absolute, 3));
    offset = _mm512_add_epi8(offset, _mm512_set1_epi8(static_cast<char>(added)));
  }

  /// The lower halves of `bytes` times g, minus the offset that makes them signed.
  inline __attribute__((always_inline)) __m512i low(__m512i bytes) const {
    return _mm512_add_epi8(_mm512_mullo_epi16(half_bytes(bytes, 0x0f), magnitude), offset);
  }

  /// The upper halves, which need no shift: 16 u · (4096 |g|) ends 16 bits higher.
  inline __attribute__((always_inline)) __m512i high(__m512i bytes) const {
    return _mm512_add_epi8(_mm512_mulhi_epu16(half_bytes(bytes, 0xf0), raised), offset);
  }

 private:
  inline __attribute__((always_inline)) __m512i half_bytes(__m512i bytes, int mask) const {
    return _mm512_ternarylogic_epi32(bytes, sign, _mm512_set1_epi8(static_cast<char>(mask)),
                                     0x28); // (a ^ b) & c
  }
};

/// A block of 32 of K of an int4 panel as bytes, in the order of int8's panels: q · g + `Added`, where g is 1
/// without groups. Calls `at_line(from)` before reading each line of 64 bytes.
/// @returns the address after the block
template <int Added, class AtLine>
TROUPE_INLINE const std::byte* unpack_int4_block(const quant_panel& panel, std::size_t b, std::byte* out,
                                                 const AtLine& at_line) {
  const std::byte* from = panel.int4_block(b);
  if (!panel.has_groups()) {
    const __m512i offset = _mm512_set1_epi8(Added - 8);
#pragma GCC unroll 4
    for (std::size_t line = 0; line < int4_block_bytes; line += 64, from += 64, out += 128) {
      at_line(from);
      const __m512i bytes = _mm512_loadu_si512(from);
      _mm512_store_si512(out, _mm512_add_epi8(low_half_bytes(bytes), offset));
      _mm512_store_si512(out + 64, _mm512_add_epi8(high_half_bytes(bytes), offset));
    }
    return from;
  }
  const group_multiplier g(panel.group_scales_of(b), Added);
#pragma GCC unroll 4
  for (std::size_t line = 0; line < int4_block_bytes; line += 64, from += 64, out += 128) {
    at_line(from);
    const __m512i bytes = _mm512_loadu_si512(from);
    _mm512_store_si512(out, g.low(bytes));
    _mm512_store_si512(out + 64, g.high(bytes));
  }
  return from;
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
