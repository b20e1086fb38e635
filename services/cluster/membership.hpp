// The membership of a worker actor in its cluster: joins at construction, leaves in stop().
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
#include "services/cluster/service_site.hpp"
#include "services/log/process_log.hpp"
#include "services/metrics/endpoint.hpp"

namespace troupe {

/// Spawns the member actor of a worker. If the scheduler refuses the worker for good (another model, another
/// numerics class), logs the reason and stops this process with exit status 1.
class membership {
 public:
  /// @param worker  at `site`, whose address has its role
  /// @param pulse   gets the state of the membership
  membership(const service_site& site, caf::strong_actor_ptr worker,
             std::shared_ptr<member_pulse> pulse = nullptr);
  /// Calls stop() without patience.
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

/// The answers of a worker's /ready and /health.
metrics::probes probes_of(std::shared_ptr<const member_pulse> pulse);

} // namespace troupe
