#include "actors/scheduler/failure_detector.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "actors/protocol/error.hpp"

namespace troupe {

namespace {

/// Hung workers that one scheduler remembers; forgetting costs an event.
constexpr std::size_t max_told_hung = 4096;

/// Would the cluster go on without this worker?
bool is_replaceable(worker_id id, const member_table& members, const cluster_view& view) {
  const auto* member = members.find(id);
  if (member == nullptr || member->hello.address.role == worker_role::attention)
    return members.count(worker_role::attention) > 1;
  const auto has_other = [id](const expert_hosts& expert) {
    return expert.hosts.empty() || expert.hosts != std::vector{id};
  };
  const auto& layers = view.experts.layers;
  return std::all_of(layers.begin(), layers.end(), [&](const layer_placement_ptr& layer) {
    return std::all_of(layer->experts.begin(), layer->experts.end(), has_other);
  });
}

} // namespace

time_point::duration failure_detector::tick(time_point now) {
  const auto late = now - next_tick_;
  next_tick_ = now + defaults::scheduler_tick;
  if (late <= defaults::lease_interval)
    return {};
  held_up_until_ = now + defaults::lease;
  hangs_.extend(late, now);
  return late;
}

bool failure_detector::was_held_up(time_point now) const {
  return now < held_up_until_ || now - next_tick_ > defaults::lease_interval;
}

caf::error failure_detector::check_engine(const worker_hello& hello) {
  if (hello.engine.is_stalled())
    return make_error(ec::not_ready, "'" + hello.address.name
                                         + "' cannot join: its engine has been in one step for "
                                         + seconds_text(hello.engine.oldest_step_ms));
  told_hung_.erase(hello.address.id);
  return {};
}

bool failure_detector::tell_hung(worker_id id) {
  if (told_hung_.size() >= max_told_hung)
    told_hung_.clear();
  return told_hung_.insert(id).second;
}

std::optional<failure_detector::verdict> failure_detector::next_dead(const member_table& members,
                                                                     const cluster_view& view,
                                                                     bool is_recovering, time_point now) {
  if (const auto expired = members.expired(now); !expired.empty())
    return verdict{expired.front(), fence_reason::lease, "has not renewed its lease"};
  // After a standstill, and in a recovery, what would clear the accused waits to be read or to be said.
  if (was_held_up(now) || is_recovering)
    return std::nullopt;
  const auto accused = hangs_.next(now, [&](worker_id id) { return is_replaceable(id, members, view); });
  if (!accused)
    return std::nullopt;
  return verdict{accused->worker, fence_reason::unanswered,
                 accused->why + ": look at it, and at the network between them"};
}

operator_event late_event(time_point::duration late) {
  return {"scheduler-late",
          std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(late).count())
              + " ms late: this process did not get to run, so no worker was declared dead meanwhile, and "
                "deaths of workers are noticed as much later. Give it processor time: a limit that is too "
                "low, a machine that swaps, or one that was suspended"};
}

std::string hang_text(const engine_progress& engine) {
  return "has had its engine in one step for " + seconds_text(engine.oldest_step_ms)
         + ", and no step may take longer than " + seconds_text(engine.step_limit_ms)
         + ": look at its processors and its device, and at the disk or network file system of its model, "
           "from which weights are read while it computes";
}

} // namespace troupe
