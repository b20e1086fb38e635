// Up to six rows at a fixed distance, addressed from two pointers by the processor's address modes: base,
// base + stride, base + 2 · stride. Compilers alone keep a pointer for each row, and move or spill them all
// at every step. Included only by the kernels of AVX2.
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

  /// Address of row `r`, plus an offset in bytes.
  __attribute__((always_inline)) const std::byte* at(std::size_t r, std::size_t offset) const {
    return (r < 3 ? first_ + r * stride_ : fourth_ + (r - 3) * stride_) + offset;
  }

  __attribute__((always_inline)) void advance(std::size_t bytes) {
    first_ += bytes;
    fourth_ += bytes;
    keep();
  }

 private:
  // Hides the values of the pointers from the compiler, so that it cannot derive further pointers from them.
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
