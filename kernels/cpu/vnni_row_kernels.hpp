// One row of integers on AVX-512's dot products of bytes, where a single stream is the fastest way to read:
// AMD's processors. Included by avx512_bf16_kernels.cpp only.
#pragma once

#include "kernels/cpu/quant_vnni_kernels.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// One panel after the other as a single stream, fetched so far ahead into L2 and no further: the rest is
/// done by what the processor fetches for itself.
struct stream_fetcher {
  const std::byte* first;

  inline __attribute__((always_inline)) const std::byte* operator()(std::size_t /*panel*/,
                                                                    std::size_t offset) const {
    constexpr std::size_t bytes_ahead = 4096;
    return first + offset + bytes_ahead;
  }

  template <std::size_t StepBytes>
  static inline __attribute__((always_inline)) void fetch_line(const std::byte* far,
                                                               const std::byte* /*from*/) {
    _mm_prefetch(reinterpret_cast<const char*>(far), _MM_HINT_T1);
  }
};

/// One row and panels of int8.
TROUPE_VNNI static void vnni_int8_row(const std::byte* a, const quant_panel& first, std::size_t panels,
                                      std::size_t k, float* c) {
  for (std::size_t p = 0; p < panels; ++p) {
    const quant_panel panel = first.next(p);
    __m512i sums[1][1];
    vnni_int8<1, 1>(a, 0, panel, stream_fetcher{panel.weights}, k, sums);
    store_integer_result(c + p * 16, sums[0][0], a, k, panel.scales);
  }
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
