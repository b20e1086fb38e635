// Metric families of a process's transport.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "actors/transport/caf/transport.hpp"
#include "services/metrics/registry.hpp"

namespace troupe {

/// Access of metrics pages to the transport, until it is destroyed.
class shown_peers {
 public:
  explicit shown_peers(const transport& peers) : peers_(&peers) {}

  /// Call before the transport is destroyed. Waits for a reader in progress.
  void forget() {
    const std::lock_guard lock{mutex_};
    peers_ = nullptr;
  }

  /// Empty after `forget`.
  std::optional<transport_stats> stats() const {
    const std::lock_guard lock{mutex_};
    return peers_ == nullptr ? std::nullopt : std::optional{peers_->stats()};
  }

 private:
  mutable std::mutex mutex_;
  const transport* peers_;
};

/// Sums over all peers: one series per peer would grow quadratically with the cluster.
/// @param window_bytes  maximum unacknowledged bytes per peer and lane
void show_transport(metrics::registry& families, std::shared_ptr<const shown_peers> peers,
                    std::uint64_t window_bytes);

} // namespace troupe
