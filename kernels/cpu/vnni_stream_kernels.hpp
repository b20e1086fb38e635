// Few rows of int8 on AVX-512's dot products of bytes, where a single stream is the fastest way to read:
// AMD's processors. Included by avx512_bf16_kernels.cpp only.
#pragma once

#include <utility>

#include "kernels/cpu/quant_vnni_kernels.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// One panel after the other as a single stream. The processor fetches what follows; for one row, which
/// waits for little else, it is told `BytesAhead` of it and then brings lines into L2, no further.
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

constexpr std::size_t most_stream_rows = 5;

/// Rows that are faster in a single stream: more than three while the L1 cache keeps them beside a panel.
constexpr std::size_t stream_rows(std::size_t k) {
  constexpr std::size_t cache_bytes = 28 * 1024;
  return (most_stream_rows + 16) * k <= cache_bytes ? most_stream_rows : 3;
}

/// Products of integers with the fetching that AMD's processors want.
static void integer_panels_in_order(const std::byte* a, std::size_t a_stride, std::size_t rows,
                                    const quant_panel& first, std::size_t panels, const upcoming_panels& next,
                                    std::size_t k, float* c) {
  if (first.format != packed_format::int8_channel || rows > stream_rows(k)
      || !__builtin_cpu_supports("avx512vnni")) {
    integer_panels_vnni<group_fetcher>(a, a_stride, rows, first, panels, next, k, c);
    return;
  }
  [&]<std::size_t... Less>(std::index_sequence<Less...>) {
    ((rows == Less + 1 ? vnni_int8_stream<Less + 1>(a, a_stride, first, panels, k, c) : void()), ...);
  }
  (std::make_index_sequence<most_stream_rows>{});
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
