// rebalancer_state: automatic looks and plans. Commands and changes are in rebalancer_state_changes.cpp.
#include "actors/rebalancer/rebalancer_state.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "actors/protocol/defaults.hpp"
#include "actors/protocol/error.hpp"
#include "actors/rebalancer/rebalancer_metrics.hpp"

namespace troupe {

namespace {

/// The history is judged at every Nth look at the fleet.
constexpr std::uint32_t looks_per_judgement = 5;

std::uint64_t num_copies_of(const fleet& hosts) {
  std::uint64_t sum = 0;
  for (auto experts : hosts.layer_experts)
    sum += experts;
  return sum * hosts.num_replicas;
}

/// The median room of the workers that have any.
std::uint64_t typical_room(const fleet& hosts) {
  std::vector<std::uint64_t> rooms;
  for (const auto& host : hosts.hosts)
    if (!host.leaves && host.max_experts > 0)
      rooms.push_back(host.max_experts);
  if (rooms.empty())
    return 0;
  const auto middle = rooms.begin() + static_cast<std::ptrdiff_t>((rooms.size() - 1) / 2);
  std::nth_element(rooms.begin(), middle, rooms.end());
  return *middle;
}

} // namespace

void rebalancer_state::start(pointer actor, fleet_actor fleet, history_actor history,
                             rebalancer_config config, planning_worker_actor worker, standing_orders orders) {
  self_ = actor;
  fleet_ = std::move(fleet);
  history_ = std::move(history);
  config_ = std::move(config);
  worker_ = std::move(worker);
  orders_ = std::move(orders);
  policy_ = rebalance_policy{config_.limits};
  wanted_ = wanted_workers{config_.wanted};
  tell_drained();
  with_history([self = self_](const history_snapshot& past) { self->state.tell_activity(past); },
               [](const caf::error&) {}); // sent again at every look
}

void rebalancer_state::event(const char* what, const std::string& text) const {
  if (config_.metrics)
    config_.metrics->on_event(what, text);
}

void rebalancer_state::with_fleet(std::function<void(const fleet_ptr&)> then,
                                  std::function<void(const caf::error&)> failed) {
  self_->request(fleet_, defaults::local_request, fleet_atom_v).then(std::move(then), std::move(failed));
}

void rebalancer_state::with_history(std::function<void(const history_snapshot&)> then,
                                    std::function<void(const caf::error&)> failed) {
  self_
      ->request(history_, defaults::local_request, history_atom_v,
                static_cast<std::uint32_t>(config_.planning.max_windows))
      .then(std::move(then), std::move(failed));
}

void rebalancer_state::with_plan(planning_task task, std::function<void(const planning_answer_ptr&)> then,
                                 std::function<void(const caf::error&)> failed) {
  self_->request(worker_, defaults::planning, std::make_shared<const planning_task>(std::move(task)))
      .then(std::move(then), std::move(failed));
}

planning_task rebalancer_state::task_for(planning_task::goal what, const fleet_ptr& hosts,
                                         history_snapshot past) const {
  planning_task task;
  task.what = what;
  task.hosts = hosts;
  task.history = std::move(past);
  task.orders = orders_;
  task.speed = [speeds = speeds_](worker_id id) { return speeds.speed(id); }; // a copy for the other thread
  task.ns_per_run = speeds_.ns_per_run();
  return task;
}

void rebalancer_state::tick() {
  ++ticks_;
  if (is_busy_)
    return;
  is_busy_ = true;
  auto* self = self_;
  with_fleet(
      [self](const fleet_ptr& hosts) {
        auto& state = self->state;
        if (hosts->layer_experts.empty() || hosts->hosts.empty())
          state.end_round(); // no fleet to plan for
        else
          state.look(hosts);
      },
      [self](const caf::error&) { self->state.end_round(); });
}

void rebalancer_state::look(const fleet_ptr& hosts) {
  if (ticks_ % looks_per_judgement != 0) {
    consider(hosts, std::nullopt);
    return;
  }
  count_wanted(hosts, observe(hosts));
  auto* self = self_;
  with_history([self, hosts](const history_snapshot& past) { self->state.judge(hosts, past); },
               [self, hosts](const caf::error&) { self->state.consider(hosts, std::nullopt); });
}

std::optional<double> rebalancer_state::observe(const fleet_ptr& hosts) {
  std::map<worker_id, expert_work> work;
  for (const auto& host : hosts->hosts)
    work[host.id] = host.work;
  speeds_.forget_others(work);
  const auto elapsed = now() - looked_;
  looked_ = now();
  std::optional<double> load;
  std::map<worker_id, std::uint64_t> busy;
  for (const auto& [id, done] : work) {
    speeds_.observe(id, done);
    busy[id] = done.busy_ns;
    const auto before = busy_.find(id);
    if (before == busy_.end() || done.busy_ns < before->second || elapsed.count() <= 0)
      continue;
    const auto share =
        static_cast<double>(done.busy_ns - before->second) / static_cast<double>(elapsed.count());
    load = load.value_or(0) + std::min(share, 1.0) * speeds_.speed(id);
  }
  busy_ = std::move(busy);
  speeds_.settle();
  return load;
}

void rebalancer_state::count_wanted(const fleet_ptr& hosts, std::optional<double> load) {
  wanted_workers::look seen;
  seen.load = load;
  seen.num_copies = num_copies_of(*hosts);
  seen.worker_room = typical_room(*hosts);
  seen.num_replicas = hosts->num_replicas;
  for (const auto& host : hosts->hosts)
    seen.num_workers += host.leaves ? 0 : 1;
  seen.is_settled = hosts->is_settled;
  const auto count = wanted_.observe(seen, now());
  if (count && config_.metrics)
    config_.metrics->on_wanted_workers(*count);
}

void rebalancer_state::judge(const fleet_ptr& hosts, const history_snapshot& past) {
  if (past.windows.empty() || past.age_ms == known_age_ms_) {
    consider(hosts, imbalance_);
    return;
  }
  known_age_ms_ = past.age_ms;
  ++known_windows_;
  tell_activity(past);
  auto* self = self_;
  with_plan(
      task_for(planning_task::goal::look, hosts, past),
      [self, hosts](const planning_answer_ptr& answer) {
        auto& state = self->state;
        const auto& seen = answer->before;
        state.imbalance_ = seen.even_ns > 0 ? seen.busiest_ns / seen.even_ns : 1;
        if (state.config_.metrics)
          state.config_.metrics->on_look(*state.imbalance_, seen.mean_max_share);
        state.consider(hosts, state.imbalance_);
      },
      [self](const caf::error& error) {
        self->state.event("plan-failed", text_of(error));
        self->state.end_round();
      });
}

void rebalancer_state::tell_activity(const history_snapshot& past) {
  if (past.layer_experts.empty())
    return; // nothing was counted
  expert_activity counts;
  for (const auto& layer : past.decayed) {
    auto& rows = counts.rows.emplace_back();
    for (const auto decayed : layer)
      rows.push_back(static_cast<std::uint64_t>(decayed));
  }
  self_->send(fleet_, std::make_shared<const expert_activity>(std::move(counts)));
}

void rebalancer_state::consider(const fleet_ptr& hosts, std::optional<double> imbalance) {
  rebalance_policy::look seen;
  for (const auto& host : hosts->hosts)
    if (!host.leaves)
      seen.hosts.insert(host.id);
  seen.is_settled = hosts->is_settled;
  seen.is_planning = running_.has_value();
  seen.windows = known_windows_;
  seen.imbalance = imbalance;
  const auto reason = policy_.should_plan(seen, now());
  if (reason && config_.is_automatic && !orders_.is_paused)
    plan_for(*reason, hosts);
  else
    end_round();
}

void rebalancer_state::plan_for(const std::string& reason, const fleet_ptr& hosts) {
  auto* self = self_;
  const auto failed = [self](const caf::error& error) {
    self->state.event("plan-failed", text_of(error));
    self->state.end_round();
  };
  with_history(
      [self, reason, hosts, failed](const history_snapshot& past) {
        auto& state = self->state;
        state.with_plan(
            state.task_for(planning_task::goal::search, hosts, past),
            [self, reason, hosts](const planning_answer_ptr& answer) {
              self->state.adopt(reason, hosts, *answer);
              self->state.end_round();
            },
            failed);
      },
      failed);
}

void rebalancer_state::adopt(const std::string& reason, const fleet_ptr& hosts,
                             const planning_answer& answer) {
  const auto gain = answer.before.step_ns > 0 ? 1 - answer.after.step_ns / answer.before.step_ns : 0;
  // The search has weighed plans for coming and going workers against their cost. A plan because of an
  // imbalance, which may be noise in the windows, must gain more than that.
  const auto is_carried_out =
      answer.flaw.empty() && !answer.steps.empty()
      && (reason != "imbalance" || policy_.is_worth_it(answer.before.step_ns, answer.after.step_ns));
  policy_.planned(is_carried_out, now());
  if (config_.metrics)
    config_.metrics->on_plan(is_carried_out, gain);
  if (is_carried_out)
    begin_change(described(reason, *hosts, answer), *hosts, answer, false);
}

rebalancer_status rebalancer_state::status() const {
  const auto ppm = [](double share) { return static_cast<std::uint64_t>(std::max(0.0, share) * 1e6); };
  rebalancer_status result;
  result.mode = !config_.is_automatic ? planner_mode::off
                : orders_.is_paused   ? planner_mode::paused
                                      : planner_mode::on;
  if (running_)
    result.changes.push_back(progress_of(*running_));
  if (last_)
    result.changes.push_back(*last_);
  for (const auto& [expert, hosts] : orders_.pins)
    result.pins.push_back({expert, hosts});
  for (const auto& [expert, count] : orders_.replicas)
    result.replicas.push_back({expert, {std::to_string(count)}});
  result.drained = {orders_.drained.begin(), orders_.drained.end()};
  result.imbalance_ppm = ppm(imbalance_.value_or(0));
  result.wanted_workers = wanted_.current().value_or(0);
  return result;
}

} // namespace troupe
