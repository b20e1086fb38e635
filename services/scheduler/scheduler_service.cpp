#include "services/scheduler/scheduler_service.hpp"

#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/scoped_actor.hpp>

#include "actors/error.hpp"
#include "services/process/stop_signal.hpp"

namespace troupe {

std::optional<succession> take_state(const scheduler_options& options, const std::string& name,
                                     std::function<void(const lease_holder& active)> on_waiting) {
  return succeed_in_time({.state_dir = options.state_dir,
                          .name = name,
                          .is_standby = options.standby,
                          .gives_up = stop_signal::is_pending,
                          .on_waiting = std::move(on_waiting)});
}

scheduler_service::scheduler_service(caf::actor_system& system, const scheduler_options& options,
                                     std::shared_ptr<scheduler_metrics> metrics,
                                     std::optional<succession> from)
    : system_(system) {
  scheduler_config config;
  config.num_replicas = options.replicas;
  config.min_expert_workers = options.expert_workers;
  config.max_queued_bytes = options.max_queued_bytes;
  config.max_num_queued_reqs = options.max_num_queued_reqs;
  config.allow_inexact = options.allow_inexact;
  config.state_dir = options.state_dir;
  config.metrics = std::move(metrics);
  actor_ = from ? spawn_scheduler(system, std::move(config), std::move(*from))
                : spawn_scheduler(system, std::move(config));
  caf::actor_cast<caf::strong_actor_ptr>(actor_)->get()->attach_functor([](const caf::error& reason) {
    if (code_of(reason) == ec::stale_term) {
      stop_signal::raise_fault();
    }
  });
}

scheduler_service::~scheduler_service() {
  stop();
}

void scheduler_service::stop() {
  if (!actor_) {
    return;
  }
  caf::scoped_actor self(system_);
  self->monitor(actor_);
  self->send_exit(actor_, caf::exit_reason::user_shutdown);
  self->receive([](const caf::down_msg&) {}, caf::after(std::chrono::seconds{5}) >> [] {});
  actor_ = nullptr;
}

} // namespace troupe
