// What the workers of a cluster must have in common.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/protocol/cluster_messages.hpp"

namespace troupe {

/// What the workers of a cluster share; empty fields are not known yet. Numerics classes are shared by role:
/// the replicas of an expert, and the attention workers that a request may fail over to.
struct model_identity {
  std::string fingerprint;
  std::string attention_class;
  std::string expert_class;
  std::vector<std::uint32_t> layer_experts; ///< [layers]
  std::string config_id{};                  ///< as reported by a present worker; not stored

  /// Of a role that computes.
  std::string& numerics_class(worker_role role) {
    return role == worker_role::attention ? attention_class : expert_class;
  }

  const std::string& numerics_class(worker_role role) const {
    return role == worker_role::attention ? attention_class : expert_class;
  }

  bool operator==(const model_identity&) const = default;
};

} // namespace troupe
