#include "actors/scheduler/placement_balance.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>

namespace troupe {

namespace {

using host = hosting_table::host;

/// Hosts that give or take one expert each; a host may be in it more than once.
struct exchange {
  std::uint32_t layer = 0;
  host* at = nullptr;        ///< starts to hold the layer, or stops
  std::vector<host*> others; ///< in the order of the moves
  /// By how much the sum of squared totals falls.
  std::int64_t gain = 0;
};

class balancer {
 public:
  balancer(hosting_table& table, const std::vector<spread_range>& spreads, const loaded_lookup& loaded,
           std::uint64_t max_share_moves)
      : table_(table), spreads_(spreads), loaded_(loaded), share_moves_left_(max_share_moves) {}

  void run() {
    for (std::uint32_t layer = 0; layer < table_.num_layers(); ++layer)
      fit_members(layer);
    // Evening out lowers the sum of a layer's squared counts. Levelling totals lowers the sum of squared
    // totals, and raises counts only by giving up hosts, whose number is finite. So this ends.
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (std::uint32_t layer = 0; layer < table_.num_layers(); ++layer)
        while (even_out(layer))
          has_moved = true;
      while (open_best() || close_best() || hand_over_best())
        has_moved = true;
      for (std::uint32_t layer = 0; layer < table_.num_layers(); ++layer)
        while (level_totals(layer))
          has_moved = true;
    }
  }

 private:
  struct entry {
    std::uint64_t count; ///< experts of the layer
    std::uint64_t total;
    host* at;
    std::uint64_t num_free = 0; ///< experts of the layer that may leave

    auto key() const { return std::tuple{count, total, at->id}; }
  };

  std::vector<entry> entries(std::uint32_t layer) const {
    std::vector<entry> result;
    result.reserve(table_.members(layer).size());
    for (auto* at : table_.members(layer))
      result.push_back({at->counts[layer], at->total, at});
    return result;
  }

  /// Fewest and most experts of the layer on a host of it.
  std::pair<std::uint32_t, std::uint32_t> count_range(std::uint32_t layer) const {
    std::pair<std::uint32_t, std::uint32_t> result{UINT32_MAX, 0};
    for (const auto* at : table_.members(layer)) {
      result.first = std::min(result.first, at->counts[layer]);
      result.second = std::max(result.second, at->counts[layer]);
    }
    return result;
  }

  bool can_take(std::uint32_t expert, const host& from, const host& to) const {
    return !table_.holds(to, expert)
           && (table_.is_apart(expert, to, &from) || !table_.is_apart(expert, from));
  }

  bool can_move(std::uint32_t expert, const host& from, const host& to) const {
    return !table_.is_pinned(expert) && can_take(expert, from, to);
  }

  auto experts_of(std::uint32_t layer, const host& at) const {
    const auto first = table_.first_of(layer);
    return std::pair{at.experts.lower_bound(first),
                     at.experts.lower_bound(first + table_.num_experts(layer))};
  }

  bool can_give(std::uint32_t layer, const host& from, const host& to) const {
    auto [at, end] = experts_of(layer, from);
    return std::any_of(at, end, [&](std::uint32_t expert) { return can_move(expert, from, to); });
  }

  std::uint64_t num_free(std::uint32_t layer, const host& from) const {
    if (table_.num_pinned(layer) == 0)
      return from.counts[layer];
    auto [at, end] = experts_of(layer, from);
    return static_cast<std::uint64_t>(
        std::count_if(at, end, [this](std::uint32_t expert) { return !table_.is_pinned(expert); }));
  }

  /// Experts of the layer on the host, if all of them may leave it.
  std::optional<std::vector<std::uint32_t>> free_share(std::uint32_t layer, const host& from) const {
    auto [at, end] = experts_of(layer, from);
    std::vector<std::uint32_t> result{at, end};
    if (std::any_of(result.begin(), result.end(), [this](std::uint32_t x) { return table_.is_pinned(x); }))
      return std::nullopt;
    return result;
  }

  /// May all experts that the host has of the layer leave it for the other host?
  bool can_hand_over(std::uint32_t layer, const host& from, const host& to) const {
    const auto share = free_share(layer, from);
    return share && std::all_of(share->begin(), share->end(), [&](std::uint32_t expert) {
             return can_take(expert, from, to);
           });
  }

