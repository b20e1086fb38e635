// How a worker's membership stands, as its process' probes see it.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

#include "actors/cluster/cluster_messages.hpp"

namespace troupe {

/// Written by the member, read by /ready and /health on other threads. Thread-safe.
class member_pulse {
 public:
  using clock = std::chrono::steady_clock;

  /// The scheduler has taken the worker in.
  void joined();

  /// The worker is not in the cluster, or no longer. @param why  for operators: "looks for a scheduler"
  void apart(std::string why);

  /// The worker actor has said its load.
  void heard(clock::time_point now, const engine_progress& engine);

  /// Why /ready is to be refused; empty: the worker has joined.
  std::string why_not_ready() const;

  /// Why the process is to be replaced; empty: nothing is known against it. A worker that is not in the
  /// cluster is asked nothing, and so has nothing against it.
  std::string flaw(clock::time_point now) const;

 private:
  mutable std::mutex mutex_;
  std::string apart_ = "looks for a scheduler"; ///< empty: it has joined
  std::optional<clock::time_point> heard_;      ///< since it joined
  engine_progress engine_;
};

} // namespace troupe
