// Quantized weights on their way from memory: several panels side by side, each fetched ahead. Included by
// the kernels of AVX-512 and AMX only.
#pragma once

#include "kernels/cpu/quant_table.hpp"
#include "kernels/cpu/simd.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// K of one step of these kernels: 1 KiB of a panel of int8, 512 bytes of int4.
constexpr std::size_t step_k = 64;

constexpr std::size_t step_bytes(packed_format format) {
  return format == packed_format::int8_channel ? step_k * 16 : step_k * 8;
}

/// Where to fetch from while up to four panels are read side by side, step by step: what lies
/// some KiB further on in each of them, then in the panels behind. One stream of a thread does not reach the
/// memory's bandwidth.
class quant_fetcher {
 public:
  /// @param panels  from `first` on; nothing behind them is touched
  quant_fetcher(const quant_panel& first, std::size_t side_by_side, std::size_t panels, std::size_t k)
      : first_(first),
        side_by_side_(side_by_side),
        panels_(panels),
        bytes_((k + step_k - 1) / step_k * step_bytes(first.format)) {}

  /// The line to fetch for each that is read of panel `p` from its byte `offset` on, for one step.
  inline __attribute__((always_inline)) const std::byte* operator()(std::size_t p, std::size_t offset) const {
    std::size_t at = offset + bytes_ahead / side_by_side_;
    if (at >= bytes_) {
      at -= bytes_;
      p += side_by_side_;
      if (p >= panels_ || at >= bytes_)
        return first_.weights; // nothing: a line that is there
    }
    if (first_.group_scales != nullptr)
      fetch_line(first_.group_scales + p * first_.stride + at / 16);
    return first_.weights + p * first_.stride + at;
  }

  static inline __attribute__((always_inline)) void fetch_line(const std::byte* line) {
    _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T0);
  }

 private:
  static constexpr std::size_t bytes_ahead = 8192;

  const quant_panel& first_;
  std::size_t side_by_side_;
  std::size_t panels_;
  std::size_t bytes_;
};

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
