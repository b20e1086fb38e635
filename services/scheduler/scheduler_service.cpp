#include "services/scheduler/scheduler_service.hpp"

#include <utility>

#include <caf/scoped_actor.hpp>

namespace troupe {

scheduler_service::scheduler_service(caf::actor_system& system, const scheduler_options& options,
                                     std::shared_ptr<scheduler_metrics> metrics)
    : system_(system) {
  scheduler_config config;
  config.num_replicas = options.replicas;
  config.min_expert_workers = options.expert_workers;
  config.max_queued_bytes = options.max_queued_bytes;
  config.max_num_queued_reqs = options.max_num_queued_reqs;
  config.allow_inexact = options.allow_inexact;
  config.state_dir = options.state_dir;
  config.metrics = std::move(metrics);
  actor_ = spawn_scheduler(system, std::move(config));
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
