// What AVX2's products fetch into L1 while they read a panel: `weights` of a fetch is called for each line of
// it, `scales` for each block of 32 of K of int4. Inlined always: a function that only fetches has no effect
// that the compiler knows of, and it leaves out the call. Included by AVX2's kernels only.
#pragma once

#include <cstddef>

#include "kernels/cpu/simd.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

TROUPE_INLINE void fetch_line(const std::byte* line) {
  _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T0);
}

/// What comes next of four runs of panels, a line of each in turn. A loop that reads so is 1.2 to 1.3 times
/// as fast as one that reads a single run: what the processor fetches for itself seems to begin again on
/// every page of 4 KiB, and with one run everything waits for that.
class run_fetch {
 public:
  /// @param first   what comes next of the first run
  /// @param stride  bytes between runs
  __attribute__((always_inline)) run_fetch(const std::byte* first, std::size_t stride)
      : next_(first), stride_(static_cast<std::ptrdiff_t>(stride)), step_(2 * stride_) {}

  __attribute__((always_inline)) void weights(const std::byte* /*line*/, std::size_t index) {
    if (index % 2 == 0) {
      fetch_line(next_);
    } else {
      fetch_line(next_ + stride_);
      next_ += step_; // two runs on, or back to the first one and its next line
      step_ = 64 - step_;
    }
  }

 private:
  const std::byte* next_;
  std::ptrdiff_t stride_;
  std::ptrdiff_t step_;
};

/// What comes next: one line for `Lines` that are read, or nothing with 0.
template <std::size_t Lines>
struct fetch_coming {
  const std::byte* next_weights = nullptr;
  const std::byte* next_scales = nullptr; // of 16 bytes for a block; any where there are none

  __attribute__((always_inline)) void weights(const std::byte* /*line*/, std::size_t index) {
    if constexpr (Lines > 0)
      if (index % Lines == Lines - 1) {
        fetch_line(next_weights);
        next_weights += 64;
      }
  }

  __attribute__((always_inline)) void scales() {
    if constexpr (Lines > 0) {
      fetch_line(next_scales);
      next_scales += 16;
    }
  }
};

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
