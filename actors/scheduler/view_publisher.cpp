#include "actors/scheduler/view_publisher.hpp"

#include <algorithm>
#include <utility>

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
  change.num_layers = static_cast<uint32_t>(view.experts.layers.size());
  change.layers.reserve(change.num_layers);
  for (uint32_t index = 0; index < change.num_layers; ++index)
    change.layers.push_back({index, view.experts.layers[index]});
  change.joined = view.workers;
  change.ready = view.ready;
  change.max_model_len = view.max_model_len;
  return in_all_forms(std::move(change));
}

view_messages view_publisher::change(const cluster_view& published,
                                     const placement_rollout::publication& next, const member_table& members,
                                     bool ready, uint32_t max_model_len,
                                     const std::vector<worker_address>& missed) {
  const auto changed = std::exchange(changed_workers_, {});
  if (published.experts.epoch == 0 || published.experts.term != next.experts.term) {
    cluster_view whole{next.experts, {}, ready, max_model_len};
    for (const auto& [id, member] : members.all())
      whole.workers.push_back(member.hello.address);
    whole.workers.insert(whole.workers.end(), missed.begin(), missed.end());
    std::sort(whole.workers.begin(), whole.workers.end(),
              [](const worker_address& left, const worker_address& right) { return left.id < right.id; });
    return whole_view(whole);
  }
  view_change change;
  change.term = next.experts.term;
  change.from_epoch = published.experts.epoch;
  change.epoch = next.experts.epoch;
  change.num_layers = static_cast<uint32_t>(next.experts.layers.size());
  for (auto index : next.changed_layers)
    change.layers.push_back({index, next.experts.layers[index]});
  for (auto id : changed) {
    const auto* known = find(published, id);
    if (const auto* member = members.find(id); member == nullptr) {
      const auto is_missed = std::any_of(missed.begin(), missed.end(),
                                         [id](const worker_address& worker) { return worker.id == id; });
      if (known != nullptr && !is_missed)
        change.left.push_back(id);
    } else if (known == nullptr || *known != member->hello.address) {
      change.joined.push_back(member->hello.address);
    }
  }
  change.ready = ready;
  change.max_model_len = max_model_len;
  return in_all_forms(std::move(change));
}

} // namespace troupe
