// The state of a worker's membership, for the probes of its process.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

#include "actors/protocol/cluster_messages.hpp"

namespace troupe {

/// Written by the member, read by /ready and /health on other threads. Thread-safe.
class member_pulse {
 public:
  using clock = std::chrono::steady_clock;

  /// The scheduler has accepted the worker.
  void joined();

  /// The worker holds what its joining assigned to it. It stays ready until it leaves or is fenced, even
  /// without a scheduler.
  void ready();

  /// The scheduler has declared the worker dead: it is not ready until it has joined again and is ready
  /// again.
  void fenced();

  /// The worker is not, or no longer, in the cluster.
  /// @param why  for operators: "looks for a scheduler"
  void apart(std::string why);

  /// The worker is about to leave, and accepts no new work.
  void leaves();

  /// The worker actor has reported its load.
  void heard(clock::time_point now, const engine_progress& engine);

  /// Why /ready must fail; empty: the worker is ready.
  std::string why_not_ready() const;

  /// Why the process must be replaced; empty: no known reason. A worker outside the cluster is not asked for
  /// its load, so its silence is no reason.
  std::string flaw(clock::time_point now) const;

 private:
  mutable std::mutex mutex_;
  std::string apart_ = "looks for a scheduler"; ///< empty: it has joined
  bool is_ready_ = false;
  bool leaves_ = false;
  std::optional<clock::time_point> heard_; ///< last report since it joined
  engine_progress engine_;
};

} // namespace troupe
