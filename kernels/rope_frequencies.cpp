// The angles of RoPE, and the factors that go with them.
#include "kernels/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "kernels/error.hpp"
#include "kernels/portable_math.hpp"

namespace troupe::kernels {

namespace {

void check(const rope_config& config) {
  if (config.rotary_dim == 0 || config.rotary_dim % 2 != 0)
    throw kernel_error("rope: rotary dimension " + std::to_string(config.rotary_dim)
                       + " is not even and positive");
  if (!(config.base > 1.0) || !std::isfinite(config.base))
    throw kernel_error("rope: rope_theta must be above 1");
  if (config.scaling == rope_scaling::longrope) {
    const auto is_divisor = [](double d) { return d > 0.0 && std::isfinite(d); };
    if (config.divisors.size() != config.rotary_dim / 2
        || !std::all_of(config.divisors.begin(), config.divisors.end(), is_divisor))
      throw kernel_error("rope: longrope takes a positive divisor for each pair");
  }
  if (config.scaling != rope_scaling::none && (!(config.factor > 0.0) || !std::isfinite(config.factor)))
    throw kernel_error("rope: scaling factor must be positive");
  const bool stretched = config.scaling == rope_scaling::yarn || config.scaling == rope_scaling::llama3;
  if (stretched && !(config.original_max_positions > 0.0))
    throw kernel_error("rope: original_max_position_embeddings must be positive");
  if (config.scaling == rope_scaling::llama3 && !(config.high_freq_factor >= config.low_freq_factor))
    throw kernel_error("rope: high_freq_factor must not be below low_freq_factor");
}

double yarn_mscale(double scale, double mscale) {
  return scale <= 1.0 ? 1.0 : 0.1 * mscale * portable_log(scale) + 1.0;
}

// The dimension whose wave turns `rotations` times over the original context (transformers'
// find_correction_dim).
double yarn_correction_dim(const rope_config& config, double rotations) {
  const auto dim = static_cast<double>(config.rotary_dim);
  return dim * portable_log(config.original_max_positions / (rotations * 2.0 * std::numbers::pi))
         / (2.0 * portable_log(config.base));
}

void stretch_yarn(const rope_config& config, std::vector<double>& frequencies) {
  double low = yarn_correction_dim(config, config.beta_fast);
  double high = yarn_correction_dim(config, config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(config.rotary_dim) - 1.0);
  if (low == high)
    high += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / config.factor * ramp + frequencies[i] * (1.0 - ramp);
  }
}

void stretch_llama3(const rope_config& config, std::vector<double>& frequencies) {
  const double low_wavelength = config.original_max_positions / config.low_freq_factor;
  const double high_wavelength = config.original_max_positions / config.high_freq_factor;
  for (double& frequency : frequencies) {
    const double wavelength = 2.0 * std::numbers::pi / frequency;
    if (wavelength > low_wavelength) {
      frequency /= config.factor;
    } else if (wavelength > high_wavelength) {
      const double smooth = (config.original_max_positions / wavelength - config.low_freq_factor)
                            / (config.high_freq_factor - config.low_freq_factor);
      frequency = (1.0 - smooth) * frequency / config.factor + smooth * frequency;
    }
  }
}

} // namespace

std::vector<double> rope_inverse_frequencies(const rope_config& config) {
  check(config);
  std::vector<double> frequencies(config.rotary_dim / 2);
  const double log_base = portable_log(config.base);
  for (std::size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] =
        portable_exp(-(static_cast<double>(2 * i) / static_cast<double>(config.rotary_dim)) * log_base);
  switch (config.scaling) {
  case rope_scaling::none:
    break;
  case rope_scaling::linear:
    for (double& frequency : frequencies)
      frequency /= config.factor;
    break;
  case rope_scaling::yarn:
    stretch_yarn(config, frequencies);
    break;
  case rope_scaling::llama3:
    stretch_llama3(config, frequencies);
    break;
  case rope_scaling::longrope:
    for (std::size_t i = 0; i < frequencies.size(); ++i)
      frequencies[i] /= config.divisors[i];
    break;
  }
  return frequencies;
}

double rope_attention_factor(const rope_config& config) {
  if (config.scaling == rope_scaling::longrope)
    return config.attention_factor.value_or(1.0);
  if (config.scaling != rope_scaling::yarn)
    return 1.0;
  if (config.attention_factor)
    return *config.attention_factor;
  // As in Python, a zero counts as absent.
  if (config.mscale.value_or(0.0) != 0.0 && config.mscale_all_dim.value_or(0.0) != 0.0)
    return yarn_mscale(config.factor, *config.mscale) / yarn_mscale(config.factor, *config.mscale_all_dim);
  return yarn_mscale(config.factor, 1.0);
}

double rope_softmax_factor(const rope_config& config) {
  if (config.scaling != rope_scaling::yarn || config.mscale_all_dim.value_or(0.0) == 0.0)
    return 1.0;
  const double factor = yarn_mscale(config.factor, *config.mscale_all_dim);
  return factor * factor;
}

} // namespace troupe::kernels
