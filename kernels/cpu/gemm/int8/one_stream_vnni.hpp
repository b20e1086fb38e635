// Few int8 rows, and one int4 row, on AVX-512's dot products of bytes, for AMD's processors, where a single
// stream is the fastest way to read. Included only by avx512_bf16_kernels.cpp.
#pragma once

#include "kernels/cpu/gemm/int8/streams_vnni.hpp"
#include "kernels/cpu/simd/row_blocks.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// One panel after the other as a single stream, which the processor prefetches. For one row, which waits for
/// little else, lines `BytesAhead` are prefetched explicitly, only into L2.
template <std::size_t BytesAhead>
struct stream_fetcher {
  const std::byte* first;

  inline __attribute__((always_inline)) const std::byte* operator()(std::size_t /*panel*/,
                                                                    std::size_t offset) const {
    return first + offset + BytesAhead;
  }

  template <std::size_t StepBytes>
  static inline __attribute__((always_inline)) void fetch_line(const std::byte* far,
                                                               const std::byte* /*from*/) {
    if constexpr (BytesAhead != 0)
      _mm_prefetch(reinterpret_cast<const char*>(far), _MM_HINT_T1);
  }

  template <std::size_t StepBytes>
  static void fetch_behind(const std::byte* /*from*/) {}
};

template <std::size_t Rows>
TROUPE_VNNI static void vnni_int8_stream(const std::byte* a, std::size_t a_stride, const quant_panel& first,
                                         std::size_t panels, std::size_t k, float* c) {
  using fetcher = stream_fetcher<Rows == 1 ? 4096 : 0>;
  for (std::size_t p = 0; p < panels; ++p) {
    const quant_panel panel = first.next(p);
    vnni_block<Rows, 1>(a, a_stride, panel, fetcher{panel.weights}, k, c + p * Rows * 16, 0);
  }
}

constexpr std::size_t int8_stream_rows = 5; // at most

/// A row and an int4 panel. Sums of lower and upper half bytes are separate: with a single row, dot products
/// would wait for one another.
TROUPE_VNNI static void vnni_int4_row(const std::byte* a, const quant_panel& panel, std::size_t k, float* c) {
  __m512i sum = _mm512_setzero_si512();
  const std::size_t blocks = (k + block_k - 1) / block_k;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::byte* from = panel.int4_block(b);
    const std::byte* x = a + b * block_k;
    __m512i low = _mm512_set1_epi32(block_offsets(a, k)[b]);
    __m512i high = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (std::size_t i = 0; i < block_k; i += 8) {
      const __m512i bytes = _mm512_loadu_si512(from + i * 8);
      low = _mm512_dpbusd_epi32(low, low_half_bytes(bytes), broadcast_bytes(x + i));
      high = _mm512_dpbusd_epi32(high, high_half_bytes(bytes), broadcast_bytes(x + i + 4));
    }
    __m512i g = _mm512_set1_epi32(1);
    if (panel.has_groups())
      g = _mm512_and_si512(load_int8_int(panel.group_scales_of(b)), _mm512_set1_epi32(0xffff));
    sum = _mm512_dpwssd_epi32(sum, _mm512_add_epi32(low, high), g); // 16 bits each, as in `vnni_int4_block`
  }
  store_integer_result(c, sum, a, k, panel.scales);
}

static void integer_one_stream(const std::byte* a, std::size_t a_stride, std::size_t rows,
                               const quant_panel& first, std::size_t panels, const upcoming_panels& /*next*/,
                               std::size_t k, float* c) {
  if (first.format != packed_format::int8_channel) { // one row
    for (std::size_t p = 0; p < panels; ++p)
      vnni_int4_row(a, first.next(p), k, c + p * 16);
    return;
  }
  with_row_count<int8_stream_rows>(
      rows, [&]<std::size_t Rows>()
                __attribute__((always_inline)) { vnni_int8_stream<Rows>(a, a_stride, first, panels, k, c); });
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
