// Rotary position embeddings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/context.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// Which elements form the rotated pairs.
enum class rope_style : std::uint8_t {
  rotate_half, ///< (i, i + rotary_dim / 2): Hugging Face
  interleaved, ///< (2i, 2i + 1): GPT-J, original Llama, DeepSeek, ERNIE, Llama 4
};

/// How frequencies are stretched for long contexts. None depends on the sequence's length.
enum class rope_scaling : std::uint8_t { none, linear, yarn, llama3, longrope };

/// The fields of Hugging Face's `rope_scaling`, resolved by the caller (defaults are transformers').
struct rope_config {
  /// Elements of a head that rotate (head_dim · partial_rotary_factor); even.
  std::size_t rotary_dim = 0;
  /// `rope_theta`.
  double base = 10000.0;
  rope_scaling scaling = rope_scaling::none;
  double factor = 1.0;
  /// `original_max_position_embeddings` (yarn, llama3).
  double original_max_positions = 0.0;
  /// yarn, longrope
  std::optional<double> attention_factor{};
  /// yarn
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  std::optional<double> mscale{};
  std::optional<double> mscale_all_dim{};
  bool truncate = true;
  /// llama3
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  /// longrope: [rotary_dim / 2], the divisors of the frequencies. The caller chooses `short_factor` or
  /// `long_factor`, for all positions of a table.
  std::vector<double> divisors{};
};

/// Angle per position of each of the rotary_dim / 2 pairs, by transformers' `ROPE_INIT_FUNCTIONS`, in double,
/// with plain operations only (no libm).
/// @throws kernel_error  the configuration is invalid
std::vector<double> rope_inverse_frequencies(const rope_config& config);

/// The factor of cos and sin: 1, or that of yarn or longrope.
double rope_attention_factor(const rope_config& config);

/// What yarn multiplies the softmax scale of MLA with, independently of that factor: the square of
/// 0.1 · mscale_all_dim · ln(factor) + 1, or 1 without `mscale_all_dim`.
double rope_softmax_factor(const rope_config& config);

/// cos and sin per (position, pair), computed in double and rounded once: the same bits on every machine.
class rope_table {
 public:
  rope_table() = default;

  /// @throws kernel_error  the configuration is invalid
  rope_table(const rope_config& config, std::size_t positions);

  std::size_t positions() const { return positions_; }

  std::size_t rotary_dim() const { return 2 * pairs_; }

  /// [rotary_dim / 2]
  const float* cos_at(std::size_t position) const { return cos_.data() + position * pairs_; }

  const float* sin_at(std::size_t position) const { return sin_.data() + position * pairs_; }

 private:
  std::size_t positions_ = 0;
  std::size_t pairs_ = 0;
  std::vector<float> cos_;
  std::vector<float> sin_;
};

struct rope_args {
  /// [rows, heads · head_dim], f32, rotated in place; only rotary_dim elements of each head change.
  tensor_view rows;
  std::size_t heads = 0;
  std::size_t head_dim = 0;
  /// One per row, below `table->positions()`.
  std::span<const std::uint32_t> positions;
  const rope_table* table = nullptr;
  rope_style style = rope_style::rotate_half;
  /// The first of those: 0, or head_dim − rotary_dim where the last ones rotate (MLA).
  std::size_t first = 0;
};

/// a' = fma(a, cos, −(b · sin)), b' = fma(b, cos, a · sin) for every pair (a, b).
void rope(context& ctx, const rope_args& args);

} // namespace troupe::kernels
