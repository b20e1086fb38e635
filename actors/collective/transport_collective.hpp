// Collectives of processes that exchange actor messages: for values in the memory of the host.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <caf/fwd.hpp>

#include "actors/transport/caf/transport.hpp"
#include "kernels/collective.hpp"

namespace troupe {

/// Registers what ranks send to one another, beside `configure` of type_ids.hpp: no process of a cluster
/// sends it yet, so the table of message kinds does not have it.
void configure_collectives(caf::actor_system_config& config);

struct collective_config {
  /// Names the group; no other group of the cluster has or had this name.
  std::string group;
  std::size_t rank = 0;
  /// [num_ranks]: where each rank's transport listens. A rank's own is not used.
  std::vector<std::string> endpoints;
  /// Until all ranks have met.
  std::chrono::milliseconds join_timeout{30'000};
  /// For each exchange: an operation has one or two for each 16 MiB.
  std::chrono::milliseconds exchange_timeout{30'000};
};

/// Publishes this rank, finds all others and watches them. Calls wait until they are done, so not from an
/// actor; memory is the host's.
///
/// An operation is one exchange, in which every rank sends a part to every other, or two: a sum is computed
/// slice by slice, each slice by one rank, which then sends it to all others. Values are added in order of
/// ranks, in FP32, and rounded once, so the bits do not depend on which was first. A rank that leaves, dies
/// or is silent for `exchange_timeout` breaks the group, everywhere and for good. A rank may leave once its
/// last operation is done; its transport stays until the others' are done, too, or takes with it what it has
/// sent.
/// @param system  as `net` needs it, with `configure_collectives`; borrowed, as is `net`:
///                they outlive the result
/// @errors collective_error when not all ranks have met in time; std::invalid_argument for a rank that the
///         group does not have
std::unique_ptr<kernels::collective> join_collective(caf::actor_system& system, transport& net,
                                                     const collective_config& config);

} // namespace troupe
