// Panels of four runs that lie far apart, read side by side, and what comes next of them fetched line by line
// in turn: how few rows reach the memory's rate (docs/kernels/avx2.md, "Four runs of panels"). Included by
// the kernels of AVX2 and AVX-512 only.
#pragma once

#include <cstddef>

#include "kernels/cpu/prefetch/panel_parts.hpp"
#include "kernels/cpu/simd/simd.hpp"
#include "kernels/cpu/tables/quant_table.hpp"

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

  /// For the one line of scales that is read of each run.
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

/// Panels of all runs.
struct run_panels {
  const std::byte* first; // weights of the first run's first panel
  std::size_t run_stride; // bytes
  std::size_t panel_stride;
  std::size_t panels; // of a run
  std::size_t blocks; // of 32 of K
  std::size_t block_bytes;
  const upcoming_panels& next;
  /// Of int4: parts are then what a line of group scales leads.
  int4_layout layout{};

  /// Parts of at most so many bytes.
  panel_parts parts(std::size_t bytes) const {
    return {blocks, bytes / block_bytes, layout.blocks_of_unit()};
  }

  /// Where block `b` of a panel begins, or the line of scales that leads it.
  std::size_t offset_of(std::size_t b) const {
    return layout.has_groups() ? layout.bytes(b) : b * block_bytes;
  }

  /// The panels at place `p` of their runs.
  upcoming_panels at(std::size_t p) const { return {first + p * panel_stride, 1, run_stride}; }

  /// What comes after panel `p`; something that is there already where nothing comes.
  upcoming_panels behind(std::size_t p) const {
    if (p + 1 < panels)
      return at(p + 1);
    return next.first != nullptr ? next : at(p);
  }
};

/// A part of K of the panels at one place of every run.
struct run_part {
  std::size_t first; // blocks of K
  std::size_t blocks;
  /// The same place's next part, or the next place's first.
  const std::byte* coming;
  std::size_t coming_stride; // bytes between runs
};

/// Calls `part(run_part)` for the parts of the panels at place `p`, at most so many bytes of each run, or
/// what a line of group scales leads. Each fetches as much as it has.
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
