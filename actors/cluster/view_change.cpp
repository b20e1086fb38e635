#include "actors/cluster/view_change.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

namespace troupe {

namespace {

bool is_whole(const view_change& change) {
  return change.from_epoch == 0;
}

const auto comes_before = [](const worker_address& left, const worker_address& right) {
  return left.id < right.id;
};

template <class List, class Less>
bool is_strictly_ascending(const List& list, Less less) {
  return std::adjacent_find(list.begin(), list.end(),
                            [&less](const auto& left, const auto& right) { return !less(left, right); })
         == list.end();
}

bool layers_fit(std::size_t num_held, const view_change& change) {
  const auto& layers = change.layers;
  if (!is_strictly_ascending(layers, [](const changed_layer& left, const changed_layer& right) {
        return left.index < right.index;
      }))
    return false;
  if (std::any_of(layers.begin(), layers.end(), [&change](const changed_layer& changed) {
        return changed.layer == nullptr || changed.index >= change.num_layers;
      }))
    return false;
  // All new layers must be present, so the view grows by no more than was sent.
  const auto num_new = static_cast<std::size_t>(std::count_if(
      layers.begin(), layers.end(), [num_held](const auto& changed) { return changed.index >= num_held; }));
  return num_new == change.num_layers - std::min<std::size_t>(num_held, change.num_layers);
}

bool workers_fit(const std::vector<worker_address>& held, const view_change& change) {
  const auto is_held = [&held](worker_id id) {
    return std::binary_search(held.begin(), held.end(), worker_address{id, {}, {}, {}}, comes_before);
  };
  return is_strictly_ascending(change.joined, comes_before)
         && is_strictly_ascending(change.left, [](worker_id left, worker_id right) { return left < right; })
         && std::all_of(change.left.begin(), change.left.end(), is_held);
}

view_misfit misfit_of(const cluster_view& view, const view_change& change) {
  if (change.epoch <= change.from_epoch)
    return view_misfit::epoch;
  if (!is_whole(change)) {
    if (change.term != view.experts.term)
      return view_misfit::term;
    if (change.from_epoch != view.experts.epoch)
      return view_misfit::epoch;
  }
  const cluster_view nothing;
  const auto& from = is_whole(change) ? nothing : view;
  if (!layers_fit(from.experts.layers.size(), change))
    return view_misfit::layers;
  return workers_fit(from.workers, change) ? view_misfit::none : view_misfit::workers;
}

void add_workers(std::vector<worker_address>& workers, const std::vector<worker_address>& joined) {
  std::vector<worker_address> result;
  result.reserve(workers.size() + joined.size());
  auto held = workers.begin();
  for (const auto& address : joined) {
    const auto next = std::lower_bound(held, workers.end(), address, comes_before);
    result.insert(result.end(), std::make_move_iterator(held), std::make_move_iterator(next));
    held = next != workers.end() && next->id == address.id ? std::next(next) : next;
    result.push_back(address);
  }
  result.insert(result.end(), std::make_move_iterator(held), std::make_move_iterator(workers.end()));
  workers = std::move(result);
}

} // namespace

view_misfit apply(cluster_view& view, const view_change& change) {
  if (const auto misfit = misfit_of(view, change); misfit != view_misfit::none)
    return misfit;
  if (is_whole(change))
    view = {};
  view.experts.term = change.term;
  view.experts.epoch = change.epoch;
  view.experts.layers.resize(change.num_layers);
  for (const auto& [index, layer] : change.layers)
    view.experts.layers[index] = layer;
  if (!change.left.empty())
    std::erase_if(view.workers, [&left = change.left](const worker_address& worker) {
      return std::binary_search(left.begin(), left.end(), worker.id);
    });
  if (!change.joined.empty())
    add_workers(view.workers, change.joined);
  view.ready = change.ready;
  view.max_model_len = change.max_model_len;
  return view_misfit::none;
}

held_view::outcome held_view::take(const view_change& change, std::uint64_t min_term) {
  const moment told{change.term, change.epoch};
  if (change.epoch == 0 || change.term < min_term || told <= held())
    return outcome::old;
  if (apply(view_, change) == view_misfit::none)
    return outcome::taken;
  newest_heard_ = std::max(newest_heard_, told);
  return outcome::misfit;
}

} // namespace troupe
