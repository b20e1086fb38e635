// rebalancer_state: operators' commands, and carrying out changes of the placement.
#include <algorithm>
#include <utility>
#include <variant>

#include "actors/protocol/defaults.hpp"
#include "actors/protocol/error.hpp"
#include "actors/rebalancer/rebalancer_metrics.hpp"
#include "actors/rebalancer/rebalancer_state.hpp"

namespace troupe {

namespace {

std::vector<std::string> names_of(const std::vector<worker_id>& ids, const fleet& hosts) {
  std::vector<std::string> result;
  for (auto id : ids) {
    const auto at = std::find_if(hosts.hosts.begin(), hosts.hosts.end(),
                                 [id](const fleet_host& host) { return host.id == id; });
    result.push_back(at == hosts.hosts.end() ? "?" : at->name);
  }
  return result;
}

worker_names names_of(const fleet& hosts) {
  worker_names result;
  for (const auto& host : hosts.hosts)
    result.insert(host.name);
  return result;
}

std::optional<worker_id> id_of(const std::string& name, const fleet& hosts) {
  for (const auto& host : hosts.hosts)
    if (host.name == name)
      return host.id;
  return std::nullopt;
}

/// The hosts that move and assign ask for. `apply` has validated the commands.
/// @returns the targets, or what is wrong with them
std::variant<std::vector<expert_target>, std::string> wanted_by(const placement_command& asked,
                                                                const fleet& hosts) {
  std::vector<expert_target> result;
  for (const auto& wanted : asked.experts) {
    std::set<worker_id> ids;
    for (const auto& name : wanted.hosts)
      if (const auto id = id_of(name, hosts))
        ids.insert(*id);
    if (asked.action == placement_action::move) {
      const auto& now = hosts.target[wanted.expert.layer][wanted.expert.index];
      const auto from = id_of(asked.worker, hosts);
      const auto to = *ids.begin();
      if (!from || std::find(now.begin(), now.end(), *from) == now.end())
        return "the expert is not on '" + asked.worker + "'";
      if (std::find(now.begin(), now.end(), to) != now.end())
        return "the expert is on '" + wanted.hosts.front() + "' already";
      ids.insert(now.begin(), now.end());
      ids.erase(*from);
    }
    result.push_back({wanted.expert, {ids.begin(), ids.end()}});
  }
  return result;
}

/// Commands that may wait for an earlier one, or for a look.
constexpr std::size_t max_waiting = 16;

bool changes_placement(placement_action action) {
  switch (action) {
  case placement_action::unpin:
  case placement_action::undrain:
  case placement_action::pause:
  case placement_action::resume:
    return false;
  default:
    return true;
  }
}

} // namespace

// ---------------------------------------------------------------------------------------------------------------
// Commands

caf::result<placement_change> rebalancer_state::command(const placement_command& asked) {
  auto to = self_->make_response_promise<placement_change>();
  if (waiting_.size() >= max_waiting) {
    to.deliver(make_error(ec::overloaded, std::to_string(max_waiting) + " commands wait already"));
    return to;
  }
  waiting_.emplace_back(asked, to);
  if (!is_busy_)
    next_command();
  return to;
}

void rebalancer_state::end_round() {
  is_busy_ = false;
  answering_.reset();
  if (!waiting_.empty())
    next_command();
}

void rebalancer_state::next_command() {
  auto [asked, to] = std::move(waiting_.front());
  waiting_.pop_front();
  is_busy_ = true;
  answering_ = to;
  if (running_ && !asked.dry_run && changes_placement(asked.action)) {
    to.deliver(make_error(ec::not_ready, "change " + std::to_string(running_->what.id) + " is under way, "
                                             + std::to_string(running_->steps.num_left())
                                             + " experts are left; ask again when it is over, or pause"));
    end_round();
    return;
  }
  auto* self = self_;
  with_fleet(
      [self, asked = asked, to = to](const fleet_ptr& hosts) mutable {
        auto& state = self->state;
        auto applied = apply(state.orders_, asked, hosts->layer_experts, names_of(*hosts));
        if (const auto* flaw = std::get_if<std::string>(&applied))
          state.refuse(to, make_error(ec::bad_request, *flaw));
        else
          state.obey(asked, std::move(std::get<standing_orders>(applied)), hosts, to);
      },
      [self, to = to](const caf::error& error) mutable { self->state.refuse(to, error); });
}

void rebalancer_state::refuse(promise& to, const caf::error& error) {
  to.deliver(error);
  end_round();
}

void rebalancer_state::obey(const placement_command& asked, standing_orders orders, const fleet_ptr& hosts,
                            promise to) {
  auto* self = self_;
  const auto failed = [self, to](const caf::error& error) mutable { self->state.refuse(to, error); };
  if (!changes_placement(asked.action)) {
    if (asked.dry_run) {
      to.deliver(placement_change{});
      end_round();
      return;
    }
    save_orders(
        std::move(orders),
        [self, to, asked]() mutable {
          auto& state = self->state;
          if (asked.action == placement_action::pause && state.running_) {
            state.running_->steps.give_up();
            state.drive();
          }
          to.deliver(placement_change{});
          state.end_round();
        },
        failed);
    return;
  }
  if (hosts->layer_experts.empty() || hosts->target.empty()) {
    refuse(to,
           make_error(ec::not_ready, "the experts have no hosts yet; ask again when the cluster is ready"));
    return;
  }
  auto task = task_for(planning_task::goal::obey, hosts, {});
  task.orders = orders;
  switch (asked.action) {
  case placement_action::rebalance:
    task.what = planning_task::goal::search;
    break;
  case placement_action::move:
  case placement_action::assign: {
    task.what = planning_task::goal::assign;
    auto wanted = wanted_by(asked, *hosts);
    if (const auto* flaw = std::get_if<std::string>(&wanted)) {
      refuse(to, make_error(ec::bad_request, *flaw));
      return;
    }
    task.wanted = std::move(std::get<std::vector<expert_target>>(wanted));
    break;
  }
  case placement_action::replicate:
    task.exact_replicas = asked.experts.front().expert;
    break;
  default:
    break;
  }
  with_history(
      [self, task = std::move(task), asked, orders, hosts, to, failed](const history_snapshot& past) mutable {
        task.history = past;
        self->state.with_plan(
            std::move(task),
            [self, asked, orders, hosts, to](const planning_answer_ptr& answer) mutable {
              self->state.accept(asked, orders, hosts, *answer, to);
            },
            failed);
      },
      failed);
}

void rebalancer_state::accept(const placement_command& asked, const standing_orders& orders,
                              const fleet_ptr& hosts, const planning_answer& answer, promise to) {
  if (!answer.flaw.empty()) {
    refuse(to, make_error(ec::bad_request, answer.flaw));
    return;
  }
  auto change = described(to_string(asked.action), *hosts, answer);
  if (asked.dry_run) {
    to.deliver(std::move(change));
    end_round();
    return;
  }
  auto* self = self_;
  save_orders(
      orders,
      [self, change = std::move(change), hosts, answer, to, asked]() mutable {
        auto& state = self->state;
        if (!answer.steps.empty()) {
          state.begin_change(std::move(change), *hosts, answer, asked.action == placement_action::drain);
          to.deliver(state.running_ ? state.running_->what : state.last_->change);
        } else {
          state.tell_drained();
          to.deliver(std::move(change));
        }
        state.end_round();
      },
      [self, to](const caf::error& error) mutable { self->state.refuse(to, error); });
}

void rebalancer_state::save_orders(standing_orders orders, std::function<void()> then,
                                   std::function<void(const caf::error&)> failed) {
  if (orders == orders_) {
    then();
    return;
  }
  auto* self = self_;
  const auto drains_nobody_new = std::includes(orders_.drained.begin(), orders_.drained.end(),
                                               orders.drained.begin(), orders.drained.end());
  const auto saved = std::make_shared<const standing_orders>(std::move(orders));
  self_->request(worker_, defaults::slow_save, caf::put_atom_v, saved)
      .then(
          [self, saved, drains_nobody_new, then = std::move(then)] {
            self->state.orders_ = *saved;
            if (drains_nobody_new) // a newly drained worker is reported once its experts have moved
              self->state.tell_drained();
            then();
          },
          std::move(failed));
}

void rebalancer_state::tell_drained() {
  self_->send(fleet_, std::make_shared<const std::set<std::string>>(orders_.drained));
}

// ---------------------------------------------------------------------------------------------------------------
// Changes

placement_change rebalancer_state::described(const std::string& reason, const fleet& hosts,
                                             const planning_answer& answer) const {
  placement_change result;
  result.reason = reason;
  result.moves = answer.moves;
  result.bytes = answer.bytes;
  result.before = predicted(answer.before);
  result.after = predicted(answer.after);
  for (const auto& step : answer.steps)
    result.experts.push_back({step.expert, names_of(step.from, hosts), names_of(step.to, hosts)});
  return result;
}

void rebalancer_state::begin_change(placement_change what, const fleet& hosts, const planning_answer& answer,
                                    bool drains) {
  what.id = ++last_change_;
  auto& change = running_.emplace(running_change{}); // clang++ 14 rejects a default of a nested class here
  change.what = std::move(what);
  change.steps = change_steps{answer.steps, room_of(hosts)};
  for (const auto& step : answer.steps)
    change.bytes[step.expert] = gaining_hosts(step).size() * hosts.expert_bytes;
  change.begun = now();
  change.drains = drains;
  event("placement-change", "change " + std::to_string(change.what.id) + " (" + change.what.reason
                                + "): " + std::to_string(answer.steps.size()) + " experts, "
                                + std::to_string(change.what.moves) + " to be loaded, "
                                + std::to_string(change.what.bytes) + " bytes");
  drive();
}

void rebalancer_state::drive() {
  auto& change = *running_;
  auto* self = self_;
  for (auto& step : change.steps.begin()) {
    auto move = std::make_shared<expert_move>();
    move->to = {step.expert, step.to};
    move->from = step.from;
    self_->request(fleet_, defaults::expert_move, expert_move_ptr{std::move(move)})
        .then([self, id = change.what.id,
               expert = step.expert] { self->state.step_done(id, expert, caf::error{}); },
              [self, id = change.what.id, expert = step.expert](const caf::error& error) {
                self->state.step_done(id, expert, error);
              });
  }
  if (change.steps.is_stuck()) {
    event("placement-change-stuck",
          "change " + std::to_string(change.what.id) + ": " + std::to_string(change.steps.num_left())
              + " experts wait for room that no worker has; they stay where they are");
    change.steps.give_up();
  }
  if (config_.metrics)
    config_.metrics->on_moves_left(change.steps.num_left());
  if (change.steps.is_over())
    end_change();
}

void rebalancer_state::step_done(std::uint64_t id, expert_id expert, const caf::error& error) {
  if (!running_ || running_->what.id != id)
    return;
  if (error)
    event("move-given-up", "expert " + std::to_string(expert.index) + " of layer "
                               + std::to_string(expert.layer) + ": " + text_of(error));
  if (config_.metrics)
    config_.metrics->on_move(!error, error ? 0 : running_->bytes[expert]);
  running_->steps.end(expert, !error);
  drive();
}

void rebalancer_state::end_change() {
  last_ = progress_of(*running_);
  event("placement-changed", "change " + std::to_string(last_->change.id) + ": " + std::to_string(last_->done)
                                 + " experts moved, " + std::to_string(last_->given_up) + " given up, in "
                                 + std::to_string(last_->elapsed_ms) + " ms");
  if (running_->drains)
    tell_drained();
  running_.reset();
}

change_progress_status rebalancer_state::progress_of(const running_change& change) const {
  change_progress_status result;
  result.change = change.what;
  std::erase_if(result.change.experts,
                [&change](const expert_change& moved) { return !change.steps.is_in_flight(moved.expert); });
  result.done = change.steps.num_done();
  result.given_up = change.steps.num_given_up();
  result.left = change.steps.num_left();
  result.elapsed_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now() - change.begun).count());
  return result;
}

void rebalancer_state::shut_down() {
  const auto error = make_error(ec::shutting_down, "the scheduler is shutting down");
  if (answering_ && answering_->pending())
    answering_->deliver(error);
  for (auto& [asked, to] : waiting_)
    to.deliver(error);
  waiting_.clear();
}

} // namespace troupe
