#include "actors/scheduler/view_desk.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "actors/cluster/view_change.hpp"

namespace troupe {

namespace {

view_messages in_all_forms(view_change change) {
  auto bare = change;
  bare.num_layers = 0;
  bare.layers.clear();
  return {shared_view_change{std::move(change)}, shared_view_change{std::move(bare)}};
}

/// Null where the view does not have the worker.
const worker_address* find(const cluster_view& view, worker_id id) {
  const auto found =
      std::lower_bound(view.workers.begin(), view.workers.end(), id,
                       [](const worker_address& worker, worker_id wanted) { return worker.id < wanted; });
  return found != view.workers.end() && found->id == id ? &*found : nullptr;
}

} // namespace

view_messages whole_view(const cluster_view& view) {
  view_change change;
  change.term = view.experts.term;
  change.epoch = view.experts.epoch;
  change.num_layers = static_cast<std::uint32_t>(view.experts.layers.size());
  change.layers.reserve(change.num_layers);
  for (std::uint32_t index = 0; index < change.num_layers; ++index)
    change.layers.push_back({index, view.experts.layers[index]});
  change.joined = view.workers;
  change.ready = view.ready;
  change.max_model_len = view.max_model_len;
  return in_all_forms(std::move(change));
}

operator_event readiness_event(bool is_ready, const member_table& members, std::uint64_t max_model_len) {
  return {is_ready ? "cluster-ready" : "cluster-not-ready",
          std::to_string(members.count(worker_role::attention)) + " attention workers, "
              + std::to_string(members.count(worker_role::expert)) + " expert workers, context of up to "
              + std::to_string(max_model_len) + " tokens"
              + (is_ready ? "" : "; every expert needs a host, and requests an attention worker")};
}

void view_desk::worker_changed(worker_id id) {
  changed_workers_.insert(id);
  has_changed_ = true;
}

void view_desk::restart_epochs() {
  epoch_ = 0;
  has_changed_ = true;
}

bool view_desk::has_just_published(time_point now) const {
  return last_publication_ && now - *last_publication_ < defaults::gather_changes;
}

shared_view_change view_desk::whole(worker_role role) {
  if (role == worker_role::expert)
    return {};
  if (!whole_)
    whole_ = whole_view(published_);
  return whole_->of(role);
}

view_messages view_desk::publish(const placement_rollout::publication& next, const member_table& members,
                                 summary now_is, const std::vector<worker_address>& missed, time_point now) {
  has_changed_ = false;
  last_publication_ = now;
  auto result = change(next, members, now_is, missed);
  [[maybe_unused]] const auto misfit = apply(published_, *result.with_layers);
  assert(misfit == view_misfit::none);
  whole_.reset();
  return result;
}

view_messages view_desk::change(const placement_rollout::publication& next, const member_table& members,
                                summary now_is, const std::vector<worker_address>& missed) {
  const auto changed = std::exchange(changed_workers_, {});
  if (published_.experts.epoch == 0 || published_.experts.term != next.experts.term) {
    cluster_view whole{next.experts, {}, now_is.ready, now_is.max_model_len};
    for (const auto& [id, member] : members.all())
      whole.workers.push_back(member.hello.address);
    whole.workers.insert(whole.workers.end(), missed.begin(), missed.end());
    std::sort(whole.workers.begin(), whole.workers.end(),
              [](const worker_address& left, const worker_address& right) { return left.id < right.id; });
    return whole_view(whole);
  }
  view_change change;
  change.term = next.experts.term;
  change.from_epoch = published_.experts.epoch;
  change.epoch = next.experts.epoch;
  change.num_layers = static_cast<std::uint32_t>(next.experts.layers.size());
  for (auto index : next.changed_layers)
    change.layers.push_back({index, next.experts.layers[index]});
  for (auto id : changed) {
    const auto* known = find(published_, id);
    if (const auto* member = members.find(id); member == nullptr) {
      const auto is_missed = std::any_of(missed.begin(), missed.end(),
                                         [id](const worker_address& worker) { return worker.id == id; });
      if (known != nullptr && !is_missed)
        change.left.push_back(id);
    } else if (known == nullptr || *known != member->hello.address) {
      change.joined.push_back(member->hello.address);
    }
  }
  change.ready = now_is.ready;
  change.max_model_len = now_is.max_model_len;
  return in_all_forms(std::move(change));
}

} // namespace troupe
