// Up to six rows that lie a fixed distance apart, reached from two pointers, as the processor's addresses
// can: base, base + stride, base + 2 · stride. Left to itself the compiler keeps a pointer for each row, and
// moves or spills them all at every step. Included by the kernels of AVX2 only.
#pragma once

#include <cstddef>

#include "kernels/cpu/simd/simd.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

template <std::size_t Rows>
class row_pointers {
  static_assert(Rows <= 6);

 public:
  /// @param stride  bytes between rows
  __attribute__((always_inline)) row_pointers(const void* first, std::size_t stride)
      : first_(static_cast<const std::byte*>(first)), fourth_(first_ + 3 * stride), stride_(stride) {
    keep();
  }

  /// Where row `r` stands, and so many bytes on.
  __attribute__((always_inline)) const std::byte* at(std::size_t r, std::size_t offset) const {
    return (r < 3 ? first_ + r * stride_ : fourth_ + (r - 3) * stride_) + offset;
  }

  __attribute__((always_inline)) void advance(std::size_t bytes) {
    first_ += bytes;
    fourth_ += bytes;
    keep();
  }

 private:
  // The compiler is to believe that they could be anything, and so cannot make other pointers of them.
  __attribute__((always_inline)) void keep() {
    if constexpr (Rows > 3)
      __asm__("" : "+r"(first_), "+r"(fourth_), "+r"(stride_));
    else
      __asm__("" : "+r"(first_), "+r"(stride_));
  }

  const std::byte* first_;
  const std::byte* fourth_;
  std::size_t stride_;
};

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
