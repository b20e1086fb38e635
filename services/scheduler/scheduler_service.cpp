#include "services/scheduler/scheduler_service.hpp"

#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include "services/history/history_json.hpp"

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

void check_history(const scheduler_options& options, const std::string& fingerprint) {
  if (options.history_file.empty()) {
    return;
  }
  const auto history = read_history_file(options.history_file);
  if (history.fingerprint != fingerprint) {
    throw option_error("--history: " + options.history_file + " is of model " + history.fingerprint
                       + ", not of " + fingerprint + ", which is served");
  }
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
  config.metrics = metrics;
  history_config past;
  past.state_dir = options.state_dir;
  if (!options.history_file.empty()) {
    past.seed = [file = options.history_file] { return read_history_file(file); };
  }
  past.on_event = [metrics](const char* name, const std::string& text) {
    if (metrics) {
      metrics->on_event(name, text);
    }
  };
  history_ = spawn_history(system, std::move(past)); // first: what is wrong with the file ends the program
  try {
    actor_ = from ? spawn_scheduler(system, std::move(config), std::move(*from))
                  : spawn_scheduler(system, std::move(config));
  } catch (...) {
    caf::anon_send_exit(history_, caf::exit_reason::kill);
    throw;
  }
  caf::actor_cast<caf::strong_actor_ptr>(actor_)->get()->attach_functor(
      [history = history_](const caf::error& reason) {
        if (code_of(reason) == ec::stale_term) {
          caf::anon_send_exit(history, caf::exit_reason::kill); // the history on disk is the successor's now
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
  self->monitor(history_);
  self->send_exit(actor_, caf::exit_reason::user_shutdown);
  self->send_exit(history_, caf::exit_reason::user_shutdown);
  bool in_time = true;
  for (int running = 2; running > 0 && in_time; --running) {
    self->receive([](const caf::down_msg&) {},
                  caf::after(std::chrono::seconds{5}) >> [&] { in_time = false; });
  }
  actor_ = nullptr;
  history_ = nullptr;
}

} // namespace troupe
