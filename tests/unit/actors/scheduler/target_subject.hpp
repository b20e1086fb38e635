// A placement target under test, with its history as recorded by the test.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "actors/scheduler/placement_target.hpp"
#include "tests/unit/actors/scheduler/dice.hpp"

namespace troupe {

inline constexpr auto unlimited = UINT64_MAX;

using hosts_by_expert = std::map<expert_id, std::vector<worker_id>>;

struct target_subject {
  placement_target target;
  std::vector<std::uint32_t> layers;
  std::map<worker_id, std::uint64_t> memory;

  explicit target_subject(std::vector<std::uint32_t> layer_experts, std::uint32_t num_replicas = 1,
                          placement_workload workload = {})
      : target({num_replicas, workload}), layers(std::move(layer_experts)) {
    target.set_layers(layers);
  }

  void add(std::uint64_t id, std::uint64_t max_experts = unlimited, const std::string& topology = {}) {
    memory[{id}] = max_experts;
    target.add_host({id}, max_experts, topology);
  }

  void remove(std::uint64_t id) {
    memory.erase({id});
    target.remove_host({id});
  }

  hosts_by_expert hosts() const {
    hosts_by_expert result;
    for (std::uint32_t layer = 0; layer < layers.size(); ++layer)
      for (std::uint32_t index = 0; index < layers[layer]; ++index)
        result[{layer, index}] = target.hosts({layer, index});
    return result;
  }

  std::uint64_t num_experts() const {
    std::uint64_t result = 0;
    for (auto experts : layers)
      result += experts;
    return result;
  }

  std::uint64_t capacity() const {
    std::uint64_t result = 0;
    for (const auto& [id, max_experts] : memory)
      result += std::min(max_experts, num_experts());
    return result;
  }

  /// Experts of the layer by host, including zeros; of all layers for the number of layers.
  std::map<worker_id, std::uint32_t> loads(std::size_t layer) const {
    std::map<worker_id, std::uint32_t> result;
    for (const auto& [id, max_experts] : memory)
      result[id] = 0;
    for (const auto& [expert, hosts] : hosts())
      if (layer == layers.size() || expert.layer == layer)
        for (auto host : hosts)
          ++result[host];
    return result;
  }
};

/// Difference of the largest and the smallest load.
inline std::uint32_t range_of(const std::map<worker_id, std::uint32_t>& loads, bool without_zeros = false) {
  std::uint32_t most = 0;
  std::uint32_t least = UINT32_MAX;
  for (const auto& [id, load] : loads)
    if (load > 0 || !without_zeros) {
      most = std::max(most, load);
      least = std::min(least, load);
    }
  return least == UINT32_MAX ? 0 : most - least;
}

/// Replicas on hosts that did not have them before.
inline std::size_t moves_between(const hosts_by_expert& before, const hosts_by_expert& after) {
  std::size_t result = 0;
  for (const auto& [expert, hosts] : after)
    for (auto host : hosts) {
      const auto& old = before.at(expert);
      result += std::find(old.begin(), old.end(), host) == old.end() ? 1 : 0;
    }
  return result;
}

inline void expect_sound(const target_subject& s) {
  for (const auto& [expert, hosts] : s.hosts()) {
    ASSERT_TRUE(std::is_sorted(hosts.begin(), hosts.end()));
    ASSERT_TRUE(std::adjacent_find(hosts.begin(), hosts.end()) == hosts.end()) << "distinct hosts";
    for (auto host : hosts)
      ASSERT_TRUE(s.memory.contains(host)) << "a live host";
    if (s.capacity() >= s.num_experts())
      ASSERT_FALSE(hosts.empty()) << "(" << expert.layer << ", " << expert.index << ") is lost";
  }
  for (const auto& [id, load] : s.loads(s.layers.size())) {
    ASSERT_LE(load, s.memory.at(id));
    ASSERT_EQ(s.target.experts_of(id).size(), load);
  }
}

inline std::vector<std::uint32_t> random_layers(dice& random) {
  std::vector<std::uint32_t> result;
  for (auto layers = 1 + random.below(6); layers > 0; --layers)
    result.push_back(random.below(4) == 0 ? 0 : 1 + random.below(12));
  return result;
}

} // namespace troupe
