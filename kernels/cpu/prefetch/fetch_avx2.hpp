// Prefetches of AVX2's products into L1 while they read a panel: `weights` is called for each line of it,
// `scales` for each line of int4 group scales. Always inlined: the compiler omits calls of a function that
// only prefetches, because it sees no effect. Included only by AVX2's kernels.
#pragma once

#include <cstddef>

#include "kernels/cpu/prefetch/panel_runs.hpp"
#include "kernels/cpu/simd/simd.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// The next part: one line for every `Lines` that are read; nothing with 0.
template <std::size_t Lines>
struct fetch_coming {
  const std::byte* next = nullptr;

  __attribute__((always_inline)) void weights(const std::byte* /*line*/, std::size_t index) {
    if constexpr (Lines > 0)
      if (index % Lines == Lines - 1) {
        fetch_line(next);
        next += 64;
      }
  }

  __attribute__((always_inline)) void scales() {
    if constexpr (Lines > 0) {
      fetch_line(next);
      next += 64;
    }
  }
};

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
