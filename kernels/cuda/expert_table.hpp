// Builds the table of each expert's (row, slot) pairs: a counting sort on the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device.hpp"

namespace troupe::kernels::cuda {

/// Marks a pair without an expert, and the place of such a pair.
inline constexpr std::uint32_t no_place = 0xffffffffU;

/// Pointers are to device memory.
struct expert_table_args {
  /// [pairs]: expert of row · top_k + slot. Values that are not below `num_experts` (`no_place`: a finished
  /// row, a slot of padding) are left out.
  const std::uint32_t* experts = nullptr;
  std::size_t pairs = 0;
  std::size_t num_experts = 0;
  /// [num_experts + 1]: the pairs of expert e are entries offsets[e] to offsets[e + 1].
  std::uint32_t* offsets = nullptr;
  /// [pairs]: row · top_k + slot, sorted by expert, stable; written up to offsets[num_experts].
  std::uint32_t* entries = nullptr;
  /// [pairs], or null: index of a pair in `entries`; `no_place` for those left out.
  std::uint32_t* positions = nullptr;
};

/// One block per expert, plus one for pairs without: it counts the pairs of lower experts, which gives its
/// start, and then writes its own in order. Reads the table twice per expert, from L2, instead of sorting a
/// one-hot matrix of it.
/// @source DeepSpeed-Inference § V.C (the table); "Who Says Elephants Can't Run" § 3.3, § 3.5 (the left out)
void build_expert_table(const stream& on, const expert_table_args& args);

} // namespace troupe::kernels::cuda
