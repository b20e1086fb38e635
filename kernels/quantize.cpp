#include "kernels/quantize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/cpu/tables/kernel_table.hpp"

namespace troupe::kernels {

namespace {

// A channel below this counts as zero: its scale, or the inverse, would leave FP32's normal range.
constexpr float smallest = 0x1p-100F;

// Adding and subtracting 1.5 · 2²³ rounds |x| < 2²² to the nearest integer, ties to even.
constexpr float rounder = 12582912.0F;

// The searching kernels take multiples of this: padded with zeros, which add no error.
constexpr std::size_t lanes = 16;

// In lanes, so that compilers can vectorise.
float largest(std::span<const float> values) {
  std::array<float, lanes> most{};
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes)
    for (std::size_t j = 0; j < lanes; ++j)
      most[j] = std::max(most[j], std::abs(values[i + j]));
  for (; i < values.size(); ++i)
    most[0] = std::max(most[0], std::abs(values[i]));
  return *std::max_element(most.begin(), most.end());
}

std::int8_t int4_value(float weight, float inverse) {
  return static_cast<std::int8_t>(std::clamp(weight * inverse + rounder - rounder, -8.0F, 7.0F));
}

// Squares of errors must stay in FP32's normal range, or no choice is the best. A channel whose largest
// weight is outside of 2^±this is scaled for the search, which changes no bit of the result.
constexpr int searched_exponents = 40;

bool is_far_from_one(float max) {
  return std::abs(std::ilogb(max)) > searched_exponents;
}

// Channel scale that `quantize` finds for the weights divided by a power of two.
template <class Quantize>
float quantize_near_one(std::span<const float> weights, float max, const Quantize& quantize) {
  const int exponent = std::ilogb(max);
  std::vector<float> near(weights.size());
  std::transform(weights.begin(), weights.end(), near.begin(),
                 [&](float weight) { return std::ldexp(weight, -exponent); });
  return std::ldexp(quantize(near), exponent);
}

} // namespace

float quantize_int8(std::span<const float> weights, std::int8_t* out) {
  const float max = largest(weights);
  if (max < smallest) {
    std::fill_n(out, weights.size(), std::int8_t{0});
    return 0.0F;
  }
  const float scale = max / 127.0F;
  const float inverse = 127.0F / max;
  for (std::size_t i = 0; i < weights.size(); ++i)
    out[i] = static_cast<std::int8_t>(std::clamp(weights[i] * inverse + rounder - rounder, -127.0F, 127.0F));
  return scale;
}

float quantize_int4_groups(std::span<const float> weights, std::size_t group, std::int8_t* out,
                           std::int8_t* group_scales, isa set) {
  const quant_table& kernels = table_of(set).quant;
  const std::size_t groups = (weights.size() + group - 1) / group;
  std::vector<float> padded(groups * group);
  std::copy(weights.begin(), weights.end(), padded.begin());
  std::vector<float> maxima(groups);
  for (std::size_t i = 0; i < groups; ++i)
    maxima[i] = largest(std::span(padded).subspan(i * group, group));
  const float max = *std::max_element(maxima.begin(), maxima.end());
  if (max < smallest) {
    std::fill_n(out, weights.size(), std::int8_t{0});
    std::fill_n(group_scales, groups, std::int8_t{0});
    return 0.0F;
  }
  if (is_far_from_one(max))
    return quantize_near_one(weights, max, [&](std::span<const float> near) {
      return quantize_int4_groups(near, group, out, group_scales, set);
    });
  // Puts the largest weight at −8 · 15 · scale or slightly beyond; far beyond if one weight dwarfs the rest
  // of its channel and would leave the other groups too few scales.
  float best_scale = 0.0F;
  float best_error = INFINITY;
  std::vector<int> scales(groups);
  std::vector<int> best(groups);
  for (const float levels : {8.0F, 7.5F, 7.0F, 9.0F, 12.0F}) {
    const float scale = max / (levels * static_cast<float>(max_group_scale));
    float error = 0.0F;
    for (std::size_t i = 0; i < groups && error < best_error; ++i) {
      const int4_group_scale choice = kernels.int4_scale(padded.data() + i * group, group, maxima[i], scale);
      scales[i] = choice.scale;
      error += choice.error;
    }
    if (error < best_error) {
      best_error = error;
      best_scale = scale;
      best = scales;
    }
  }
  for (std::size_t i = 0; i < groups; ++i) {
    group_scales[i] = static_cast<std::int8_t>(best[i]);
    const float inverse = best[i] == 0 ? 0.0F : 1.0F / (best_scale * static_cast<float>(best[i]));
    for (std::size_t k = i * group; k < std::min(weights.size(), (i + 1) * group); ++k)
      out[k] = int4_value(padded[k], inverse);
  }
  return best_scale;
}

float quantize_int4(std::span<const float> weights, std::int8_t* out, isa set) {
  const quant_table& kernels = table_of(set).quant;
  std::vector<float> padded((weights.size() + lanes - 1) / lanes * lanes);
  std::copy(weights.begin(), weights.end(), padded.begin());
  const float max = largest(weights);
  if (max < smallest) {
    std::fill_n(out, weights.size(), std::int8_t{0});
    return 0.0F;
  }
  if (is_far_from_one(max))
    return quantize_near_one(weights, max,
                             [&](std::span<const float> near) { return quantize_int4(near, out, set); });
  float best_scale = 0.0F;
  float best_error = INFINITY;
  // A long channel has outliers, and clipping them pays: up to twice the kept range.
  for (int halves = 13; halves <= 32; ++halves) // levels: 6.5 to 16
    for (const float sign : {1.0F, -1.0F}) {
      const float scale = sign * max / (0.5F * static_cast<float>(halves));
      const float error = kernels.int4_error(padded.data(), padded.size(), scale);
      if (error < best_error) {
        best_error = error;
        best_scale = scale;
      }
    }
  const float inverse = 1.0F / best_scale;
  for (std::size_t i = 0; i < weights.size(); ++i)
    out[i] = int4_value(weights[i], inverse);
  return best_scale;
}

} // namespace troupe::kernels
