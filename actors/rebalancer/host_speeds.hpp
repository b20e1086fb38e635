// How fast expert hosts compute, by what they say of their work. Pure.
#pragma once

#include <map>

#include "actors/cluster/cluster_messages.hpp"

namespace troupe {

/// A host's speed is the cluster's median time for one expert of one step, over its own. Steps of more rows
/// take longer, but on all hosts alike.
///
/// Times are smoothed over observations that have some work in them. A speed changes only when it is off by
/// more than `dead_band`, so that noise moves no experts.
class host_speeds {
 public:
  /// @param work  since the host's start; counts that have gone back are a new beginning
  void observe(worker_id host, const expert_work& work);

  void forget_others(const std::map<worker_id, expert_work>& present);

  /// 1 for a host that is not known, or while fewer than two are.
  double speed(worker_id host) const;

  /// Median over hosts; 0: not known.
  double ns_per_run() const;

  /// Takes the smoothed times over into speeds.
  void settle();

 private:
  static constexpr uint64_t least_runs = 64; ///< in an observation that counts
  static constexpr double smoothing = 0.3;   ///< weight of the newest observation
  static constexpr double dead_band = 0.15;
  static constexpr double slowest = 0.1;
  static constexpr double fastest = 10;

  struct known_host {
    expert_work last;
    double ns_per_run = 0; ///< 0: not measured yet
    double speed = 1;
  };

  std::map<worker_id, known_host> hosts_;
};

} // namespace troupe
