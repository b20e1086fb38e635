// Which experts of a layer belong together, by how often one token chooses both. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe {

/// How often the same token chose two experts of one layer. Symmetric.
class coactivation {
 public:
  explicit coactivation(uint32_t num_experts = 0)
      : num_experts_(num_experts), counts_(size_t{num_experts} * num_experts) {}

  uint32_t num_experts() const { return num_experts_; }

  /// Counts tokens that chose both; with a == b, tokens that chose this one at all. Indices out of range are
  /// ignored.
  void add(uint32_t a, uint32_t b, float count);

  float between(uint32_t a, uint32_t b) const { return counts_[size_t{a} * num_experts_ + b]; }

  /// Tokens that chose the expert.
  float load(uint32_t expert) const { return between(expert, expert); }

 private:
  uint32_t num_experts_;
  std::vector<float> counts_; // [experts, experts]
};

/// Divides `experts` into groups of the given sizes, so that experts chosen by the same tokens share a group:
/// a token then touches fewer hosts. Greedy, then improved by exchanges.
///
/// @param experts  indices of the layer; each is put into exactly one group
/// @param sizes    [groups]; their sum is the number of experts
/// @param max_skew the most loaded group may have so many times its fair share of all loads; where the loads
///                 of single experts allow no such division, it has as little more as the greedy choice finds
/// @return [groups] ascending indices; equal arguments give equal groups
std::vector<std::vector<uint32_t>> group_experts(const coactivation& counts,
                                                 const std::vector<uint32_t>& experts,
                                                 const std::vector<uint32_t>& sizes, double max_skew = 1.15);

} // namespace troupe
