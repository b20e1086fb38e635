// A warp's product on the tensor cores.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/bits.hpp"
#include "kernels/cuda/warp.cuh"

namespace troupe::kernels::cuda {

#if !defined(__CUDACC__)
// The rows given by the lanes of a warp.
class emulated_matrices {
 public:
  emulated_matrices(const char* kind, const bfloat16* row) {
    if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
      emulation::trap("a row of a matrix is not 16-byte aligned");
    std::memcpy(rows_, emulation::exchange(kind, &row, sizeof row), sizeof rows_);
  }

  std::uint32_t element(unsigned matrix, unsigned row, unsigned column) const {
    return rows_[8 * matrix + row][column].bits;
  }

 private:
  const bfloat16* rows_[warp_lanes];
};
#endif

/// sum += a · b: a is 16 × 16 BF16, b 16 × 8 BF16, the sum 16 × 8 FP32 (mma.m16n8k16, PTX manual; layouts in
/// fragments.hpp, where a's rows are channels and b's columns are rows of activations).
__device__ inline void multiply_add(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                    std::uint32_t b1) {
#if defined(__CUDACC__)
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  struct operands {
    std::uint32_t a[4];
    std::uint32_t b[2];
  };

  operands own{{a[0], a[1], a[2], a[3]}, {b0, b1}};
  const std::byte* all = emulation::exchange("multiply_add", &own, sizeof own);
  const auto of = [&](unsigned lane) {
    operands value;
    std::memcpy(&value, all + lane * sizeof value, sizeof value);
    return value;
  };
  const auto half = [](std::uint32_t pair, unsigned k) {
    return k % 2 == 0 ? lower_float(pair) : upper_float(pair);
  };
  const unsigned g = lane_index() / 4;
  const unsigned c = lane_index() % 4;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = g + 8 * (i / 2);
    const unsigned column = 2 * c + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const std::uint32_t left = of(row % 8 * 4 + k % 8 / 2).a[row / 8 + 2 * (k / 8)];
      const std::uint32_t right = of(column * 4 + k % 8 / 2).b[k / 8];
      sum[i] += half(left, k) * half(right, k);
    }
  }
#endif
}

/// Loads four matrices of 8 × 8 BF16 from shared memory in the layout of `multiply_add`'s operands: lane 4 g
/// + c gets elements 2c and 2c + 1 of row g of each (ldmatrix, PTX manual).
/// @param row  16 bytes, aligned: lane l gives row l mod 8 of matrix l / 8
__device__ inline void load_matrices(const bfloat16* row, std::uint32_t (&to)[4]) {
#if defined(__CUDACC__)
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at)
               : "memory");
#else
  const emulated_matrices from("load_matrices", row);
  for (unsigned m = 0; m < 4; ++m)
    to[m] = from.element(m, lane_index() / 4, lane_index() % 4 * 2)
            | from.element(m, lane_index() / 4, lane_index() % 4 * 2 + 1) << 16;
#endif
}

/// The same for the transposed matrices: elements g of rows 2c and 2c + 1.
__device__ inline void load_transposed(const bfloat16* row, std::uint32_t (&to)[4]) {
#if defined(__CUDACC__)
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at)
               : "memory");
#else
  const emulated_matrices from("load_transposed", row);
  for (unsigned m = 0; m < 4; ++m)
    to[m] = from.element(m, lane_index() % 4 * 2, lane_index() / 4)
            | from.element(m, lane_index() % 4 * 2 + 1, lane_index() / 4) << 16;
#endif
}

} // namespace troupe::kernels::cuda
