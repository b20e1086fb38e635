// scheduler_state: workers that are dead to the cluster though their connections stand.
#include <algorithm>

#include "actors/scheduler/scheduler_state.hpp"

namespace troupe {

namespace {

/// Hung workers that the operator was told of, and that one scheduler remembers; forgetting costs an event.
constexpr size_t max_told_hung = 4096;

} // namespace

caf::error scheduler_state::check_engine(const worker_hello& hello) {
  const auto id = hello.address.id;
  if (!hello.engine.is_stalled()) {
    told_hung_.erase(id);
    return {};
  }
  auto hangs = make_error(ec::not_ready, "'" + hello.address.name
                                             + "' cannot join: its engine has been in one step for "
                                             + seconds_text(hello.engine.oldest_step_ms));
  if (tell_hung(id)) // it asks every second
    event("worker-refused", text_of(hangs));
  return hangs;
}

bool scheduler_state::tell_hung(worker_id id) {
  if (told_hung_.size() >= max_told_hung)
    told_hung_.clear();
  return told_hung_.insert(id).second;
}

void scheduler_state::fence_hung(worker_id id, const engine_progress& engine) {
  tell_hung(id);
  fence(id, fence_reason::engine,
        "has had its engine in one step for " + seconds_text(engine.oldest_step_ms)
            + ", and no step may take longer than " + seconds_text(engine.step_limit_ms)
            + ": look at its processors and its device, and at the disk or network file system of its model, "
              "from which weights are read while it computes");
}

void scheduler_state::fence(worker_id id, fence_reason reason, const std::string& why) {
  self_->send(contacts_.at(id).member, fence_atom_v);
  if (config_.metrics)
    config_.metrics->on_fenced(reason);
  if (reason != fence_reason::lease)
    event("worker-hung", described(members_.find(id)->hello.address) + " " + why);
  remove_worker(id, reason == fence_reason::lease ? why : "is fenced");
}

void scheduler_state::fence_the_accused() {
  if (was_held_up() || is_recovering())
    return; // what they say waits to be read, or to be said
  if (const auto accused = hangs_.next(now(), [this](worker_id id) { return is_replaceable(id); }))
    fence(accused->worker, fence_reason::unanswered,
          accused->why + ": look at it, and at the network between them");
}

bool scheduler_state::is_replaceable(worker_id id) const {
  const auto* member = members_.find(id);
  if (member == nullptr || member->hello.address.role == worker_role::attention)
    return members_.count(worker_role::attention) > 1;
  const auto has_other = [id](const expert_hosts& expert) {
    return expert.hosts.empty() || expert.hosts != std::vector{id};
  };
  const auto& layers = published_.experts.layers;
  return std::all_of(layers.begin(), layers.end(), [&](const layer_placement_ptr& layer) {
    return std::all_of(layer->experts.begin(), layer->experts.end(), has_other);
  });
}

} // namespace troupe
