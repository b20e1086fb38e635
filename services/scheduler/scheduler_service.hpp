// The scheduler and what it says of itself.
#pragma once

#include <memory>

#include <caf/actor_system.hpp>

#include "actors/scheduler/scheduler.hpp"
#include "actors/scheduler/scheduler_metrics.hpp"
#include "services/options/role_options.hpp"

namespace troupe {

class scheduler_service {
 public:
  /// @throws std::runtime_error when the state directory cannot be used
  scheduler_service(caf::actor_system& system, const scheduler_options& options,
                    std::shared_ptr<scheduler_metrics> metrics);
  ~scheduler_service();
  scheduler_service(const scheduler_service&) = delete;
  scheduler_service& operator=(const scheduler_service&) = delete;

  /// To be published as "scheduler".
  const scheduler_actor& actor() const { return actor_; }

  /// Ends the actor. Idempotent.
  void stop();

 private:
  caf::actor_system& system_;
  scheduler_actor actor_;
};

} // namespace troupe
