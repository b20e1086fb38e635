// The error of quantized weights, which takes most of the time of the search for scales. Included only by
// isa_kernels.cpp.
//
// Every square is rounded, and added in 16 lanes: so error and choice are the same everywhere.
#pragma once

#include "kernels/cpu/simd/v16.hpp"
#include "kernels/cpu/tables/quant_table.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// (w − q · step)², q = w · inverse rounded to the nearest of −8 … 7, ties to even, by adding and subtracting
/// 1.5 · 2²³.
TROUPE_INLINE v16 int4_squared_errors(const v16& w, const v16& step, const v16& inverse) {
  const vf rounder = set1(12582912.0F);
  return each_part([&](std::size_t p) {
    const vf rounded = sub(add(mul(w.part[p], inverse.part[p]), rounder), rounder);
    const vf q = min(max(rounded, set1(-8.0F)), set1(7.0F));
    const vf difference = sub(w.part[p], mul(q, step.part[p]));
    return mul(difference, difference);
  });
}

TROUPE_FLAT float int4_error(const float* weights, std::size_t count, float step) {
  const v16 steps = splat(step);
  const v16 inverse = splat(1.0F / step);
  v16 sums = splat(0.0F);
  for (std::size_t i = 0; i < count; i += 16)
    sums = add(sums, int4_squared_errors(load16(weights + i), steps, inverse));
  return sum_of(sums);
}

// Levels of a group's largest weight: beyond 8.75 it is clipped too hard to gain, below 6.25 levels are
// wasted.
constexpr float most_levels = 8.75F;
constexpr float fewest_levels = 6.25F;

TROUPE_INLINE int group_scale_within(float x, bool up) {
  int g = static_cast<int>(x);
  if (up && static_cast<float>(g) < x)
    ++g;
  return g < 1 ? 1 : g > max_group_scale ? max_group_scale : g;
}

template <std::size_t Count>
TROUPE_INLINE int4_group_scale choose_int4_scale(const float* weights, float max, float scale) {
  v16 w[Count / 16];
  v16 squares = splat(0.0F);
  for (std::size_t i = 0; i < Count / 16; ++i) {
    w[i] = load16(weights + 16 * i);
    squares = add(squares, mul(w[i], w[i]));
  }
  // All weights become zero.
  int4_group_scale best{0, 0.0F};
  float lanes_of[16];
  store16(lanes_of, squares);
  for (const float square : lanes_of)
    best.error += square;
  const int last = group_scale_within(max / (scale * fewest_levels), true);
  for (int g = group_scale_within(max / (scale * most_levels), false); g <= last; ++g)
    for (int sign = 1; sign >= -1; sign -= 2) {
      const float step = scale * static_cast<float>(sign * g);
      const v16 steps = splat(step);
      const v16 inverse = splat(1.0F / step);
      v16 sums = splat(0.0F);
      for (const v16& x : w)
        sums = add(sums, int4_squared_errors(x, steps, inverse));
      const float error = sum_of(sums);
      if (error < best.error)
        best = {sign * g, error};
    }
  return best;
}

TROUPE_FLAT int4_group_scale int4_scale(const float* weights, std::size_t count, float max, float scale) {
  return count == 32 ? choose_int4_scale<32>(weights, max, scale)
                     : choose_int4_scale<64>(weights, max, scale);
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
