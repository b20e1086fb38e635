#include "actors/scheduler/placement_solver.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <tuple>

namespace troupe {

namespace {

/// Workers by index, ascending by id, with what is placed on them so far.
class placer {
 public:
  placer(const placement_problem& problem, const expert_placement& loaded)
      : loaded_(loaded), workers_(problem.workers) {
    std::sort(workers_.begin(), workers_.end(), [](const auto& l, const auto& r) { return l.id < r.id; });
    auto num_layers = problem.layer_experts.size();
    totals_.assign(workers_.size(), 0);
    layer_loads_.assign(num_layers, std::vector<uint64_t>(workers_.size(), 0));
    hosts_.resize(num_layers);
    for (size_t layer = 0; layer < num_layers; ++layer)
      hosts_[layer].resize(problem.layer_experts[layer]);
    num_replicas_ = std::min<size_t>(std::max<uint32_t>(problem.num_replicas, 1), workers_.size());
  }

  /// First every expert's first host, then the second, so that scarce memory goes to coverage.
  void keep(const expert_placement& current) {
    for (size_t replica = 1; replica <= num_replicas_; ++replica)
      for (size_t layer = 0; layer < std::min(hosts_.size(), current.size()); ++layer)
        for (size_t expert = 0; expert < std::min(hosts_[layer].size(), current[layer].size()); ++expert)
          keep_one(layer, expert, current[layer][expert], replica);
  }

  void fill() {
    for (size_t replica = 1; replica <= num_replicas_; ++replica)
      for (size_t layer = 0; layer < hosts_.size(); ++layer)
        for (size_t expert = 0; expert < hosts_[layer].size(); ++expert)
          if (hosts_[layer][expert].size() < replica)
            if (auto worker = least_loaded(layer, expert))
              add(layer, expert, *worker);
  }

  void rebalance() {
    for (size_t layer = 0; layer < hosts_.size(); ++layer)
      while (move_within(layer, 2, 0))
        ;
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t layer = 0; layer < hosts_.size(); ++layer)
        while (move_within(layer, 1, 2))
          moved = true;
    }
  }

  expert_placement result() const {
    expert_placement placement(hosts_.size());
    for (size_t layer = 0; layer < hosts_.size(); ++layer)
      for (const auto& hosts : hosts_[layer]) {
        auto& ids = placement[layer].emplace_back();
        for (auto worker : hosts)
          ids.push_back(workers_[worker].id);
        std::sort(ids.begin(), ids.end());
      }
    return placement;
  }

 private:
  using host_list = std::vector<size_t>;

  bool hosts(size_t layer, size_t expert, size_t worker) const {
    const auto& list = hosts_[layer][expert];
    return std::find(list.begin(), list.end(), worker) != list.end();
  }

  bool has_room(size_t worker) const { return totals_[worker] < workers_[worker].max_experts; }

  void add(size_t layer, size_t expert, size_t worker) {
    hosts_[layer][expert].push_back(worker);
    ++layer_loads_[layer][worker];
    ++totals_[worker];
  }

  void remove(size_t layer, size_t expert, size_t worker) {
    std::erase(hosts_[layer][expert], worker);
    --layer_loads_[layer][worker];
    --totals_[worker];
  }

  auto load(size_t layer, size_t worker) const {
    return std::tuple{layer_loads_[layer][worker], totals_[worker], worker};
  }

  std::optional<size_t> least_loaded(size_t layer, size_t expert) const {
    std::optional<size_t> best;
    for (size_t worker = 0; worker < workers_.size(); ++worker)
      if (has_room(worker) && !hosts(layer, expert, worker)
          && (!best || load(layer, worker) < load(layer, *best)))
        best = worker;
    return best;
  }

  void keep_one(size_t layer, size_t expert, const std::vector<worker_id>& current, size_t replica) {
    if (hosts_[layer][expert].size() >= replica)
      return;
    std::optional<size_t> best;
    for (size_t worker = 0; worker < workers_.size(); ++worker)
      if (std::find(current.begin(), current.end(), workers_[worker].id) != current.end() && has_room(worker)
          && !hosts(layer, expert, worker) && (!best || load(layer, worker) < load(layer, *best)))
        best = worker;
    if (best)
      add(layer, expert, *best);
  }

  /// Moves one expert of the layer from a worker to one that has at least `layer_gap` fewer experts of this
  /// layer and `total_gap` fewer of all; both gaps shrink, so repeating it ends.
  bool move_within(size_t layer, uint64_t layer_gap, uint64_t total_gap) {
    host_list order(workers_.size());
    for (size_t worker = 0; worker < order.size(); ++worker)
      order[worker] = worker;
    std::sort(order.begin(), order.end(),
              [&](size_t l, size_t r) { return load(layer, l) < load(layer, r); });
    for (auto from = order.rbegin(); from != order.rend(); ++from)
      for (auto to : order) {
        if (!has_room(to) || layer_loads_[layer][*from] < layer_loads_[layer][to] + layer_gap
            || totals_[*from] < totals_[to] + total_gap)
          continue;
        if (auto expert = best_to_move(layer, *from, to)) {
          remove(layer, *expert, *from);
          add(layer, *expert, to);
          return true;
        }
      }
    return false;
  }

  /// The first expert that can move, or the first of those that the goal has loaded.
  std::optional<size_t> best_to_move(size_t layer, size_t from, size_t to) const {
    std::optional<size_t> best;
    for (size_t expert = 0; expert < hosts_[layer].size(); ++expert)
      if (hosts(layer, expert, from) && !hosts(layer, expert, to)) {
        if (is_loaded(layer, expert, to))
          return expert;
        if (!best)
          best = expert;
      }
    return best;
  }

  bool is_loaded(size_t layer, size_t expert, size_t worker) const {
    if (layer >= loaded_.size() || expert >= loaded_[layer].size())
      return false;
    const auto& list = loaded_[layer][expert];
    return std::find(list.begin(), list.end(), workers_[worker].id) != list.end();
  }

  const expert_placement& loaded_;
  std::vector<placement_worker> workers_;
  size_t num_replicas_ = 0;
  std::vector<std::vector<host_list>> hosts_;      // [layers][experts][replicas]
  std::vector<std::vector<uint64_t>> layer_loads_; // [layers][workers]
  std::vector<uint64_t> totals_;                   // [workers]
};

} // namespace

expert_placement place_experts(const placement_problem& problem, const expert_placement& planned,
                               const expert_placement& loaded) {
  placer work{problem, loaded};
  work.keep(planned);
  work.keep(loaded);
  work.fill();
  if (problem.rebalance)
    work.rebalance();
  return work.result();
}

} // namespace troupe
