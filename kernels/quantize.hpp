// Quantizes rows of weights to small integers, symmetrically. The only place that chooses the integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/isa.hpp"

namespace troupe::kernels {

/// w ≈ q · scale with q in −127 … 127: scale = max |w| / 127, rounded to nearest even.
/// @param weights  one output channel, finite
/// @param out      [weights.size()]
/// @returns scale; 0 (and all q 0) for a channel of zeros, or below 2⁻¹⁰⁰
float quantize_int8(std::span<const float> weights, std::int8_t* out);

/// w ≈ q · g · scale with q in −8 … 7: one integer g in −15 … 15 per group of `group` weights, one scale per
/// channel. The smallest squared error wins (the first among equals), over a few scales, and per group over
/// the integers around max |w| / 8 of both signs. |g| ≤ 15: −8 · 15 still fits a byte, so an unpacked matrix
/// is an int8 matrix, and integer sums over all of K stay exact.
/// @param weights       one output channel, finite
/// @param group         weights that share a g: 32 or 64; the last group may be shorter
/// @param out           [weights.size()]: q
/// @param group_scales  [⌈weights.size() / group⌉]: g
/// @param set           its kernels search; all sets find the same
/// @returns scale, as `quantize_int8`
float quantize_int4_groups(std::span<const float> weights, std::size_t group, std::int8_t* out,
                           std::int8_t* group_scales, isa set = isa::portable);

/// w ≈ q · scale with q in −8 … 7 and one scale, of either sign, per channel: the smallest squared error
/// among scales around max |w| / 8.
float quantize_int4(std::span<const float> weights, std::int8_t* out, isa set = isa::portable);

} // namespace troupe::kernels
