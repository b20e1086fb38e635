#include "services/scheduler/scheduler_service.hpp"

#include <cerrno>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include <unistd.h>

#include <caf/actor_cast.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include "services/history/history_json.hpp"

#include "actors/protocol/error.hpp"
#include "services/startup/stop_signal.hpp"

namespace troupe {

std::optional<succession> take_state(const scheduler_options& options, const std::string& name,
                                     std::function<void(const lease_holder& active)> on_waiting) {
  return succeed_in_time({.state_dir = options.state_dir,
                          .name = name,
                          .is_standby = options.standby,
                          .gives_up = stop_signal::is_pending,
                          .on_waiting = std::move(on_waiting)});
}

void check_state_dir(const scheduler_options& options) {
  if (options.state_dir.empty())
    return;
  std::error_code error;
  std::filesystem::create_directories(options.state_dir, error);
  if (!error && access(options.state_dir.c_str(), W_OK | X_OK) != 0)
    error = {errno, std::generic_category()};
  if (error)
    throw option_error("--state-dir: " + options.state_dir + " cannot be written: " + error.message());
}

void check_history(const scheduler_options& options, const std::string& fingerprint) {
  if (options.history_file.empty())
    return;
  const auto history = read_history_file(options.history_file);
  if (history.fingerprint != fingerprint) {
    throw option_error("--history: " + options.history_file + " is of model " + history.fingerprint
                       + ", not of " + fingerprint + ", which is served");
  }
}

scheduler_service::scheduler_service(caf::actor_system& system, const scheduler_options& options,
                                     std::shared_ptr<scheduler_metrics> metrics,
                                     std::shared_ptr<rebalancer_metrics> planner_metrics,
                                     std::optional<succession> from)
    : system_(system) {
  scheduler_config config;
  config.num_replicas = options.replicas;
  config.min_expert_workers = options.expert_workers;
  config.max_queued_bytes = options.max_queued_bytes;
  config.max_num_queued_reqs = options.max_num_queued_reqs;
  config.max_queue_wait = std::chrono::seconds{options.max_queue_wait};
  config.admission_quantile = options.admission_quantile;
  config.allow_inexact = options.allow_inexact;
  config.state_dir = options.state_dir;
  config.metrics = metrics;
  history_config past;
  past.state_dir = options.state_dir;
  if (!options.history_file.empty())
    past.seed = [file = options.history_file] { return read_history_file(file); };
  past.on_event = [metrics](const char* name, const std::string& text) {
    if (metrics)
      metrics->on_event(name, text);
  };
  std::function<bool()> is_deposed;
  if (!options.state_dir.empty())
    is_deposed = [directory = options.state_dir] { return is_led_by_another(directory); };
  past.is_deposed = is_deposed;
  rebalancer_config planner;
  planner.is_automatic = options.planner == "on";
  planner.planning.spare_copies = options.planner_spare;
  planner.limits.imbalance = options.planner_imbalance;
  planner.wanted.utilization = options.planner_utilization;
  planner.state_dir = options.state_dir;
  planner.is_deposed = is_deposed;
  planner.metrics = std::move(planner_metrics);
  history_ = spawn_history(system, std::move(past)); // first: a damaged file ends the program
  try {
    actor_ = from ? spawn_scheduler(system, std::move(config), std::move(*from))
                  : spawn_scheduler(system, std::move(config));
    rebalancer_ = spawn_rebalancer(system, fleet_of(actor_), history_, std::move(planner));
  } catch (...) {
    caf::anon_send_exit(history_, caf::exit_reason::kill);
    caf::anon_send_exit(actor_, caf::exit_reason::kill);
    throw;
  }
  caf::actor_cast<caf::strong_actor_ptr>(actor_)->get()->attach_functor(
      [history = history_, rebalancer = rebalancer_](const caf::error& reason) {
        if (code_of(reason) == ec::stale_term) {
          // History and standing orders on disk are the successor's now.
          caf::anon_send_exit(history, caf::exit_reason::kill);
          caf::anon_send_exit(rebalancer, caf::exit_reason::kill);
          stop_signal::raise_fault();
        }
      });
}

scheduler_service::~scheduler_service() {
  stop();
}

void scheduler_service::stop() {
  if (!actor_)
    return;
  caf::scoped_actor self(system_);
  const auto end = [&self](const auto& actor) {
    self->monitor(actor);
    self->send_exit(actor, caf::exit_reason::user_shutdown);
    self->receive([](const caf::down_msg&) {}, caf::after(std::chrono::seconds{5}) >> [] {});
  };
  end(rebalancer_);
  end(history_); // writes its counts while the scheduler still holds the lease
  end(actor_);
  actor_ = nullptr;
  history_ = nullptr;
  rebalancer_ = nullptr;
}

} // namespace troupe
