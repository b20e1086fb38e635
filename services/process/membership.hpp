// A worker actor in its cluster: joined at construction, left and ended by stop().
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>
#include <caf/fwd.hpp>

#include "actors/cluster/member.hpp"
#include "actors/cluster/member_pulse.hpp"
#include "services/metrics/endpoint.hpp"
#include "services/process/process_log.hpp"
#include "services/process/service_site.hpp"

namespace troupe {

/// Spawns the member of a worker actor. When the scheduler says that this worker can never be part of the
/// cluster (another model, another numerics class), logs why and stops this process, whose exit
/// status will be 1.
class membership {
 public:
  /// @param worker  lives at `site`, whose address says its role
  /// @param pulse   hears how the membership stands
  membership(const service_site& site, caf::strong_actor_ptr worker,
             std::shared_ptr<member_pulse> pulse = nullptr);
  /// stop() without patience.
  ~membership();
  membership(const membership&) = delete;
  membership& operator=(const membership&) = delete;

  /// Leaves the cluster, waiting up to `patience` until nothing depends on the worker, then ends member and
  /// worker. Idempotent.
  /// @param when_left  called in between, unless there is no patience
  void stop(std::chrono::milliseconds patience, const std::function<void()>& when_left = {});

 private:
  caf::actor_system& system_;
  caf::strong_actor_ptr worker_;
  member_actor member_;
  process_log log_;
  bool stopped_ = false;
};

/// What a worker's /ready and /health say.
metrics::probes probes_of(std::shared_ptr<const member_pulse> pulse);

} // namespace troupe