  /// The first movable expert that the new host has loaded, or else the first movable one.
  std::optional<std::uint32_t> best_to_move(std::uint32_t layer, const host& from, const host& to) const {
    std::optional<std::uint32_t> best;
    for (auto [at, end] = experts_of(layer, from); at != end; ++at) {
      if (!can_move(*at, from, to))
        continue;
      if (is_loaded(loaded_, table_.id_of(*at), to.id))
        return *at;
      best = best.value_or(*at);
    }
    return best;
  }

  bool move_one(std::uint32_t layer, host& from, host& to) {
    auto expert = best_to_move(layer, from, to);
    if (expert)
      table_.move(*expert, from, to);
    return expert.has_value();
  }

  /// Another host for the layer, which gets an even share from those that have most.
  std::optional<exchange> opening(std::uint32_t layer) const {
    auto* to = table_.least_outside(layer);
    if (to == nullptr)
      return std::nullopt;
    auto list = entries(layer);
    for (auto& x : list)
      x.num_free = num_free(layer, *x.at);
    const auto share = std::min<std::uint64_t>(table_.num_placed(layer) / (list.size() + 1), to->room());
    exchange result{layer, to, {}, 0};
    while (result.others.size() < share) {
      std::erase_if(list, [](const entry& x) { return x.num_free == 0; });
      auto from = std::max_element(list.begin(), list.end(),
                                   [](const entry& l, const entry& r) { return l.key() < r.key(); });
      if (from == list.end() || from->count < result.others.size() + 2)
        break;
      result.gain += static_cast<std::int64_t>(2 * from->total) - 1;
      --from->num_free;
      --from->count;
      --from->total;
      result.others.push_back(from->at);
    }
    const auto size = result.others.size();
    result.gain -= static_cast<std::int64_t>(size * (2 * to->total + size));
    return result;
  }

  /// @returns false when no expert could be moved
  bool open(const exchange& plan) {
    bool has_moved = false;
    for (auto* from : plan.others)
      has_moved = move_one(plan.layer, *from, *plan.at) || has_moved;
    return has_moved;
  }

  /// Takes the layer from one of its hosts, whose share goes to the hosts that have least; empty if they
  /// cannot take it.
  std::optional<exchange> closing(std::uint32_t layer, host& from) const {
    auto share = free_share(layer, from);
    if (!share)
      return std::nullopt;
    auto list = entries(layer);
    std::erase_if(list, [&](const entry& x) { return x.at == &from; });
    exchange result{layer, &from, {}, 0};
    const auto size = static_cast<std::int64_t>(share->size());
    result.gain = size * (2 * static_cast<std::int64_t>(from.total) - size);
    for (auto expert : *share) {
      entry* best = nullptr;
      for (auto& x : list)
        if (x.total < x.at->max_experts && can_take(expert, from, *x.at) && (!best || x.key() < best->key()))
          best = &x;
      if (best == nullptr)
        return std::nullopt;
      result.gain -= static_cast<std::int64_t>(2 * best->total) + 1;
      ++best->count;
      ++best->total;
      result.others.push_back(best->at);
    }
    return result;
  }

  void close(const exchange& plan) {
    const auto share = free_share(plan.layer, *plan.at);
    for (std::size_t at = 0; at < share->size(); ++at)
      table_.move((*share)[at], *plan.at, *plan.others[at]);
  }

  /// Is each move as good as one from a host to another that has at least two fewer?
  bool is_worth(const exchange& plan) const {
    const auto num_moves = plan.others.size();
    return num_moves > 0 && num_moves <= share_moves_left_
           && plan.gain >= static_cast<std::int64_t>(2 * num_moves);
  }

  void fit_members(std::uint32_t layer) {
    const auto& spread = spreads_[layer];
    while (table_.members(layer).size() < spread.low) {
      auto plan = opening(layer);
      if (!plan || plan->others.empty() || !open(*plan))
        break;
    }
    while (table_.members(layer).size() > spread.high) {
      auto list = entries(layer);
      std::sort(list.begin(), list.end(), [](const entry& l, const entry& r) {
        return std::tuple{l.count, r.total, r.at->id} < std::tuple{r.count, l.total, l.at->id};
      });
      std::optional<exchange> plan;
      for (auto x = list.begin(); x != list.end() && !plan; ++x)
        plan = closing(layer, *x->at);
      if (!plan)
        break;
      close(*plan);
    }
  }

