// One layer of a draft, with the sums that tell what a change gains. Pure.
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
/// Moves, each of an expert e on a host a, all composed of adding and removing copies:
///   migrate     e from a to b
///   swap        e on a with f on b
///   replicate   e also on b
///   retire      e's copy on a
///   supersede   e replaces a copy on b of f, which has other hosts: e is added there, or migrated from a
/// Only moves that gain are made, within memory and limits. An evaluation costs windows × hosts concerned.
/// Others may change the draft meanwhile, but not this layer.
class layer_search {
 public:
  layer_search(draft_placement& draft, std::uint32_t layer);

  /// ns per step: busiest host, messages, loads
  double cost() const { return cost_; }

  /// The hosts that improve() examines.
  struct scope {
    std::uint32_t num_hot =
        std::numeric_limits<std::uint32_t>::max(); ///< hosts to take from: busiest in most windows
    std::uint32_t num_cool = std::numeric_limits<std::uint32_t>::max(); ///< hosts to give to: least mean load
  };

  /// Makes the best move from a hot host to a cool one.
  /// @returns false if no move gains; in the widest scope the layer is then at an optimum, until room is
  /// freed
  bool improve(const scope& where);

  /// The reduction of the layer's cost if an expert gets these hosts (ascending), ignoring their room.
  double gain_of(std::uint32_t expert, const std::vector<host_index>& hosts);

  /// Gives the expert these hosts.
  void set_hosts(std::uint32_t expert, const std::vector<host_index>& hosts);

  /// Restarts after others have changed the layer.
  void reset();

  std::uint64_t num_evaluations() const { return num_evaluations_; }

 private:
  /// A host gets or loses a share of an expert.
  struct share_change {
    host_index host;
    std::uint32_t expert;
    double share;
  };

  static constexpr auto no_expert = std::numeric_limits<std::uint32_t>::max();

  struct replica {
    std::uint32_t expert = no_expert;
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
    static constexpr std::size_t size = 6;
    std::array<host_index, size> hosts{};
    std::array<double, size> loads{};
    std::size_t count = 0;
  };

  void consider(const move& candidate, best_move& best);
  void consider_all(host_index from, const std::vector<host_index>& cool, best_move& best);
  double gain_of(const move& candidate);
  /// Gain of the changes in changes_, by load and messages.
  double gain_of_changes();
  double most_elsewhere(std::size_t window) const;
  void add_share_changes(std::uint32_t expert, std::span<const host_index> before,
                         std::span<const host_index> after);
  double load_gain(std::uint32_t expert, std::span<const host_index> before,
                   std::span<const host_index> after) const;
  void apply(const move& chosen);
  void find_tops();
  std::vector<host_index> hot_hosts(std::uint32_t count) const;
  std::vector<host_index> cool_hosts(std::uint32_t count) const;

  draft_placement& draft_;
  std::uint32_t layer_;
  std::size_t num_windows_;
  std::vector<double> loads_;                    // [hosts, windows]
  std::vector<double> rows_;                     // [hosts, windows]
  std::vector<double> touched_;                  // [hosts] expected messages a step
  std::vector<std::vector<std::uint32_t>> held_; // [hosts] experts, ascending, without pinned ones
  std::vector<window_top> tops_;                 // [windows] busiest hosts, descending
  double cost_ = 0;
  std::uint64_t num_evaluations_ = 0;

  // Of the current evaluation.
  std::vector<share_change> changes_;
  std::vector<host_index> concerned_;  // hosts
  std::vector<std::uint32_t> slot_of_; // [hosts] place in concerned_, or none
  std::vector<double> scratch_;        // [concerned, windows]
  std::vector<host_index> after_;      // hosts of an expert
};

} // namespace troupe
