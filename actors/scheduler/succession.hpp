// How a scheduler takes over its state directory: it waits until it may, takes a term, and reads what its
// predecessor has left.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/scheduler/cluster_store.hpp"
#include "actors/scheduler/scheduler_lease.hpp"

namespace troupe {

struct succession {
  std::unique_ptr<scheduler_lease> lease;
  std::optional<stored_cluster> cluster;
  std::vector<std::string> problems; ///< one sentence for each file that cannot be used
};

struct candidate {
  std::string state_dir;
  std::string name;        ///< of this scheduler
  bool is_standby = false; ///< waits as long as another scheduler is active
  /// Asked at each look, every defaults::standby_poll; may be empty.
  std::function<bool()> gives_up{};
  /// Called once when it has to wait for another scheduler; may be empty.
  std::function<void(const lease_holder& active)> on_waiting{};
};

/// Blocks: not for actors of the pool.
/// @returns nothing when the candidate gives up
/// @throws std::runtime_error  when another scheduler is active and this one is no standby, which is certain
/// after at most defaults::scheduler_lease, and when the state directory cannot be used
std::optional<succession> succeed(const candidate& who);

/// The same on a thread of its own, so that the caller does not hang with the file system; a thread that
/// hangs is left behind. `gives_up` is called by the caller's thread, `on_waiting` by the other one, which
/// may outlive the caller.
/// @throws as succeed(); std::runtime_error also when the file system does not answer: a candidate that is no
/// standby has neither succeeded nor failed within defaults::state_dir_wait
std::optional<succession> succeed_in_time(candidate who);

} // namespace troupe
