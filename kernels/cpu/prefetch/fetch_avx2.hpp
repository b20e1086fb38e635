// What AVX2's products fetch into L1 while they read a panel: `weights` of a fetch is called for each line of
// it, `scales` for each line of group scales of int4. Inlined always: a function that only fetches has no
// effect that the compiler knows of, and it leaves out the call. Included by AVX2's kernels only.
#pragma once

#include <cstddef>

#include "kernels/cpu/prefetch/panel_runs.hpp"
#include "kernels/cpu/simd/simd.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// What comes next: one line for `Lines` that are read, or nothing with 0.
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
