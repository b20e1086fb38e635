// 16-byte and 4-byte pieces of rows, and BF16 in pairs, the same for host and device.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/bfloat16.hpp"
#include "kernels/cuda/annotations.hpp"

namespace troupe::kernels::cuda {

/// 16 bytes: the largest load of one thread.
struct alignas(16) bits128 {
  std::uint32_t word[4];
};

/// 8 bytes.
struct alignas(8) bits64 {
  std::uint32_t word[2];
};

/// The lower and upper BF16 of a word.
TROUPE_BOTH inline float lower_float(std::uint32_t pair) {
  return std::bit_cast<float>(pair << 16);
}

TROUPE_BOTH inline float upper_float(std::uint32_t pair) {
  return std::bit_cast<float>(pair & 0xffff0000U);
}

/// Two numbers rounded to BF16, the first in the lower half.
TROUPE_BOTH inline std::uint32_t bf16_pair(float lower, float upper) {
#if defined(__CUDA_ARCH__)
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(upper), "f"(lower));
  return pair;
#else
  return static_cast<std::uint32_t>(to_bfloat16(upper).bits) << 16 | to_bfloat16(lower).bits;
#endif
}

TROUPE_BOTH inline bfloat16 round_bf16(float value) {
  return {static_cast<std::uint16_t>(bf16_pair(value, 0.0F))};
}

/// a − b, each half rounded to nearest even.
TROUPE_BOTH inline std::uint32_t subtract_bf16_pairs(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDA_ARCH__)
  std::uint32_t difference;
  asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
  return difference;
#else
  return bf16_pair(lower_float(a) - lower_float(b), upper_float(a) - upper_float(b));
#endif
}

/// a · b + c, each half rounded to nearest even once (on the host twice; equal wherever the result is exact).
TROUPE_BOTH inline std::uint32_t fma_bf16_pairs(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
#if defined(__CUDA_ARCH__)
  std::uint32_t sum;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
#else
  return bf16_pair(std::fma(lower_float(a), lower_float(b), lower_float(c)),
                   std::fma(upper_float(a), upper_float(b), upper_float(c)));
#endif
}

/// The lower half twice, and the upper half twice.
TROUPE_BOTH constexpr std::uint32_t both_lower(std::uint32_t pair) {
  return (pair & 0xffffU) | pair << 16;
}

TROUPE_BOTH constexpr std::uint32_t both_upper(std::uint32_t pair) {
  return (pair & 0xffff0000U) | pair >> 16;
}

} // namespace troupe::kernels::cuda
