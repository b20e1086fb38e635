// Cuts a panel's K into parts that rows process one after the other. Included only by the kernels of AVX2 and
// AVX-512.
#pragma once

#include <cstddef>

#include "kernels/cpu/simd/simd.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// Blocks of 32 of K in parts of at most `most`, equal to within a unit, so that each part can prefetch as
/// much as it reads. Computed once for all panels: dividing takes as long as a block of few rows.
class panel_parts {
 public:
  /// @param unit  blocks that stay together; may exceed `most`
  panel_parts(std::size_t blocks, std::size_t most, std::size_t unit) : blocks_(blocks), unit_(unit) {
    const std::size_t units = (blocks + unit - 1) / unit;
    const std::size_t units_of_part = larger(most / unit, 1);
    const std::size_t count = larger((units + units_of_part - 1) / units_of_part, 1);
    least_ = units / count * unit;
    longer_ = units % count;
  }

  std::size_t blocks() const { return blocks_; }

  /// Calls `part(first, end)`, blocks, for each.
  template <class Part>
  inline __attribute__((always_inline)) void for_each(const Part& part) const {
    std::size_t longer = longer_; // number of parts with an extra unit
    for (std::size_t first = 0; first < blocks_;) {
      const std::size_t end = smaller(first + least_ + (longer > 0 ? unit_ : 0), blocks_);
      longer -= longer > 0 ? 1 : 0;
      part(first, end);
      first = end;
    }
  }

 private:
  std::size_t blocks_;
  std::size_t unit_;
  std::size_t least_ = 0;
  std::size_t longer_ = 0;
};

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
