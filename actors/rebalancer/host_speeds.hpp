// The speeds of expert hosts, from their reports of work done. Pure.
#pragma once

#include <map>

#include "actors/protocol/cluster_messages.hpp"

namespace troupe {

/// A host's speed is the cluster's median time for one expert of one step, divided by its own. Steps with
/// more rows take longer, but equally on all hosts.
///
/// Times are smoothed over observations with enough work. A speed changes only if it is off by more than
/// `dead_band`, so that noise moves no experts.
class host_speeds {
 public:
  /// @param work  since the host's start; lower counts than before mean a restart
  void observe(worker_id host, const expert_work& work);

  void forget_others(const std::map<worker_id, expert_work>& present);

  /// 1 for an unknown host, or while fewer than two are known.
  double speed(worker_id host) const;

  /// Median over hosts; 0: not known.
  double ns_per_run() const;

  /// Updates the speeds from the smoothed times.
  void settle();

 private:
  static constexpr std::uint64_t least_runs = 64; ///< fewest in an observation
  static constexpr double smoothing = 0.3;        ///< weight of the newest observation
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
