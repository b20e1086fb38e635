// One layer of a draft, with the sums that tell what a change would gain. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "actors/planner/draft_placement.hpp"

namespace troupe {

/// Changes the layer while that lowers its cost: the layer's part of placement_score::total_ns().
///
/// Moves, each of an expert e on a host a, all to be had by adding and removing copies:
///   migrate     e from a to b
///   swap        e on a with f on b
///   replicate   e on b, too
///   retire      e's copy on a
///   supersede   a copy of f on b, which has others, by e: added there, or migrated from a
/// A move that gains nothing is not made, and each is within memory and limits. Costs of an evaluation:
/// windows x hosts concerned. The draft may be changed by others, but not in this layer.
class layer_search {
 public:
  layer_search(draft_placement& draft, uint32_t layer);

  /// ns a step: busiest host, messages, loads
  double cost() const { return cost_; }

  /// Where improve() looks.
  struct scope {
    uint32_t num_hot = std::numeric_limits<uint32_t>::max(); ///< hosts to take from: busiest in most windows
    uint32_t num_cool =
        std::numeric_limits<uint32_t>::max(); ///< hosts to give to: those with the least mean load
  };

  /// Makes the best move there is from a hot host to a cool one.
  /// @return false when no move gains anything; in the widest scope the layer is then at an optimum, until
  ///         somebody makes room
  bool improve(const scope& where);

  /// What the layer's cost falls by when an expert gets these hosts (ascending), whether or not there is
  /// room.
  double gain_of(uint32_t expert, const std::vector<host_index>& hosts);

  /// Gives the expert these hosts.
  void set_hosts(uint32_t expert, const std::vector<host_index>& hosts);

  /// Starts again after others have changed the layer.
  void reset();

  uint64_t num_evaluations() const { return num_evaluations_; }

 private:
  /// A host gets or loses a share of an expert.
  struct share_change {
    host_index host;
    uint32_t expert;
    double share;
  };

  static constexpr auto no_expert = std::numeric_limits<uint32_t>::max();

  struct replica {
    uint32_t expert = no_expert;
    host_index host = 0;
  };

  struct move {
    std::array<replica, 2> removed{};
    std::array<replica, 2> added{};
  };

  struct best_move {
    move what;
    double gain = 0;
  };

  struct window_top {
    static constexpr size_t size = 6;
    std::array<host_index, size> hosts{};
    std::array<double, size> loads{};
    size_t count = 0;
  };

  void consider(const move& candidate, best_move& best);
  void consider_all(host_index from, const std::vector<host_index>& cool, best_move& best);
  double gain_of(const move& candidate);
  /// Gain by load and messages of changes already in changes_.
  double gain_of_changes();
  double most_elsewhere(size_t window) const;
  void add_share_changes(uint32_t expert, std::span<const host_index> before,
                         std::span<const host_index> after);
  double load_gain(uint32_t expert, std::span<const host_index> before,
                   std::span<const host_index> after) const;
  void apply(const move& chosen);
  void find_tops();
  std::vector<host_index> hot_hosts(uint32_t count) const;
  std::vector<host_index> cool_hosts(uint32_t count) const;

  draft_placement& draft_;
  uint32_t layer_;
  size_t num_windows_;
  std::vector<double> loads_;               // [hosts, windows]
  std::vector<double> rows_;                // [hosts, windows]
  std::vector<double> touched_;             // [hosts] expected messages a step
  std::vector<std::vector<uint32_t>> held_; // [hosts] experts, ascending, pinned ones left out
  std::vector<window_top> tops_;            // [windows] busiest hosts, descending
  double cost_ = 0;
  uint64_t num_evaluations_ = 0;

  // Of the evaluation at hand.
  std::vector<share_change> changes_;
  std::vector<host_index> concerned_; // hosts
  std::vector<uint32_t> slot_of_;     // [hosts] place in concerned_, or none
  std::vector<double> scratch_;       // [concerned, windows]
  std::vector<host_index> after_;     // hosts of an expert
};

} // namespace troupe
