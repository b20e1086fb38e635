// Which process of a simulated cluster is its scheduler: the one that runs, or a standby that takes over when
// that one's lease is free or has not been renewed.

#include <utility>

#include "actors/history/history.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/protocol/error.hpp"
#include "actors/scheduler/scheduler_metrics.hpp"
#include "tests/simulation/cluster.hpp"

namespace troupe::simulation {

namespace {

using namespace std::chrono_literals;

// A process that has lost its lease ends, and its supervisor starts it again.
constexpr auto restart_pause = 1s;

/// Tells what a scheduler tells operators.
struct told_metrics : scheduler_metrics {
  told_metrics(std::string who, cluster::teller to) : name(std::move(who)), tell(std::move(to)) {}

  void on_requests(std::size_t, std::uint64_t, std::size_t) override {}

  void on_admitted(std::chrono::nanoseconds) override {}

  void on_refused(ec) override {}

  void on_published(const placement&, bool) override {}

  void on_fenced(fence_reason) override {}

  void on_event(const char* event, const std::string& text) override {
    tell("the " + name + " says " + event + ": " + text);
  }

  std::string name;
  cluster::teller tell;
};

} // namespace

std::vector<std::string> cluster::scheduler_machines() const {
  if (shape_.has_standby)
    return {"scheduler", "standby"};
  return {"scheduler"};
}

std::vector<std::string> cluster::scheduler_endpoints() const {
  std::vector<std::string> result;
  for (const auto& machine : scheduler_machines())
    result.push_back(network::endpoint_of(machine));
  return result;
}

bool cluster::is_lease_free(const std::string& machine) const {
  const auto& [holder, gate, has_lock] = lease_;
  if (!gate)
    return true;
  // A machine that is lost keeps its locks until it is back.
  if (gate->is_dead() && (!has_lock || holder == machine))
    return true;
  return world_.plans().now() - disk_->touched >= defaults::scheduler_lease;
}

void cluster::start_scheduler(const std::string& machine) {
  if (!shape_.has_standby || is_lease_free(machine)) {
    waiting_.erase(machine);
    lead(world_.start(machine, {}));
    return;
  }
  if (!waiting_.insert(machine).second)
    return;
  tell_(machine + " waits for the lease");
  await_lease(machine);
}

void cluster::await_lease(const std::string& machine) {
  world_.plans().after(defaults::standby_poll, [this, machine] {
    if (!waiting_.contains(machine))
      return;
    if (!is_lease_free(machine)) {
      await_lease(machine);
      return;
    }
    tell_(machine + " takes over");
    start_scheduler(machine);
  });
}

void cluster::lead(process& here) {
  const auto& machine = here.machine();
  scheduler_config config;
  config.num_replicas = shape_.num_replicas;
  config.min_expert_workers = shape_.num_hosts;
  config.metrics = std::make_shared<told_metrics>(machine, tell_);
  auto& added = leaders_[machine];
  if (shape_.keeps_state) {
    auto storage = spawn_memory_storage(here.system(), disk_, world_.plans());
    here.add(storage.writer);
    here.add(storage.keeper);
    config.term = disk_->term;
    added.scheduler = here.add(spawn_scheduler(here.system(), std::move(config), std::move(storage)));
  } else {
    added.scheduler = here.add(spawn_scheduler(here.system(), std::move(config)));
  }
  lease_ = {machine, here.gate(), true};
  const auto history = here.add(spawn_history(here.system(), {}));
  rebalancer_config planning;
  planning.is_automatic = false; // the schedule says what moves
  added.rebalancer =
      here.add(spawn_rebalancer(here.system(), fleet_of(added.scheduler), history, std::move(planning)));
  here.peers().publish("history", history);
  here.peers().publish("rebalancer", added.rebalancer);
  here.peers().publish("scheduler", added.scheduler);
  caf::actor_cast<caf::abstract_actor*>(added.scheduler)
      ->attach_functor([this, machine, gate = here.gate()](const caf::error& reason) {
        if (code_of(reason) == ec::stale_term)
          world_.plans().after(0ms, [this, machine, gate] { step_down(machine, gate); });
      });
}

void cluster::step_down(const std::string& machine, const process_gate_ptr& gate) {
  if (gate->is_dead())
    return;
  tell_(machine + " ends, since it has lost its lease");
  end(machine, ending::killed);
  world_.plans().after(restart_pause, [this, machine] { start(machine); });
}

std::string cluster::with_process(const std::string& machine) const {
  return waiting_.contains(machine) ? lease_.machine : machine;
}

std::string cluster::leading_machine() const {
  return lease_.gate && !lease_.gate->is_dead() ? lease_.machine : std::string{};
}

} // namespace troupe::simulation
