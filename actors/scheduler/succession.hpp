// How a scheduler comes to be the one of its state directory: it waits until it may, takes a term, and reads
// what its predecessor has left.
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
  bool is_standby = false; ///< waits for as long as another is active
  /// Asked at each look, every defaults::standby_poll; may be empty.
  std::function<bool()> gives_up{};
  /// Told once when it has to wait for somebody; may be empty.
  std::function<void(const lease_holder& active)> on_waiting{};
};

/// Blocks: not for actors of the pool.
/// @returns nothing when the candidate gives up
/// @errors throws `std::runtime_error`: when another one is active and this is no standby, which takes up to
/// defaults::scheduler_lease to be certain of, and when the state directory cannot be used
std::optional<succession> succeed(const candidate& who);

/// The same on a thread of its own, so that a file system that hangs holds up nobody; a thread that it has
/// caught is left behind. `gives_up` is asked by the caller's thread, `on_waiting` told by the other one,
/// which may outlive the caller.
/// @errors as succeed(); and one that says that the file system does not answer, when a candidate that is no
/// standby has neither succeeded nor failed within defaults::state_dir_wait
std::optional<succession> succeed_in_time(candidate who);

} // namespace troupe
