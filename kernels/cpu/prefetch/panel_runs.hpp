// Panels of four runs far apart, read side by side, with the following lines of all runs prefetched in turn:
// so few rows reach the memory's bandwidth (docs/kernels/avx2.md, "Four runs of panels"). Included only by
// the kernels of AVX2 and AVX-512.
#pragma once

#include <cstddef>

#include "kernels/cpu/prefetch/panel_parts.hpp"
#include "kernels/cpu/simd/simd.hpp"
#include "kernels/cpu/tables/quant_table.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

TROUPE_INLINE void fetch_line(const std::byte* line) {
  _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T0);
}

/// Prefetches the following lines of four runs of panels in turn. Such a loop is 1.2 to 1.3 times as fast as
/// one that reads a single run: the processor's own prefetching seems to restart on every page of 4 KiB, and
/// a single run waits for that.
class run_fetch {
 public:
  /// @param first   what comes next in the first run
  /// @param stride  bytes between runs
  /// @param scales  whether it begins with a line of group scales
  __attribute__((always_inline)) run_fetch(const std::byte* first, std::size_t stride, bool scales = false)
      : next_(scales ? first + scale_line_bytes : first),
        scales_(first),
        stride_(static_cast<std::ptrdiff_t>(stride)),
        step_(2 * stride_) {}

  __attribute__((always_inline)) void weights(const std::byte* /*line*/, std::size_t index) {
    if (index % 2 == 0) {
      fetch_line(next_);
    } else {
      fetch_line(next_ + stride_);
      next_ += step_; // two runs on, or back to the first one and its next line
      step_ = 64 - step_;
    }
  }

  /// For the single line of scales of each run.
  __attribute__((always_inline)) void scales() {
    fetch_line(scales_);
    scales_ += stride_;
  }

 private:
  const std::byte* next_;
  const std::byte* scales_;
  std::ptrdiff_t stride_;
  std::ptrdiff_t step_;
};

/// The panels of all runs.
struct run_panels {
  const std::byte* first; // weights of the first run's first panel
  std::size_t run_stride; // bytes
  std::size_t panel_stride;
  std::size_t panels; // of a run
  std::size_t blocks; // of 32 of K
  std::size_t block_bytes;
  const upcoming_panels& next;
  /// For int4: parts are then the blocks of a line of group scales.
  int4_layout layout{};

  /// Parts of at most N bytes.
  panel_parts parts(std::size_t bytes) const {
    return {blocks, bytes / block_bytes, layout.blocks_of_unit()};
  }

  /// Start of block `b` of a panel, or of the line of scales before it.
  std::size_t offset_of(std::size_t b) const {
    return layout.has_groups() ? layout.bytes(b) : b * block_bytes;
  }

  /// The panels at index `p` of their runs.
  upcoming_panels at(std::size_t p) const { return {first + p * panel_stride, 1, run_stride}; }

  /// What comes after panel `p`; at the end, data that is already in the cache.
  upcoming_panels behind(std::size_t p) const {
    if (p + 1 < panels)
      return at(p + 1);
    return next.first != nullptr ? next : at(p);
  }
};

/// A part of K of the panels at one index of every run.
struct run_part {
  std::size_t first; // blocks of K
  std::size_t blocks;
  /// The next part at the same index, or the first part of the next index.
  const std::byte* coming;
  std::size_t coming_stride; // bytes between runs
};

/// Calls `part(run_part)` for the parts of the panels at index `p`: at most N bytes of each run, or the
/// blocks of a line of group scales. Each prefetches as much as it has.
template <class Part>
TROUPE_INLINE void over_parts(const run_panels& runs, const panel_parts& cut, std::size_t p,
                              const Part& part) {
  cut.for_each([&](std::size_t first, std::size_t end) {
    const bool last = end == cut.blocks();
    const upcoming_panels coming = last ? runs.behind(p) : runs.at(p);
    part(run_part{first, end - first, coming.first + (last ? 0 : runs.offset_of(end)), coming.run_stride});
  });
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
