#include "kernels/quantize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace troupe::kernels {

namespace {

// Below this a channel counts as zero: its scale and the inverse of it would leave FP32's normal range.
constexpr float smallest = 0x1p-100F;

// Adding and taking away 1.5 · 2²³ rounds |x| < 2²² to the nearest integer, ties to even.
constexpr float rounder = 12582912.0F;

// A whole number of these for every loop below: padded with zeros, which cost no error.
constexpr std::size_t lanes = 16;

float largest(std::span<const float> values) {
  float result = 0.0F;
  for (const float value : values)
    result = std::max(result, std::abs(value));
  return result;
}

float rounded_q(float weight, float inverse) {
  return std::clamp(weight * inverse + rounder - rounder, -8.0F, 7.0F);
}

// Σ (w − q step)² in 16 lanes, so that every compiler and processor adds in one order.
float squared_error(const float* weights, std::size_t count, float step) {
  const float inverse = 1.0F / step;
  std::array<float, lanes> sums{};
  for (std::size_t i = 0; i < count; i += lanes)
    for (std::size_t j = 0; j < lanes; ++j) {
      const float difference = weights[i + j] - rounded_q(weights[i + j], inverse) * step;
      sums[j] += difference * difference;
    }
  for (std::size_t step_lanes = lanes / 2; step_lanes != 0; step_lanes /= 2)
    for (std::size_t j = 0; j < step_lanes; ++j)
      sums[j] += sums[j + step_lanes];
  return sums[0];
}

struct group_choice {
  int scale = 0;
  float error = 0.0F;
};

// Where the largest weight lands: beyond 8.75 it is clipped so hard that nothing gains, below 6.25 levels are
// wasted.
constexpr float most_levels = 8.75F;
constexpr float fewest_levels = 6.25F;

group_choice choose_group(const float* weights, std::size_t count, float max, float scale) {
  // All weights become zero.
  group_choice best{0, 0.0F};
  std::array<float, lanes> sums{};
  for (std::size_t i = 0; i < count; i += lanes)
    for (std::size_t j = 0; j < lanes; ++j)
      sums[j] += weights[i + j] * weights[i + j];
  for (const float sum : sums)
    best.error += sum;
  const int first = std::clamp(static_cast<int>(max / (scale * most_levels)), 1, max_group_scale);
  const int last = std::clamp(static_cast<int>(std::ceil(max / (scale * fewest_levels))), 1, max_group_scale);
  for (int g = first; g <= last; ++g)
    for (const int signed_scale : {g, -g}) {
      const float error = squared_error(weights, count, scale * static_cast<float>(signed_scale));
      if (error < best.error)
        best = {signed_scale, error};
    }
  return best;
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
                           std::int8_t* group_scales) {
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
  // The largest weight at −8 · 15 · scale or a bit beyond; much beyond where one weight dwarfs the rest of
  // its channel and would leave the other groups too few scales.
  float best_scale = 0.0F;
  float best_error = INFINITY;
  std::vector<int> scales(groups);
  std::vector<int> best(groups);
  for (const float levels : {8.0F, 7.5F, 7.0F, 9.0F, 12.0F}) {
    const float scale = max / (levels * static_cast<float>(max_group_scale));
    float error = 0.0F;
    for (std::size_t i = 0; i < groups && error < best_error; ++i) {
      const group_choice choice = choose_group(padded.data() + i * group, group, maxima[i], scale);
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
      out[k] = static_cast<std::int8_t>(rounded_q(padded[k], inverse));
  }
  return best_scale;
}

float quantize_int4(std::span<const float> weights, std::int8_t* out) {
  std::vector<float> padded((weights.size() + lanes - 1) / lanes * lanes);
  std::copy(weights.begin(), weights.end(), padded.begin());
  const float max = largest(weights);
  if (max < smallest) {
    std::fill_n(out, weights.size(), std::int8_t{0});
    return 0.0F;
  }
  float best_scale = 0.0F;
  float best_error = INFINITY;
  // A long channel has outliers, and clipping them pays: up to twice the range that is kept.
  for (int halves = 13; halves <= 32; ++halves) // levels: 6.5 to 16
    for (const float sign : {1.0F, -1.0F}) {
      const float scale = sign * max / (0.5F * static_cast<float>(halves));
      const float error = squared_error(padded.data(), padded.size(), scale);
      if (error < best_error) {
        best_error = error;
        best_scale = scale;
      }
    }
  const float inverse = 1.0F / best_scale;
  for (std::size_t i = 0; i < weights.size(); ++i)
    out[i] = static_cast<std::int8_t>(rounded_q(weights[i], inverse));
  return best_scale;
}

} // namespace troupe::kernels