  /// Moves one expert from a host to one that has at least two fewer of the layer.
  bool even_out(std::uint32_t layer) {
    const auto [least, most] = count_range(layer);
    if (most < std::uint64_t{least} + 2)
      return false;
    auto list = entries(layer);
    std::sort(list.begin(), list.end(), [](const entry& l, const entry& r) { return l.key() < r.key(); });
    for (auto from = list.rbegin(); from != list.rend(); ++from)
      for (const auto& to : list) {
        if (from->count < to.count + 2)
          break;
        if (to.at->has_room() && move_one(layer, *from->at, *to.at))
          return true;
      }
    return false;
  }

  /// Moves one expert from a host to one that has fewer of the layer and at least two fewer in total.
  bool level_totals(std::uint32_t layer) {
    const auto [fewest, most] = count_range(layer);
    if (most <= fewest)
      return false;
    auto list = entries(layer);
    std::sort(list.begin(), list.end(), [](const entry& l, const entry& r) { return l.key() < r.key(); });
    host* best_from = nullptr;
    host* best_to = nullptr;
    std::uint64_t best_gap = 1;
    host* least = nullptr; // of all with a lower count
    for (std::size_t first = 0; first < list.size();) {
      auto next = first;
      for (; next < list.size() && list[next].count == list[first].count; ++next)
        if (least != nullptr && list[next].total > least->total + best_gap
            && can_give(layer, *list[next].at, *least)) {
          best_gap = list[next].total - least->total;
          best_from = list[next].at;
          best_to = least;
        }
      for (; first < next; ++first)
        if (list[first].at->has_room() && (least == nullptr || list[first].total < least->total))
          least = list[first].at;
    }
    return best_from != nullptr && move_one(layer, *best_from, *best_to);
  }

  bool open_best() {
    std::optional<exchange> best;
    for (std::uint32_t layer = 0; layer < table_.num_layers(); ++layer) {
      const auto size = table_.members(layer).size();
      if (size == 0 || size >= spreads_[layer].high)
        continue;
      auto plan = opening(layer);
      if (plan && is_worth(*plan) && (!best || plan->gain > best->gain))
        best = std::move(plan);
    }
    if (!best)
      return false;
    share_moves_left_ -= best->others.size();
    return open(*best);
  }

  bool close_best() {
    std::optional<exchange> best;
    for (std::uint32_t layer = 0; layer < table_.num_layers(); ++layer) {
      if (table_.members(layer).size() <= spreads_[layer].low)
        continue;
      host* most = nullptr;
      for (auto* at : table_.members(layer))
        if (most == nullptr || at->total > most->total)
          most = at;
      auto plan = closing(layer, *most);
      if (plan && is_worth(*plan) && (!best || plan->gain > best->gain))
        best = std::move(plan);
    }
    if (best) {
      close(*best);
      share_moves_left_ -= best->others.size();
    }
    return best.has_value();
  }

  /// A host's whole share of a layer for another host that has none of it.
  bool hand_over_best() {
    host* best_from = nullptr;
    host* best_to = nullptr;
    std::uint32_t best_layer = 0;
    std::int64_t best_gain = 0;
    for (std::uint32_t layer = 0; layer < table_.num_layers(); ++layer) {
      auto* to = table_.least_outside(layer);
      if (to == nullptr)
        continue;
      for (auto* from : table_.members(layer)) {
        const auto share = from->counts[layer];
        if (from->total <= to->total + share || to->room() < share || share > share_moves_left_)
          continue;
        const auto gain =
            std::int64_t{2} * share * static_cast<std::int64_t>(from->total - to->total - share);
        if (gain > best_gain && can_hand_over(layer, *from, *to)) {
          best_gain = gain;
          best_from = from;
          best_to = to;
          best_layer = layer;
        }
      }
    }
    if (best_from == nullptr)
      return false;
    const auto share = free_share(best_layer, *best_from);
    for (auto expert : *share)
      table_.move(expert, *best_from, *best_to);
    share_moves_left_ -= share->size();
    return true;
  }

  hosting_table& table_;
  const std::vector<spread_range>& spreads_;
  const loaded_lookup& loaded_;
  std::uint64_t share_moves_left_;
};

} // namespace

bool is_loaded(const loaded_lookup& loaded, expert_id expert, worker_id host) {
  if (!loaded)
    return false;
  const auto hosts = loaded(expert);
  return std::binary_search(hosts.begin(), hosts.end(), host);
}

void balance_placement(hosting_table& table, const std::vector<spread_range>& spreads,
                       const loaded_lookup& loaded, std::uint64_t max_share_moves) {
  balancer{table, spreads, loaded, max_share_moves}.run();
}

} // namespace troupe
