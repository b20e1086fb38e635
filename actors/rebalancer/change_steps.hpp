// A change of the placement as a sequence of moves of single experts. Each host takes part in one move at a
// time, so that a fault affects little of the cluster. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "actors/protocol/expert_target.hpp"

namespace troupe {

/// An expert's hosts, before and after.
struct placement_step {
  expert_id expert;
  std::vector<worker_id> from; ///< ascending
  std::vector<worker_id> to;   ///< ascending
  bool operator==(const placement_step&) const = default;
};

/// The hosts that must load the expert.
std::vector<worker_id> gaining_hosts(const placement_step& step);

class change_steps {
 public:
  static constexpr std::size_t max_in_flight = 16;

  change_steps() = default;

  /// @param room  experts that a host can take beyond its present target; hosts not listed: any number
  change_steps(std::vector<placement_step> steps, std::map<worker_id, std::uint64_t> room);

  /// Starts all moves that can begin now: none of their hosts loads or releases an expert for another move,
  /// and each loading host has room.
  std::vector<placement_step> begin();

  /// @param is_done  the expert has its new hosts; otherwise its old ones, or those that the scheduler
  /// chooses
  void end(expert_id expert, bool is_done);

  /// Gives up the moves that have not begun.
  void give_up();

  /// Nothing is in flight and nothing can begin: hosts wait for each other's room.
  bool is_stuck() const { return in_flight_.empty() && !waiting_.empty(); }

  bool is_over() const { return in_flight_.empty() && waiting_.empty(); }

  bool is_in_flight(expert_id expert) const { return in_flight_.contains(expert); }

  std::size_t num_left() const { return waiting_.size() + in_flight_.size(); }

  std::size_t num_done() const { return num_done_; }

  std::size_t num_given_up() const { return num_given_up_; }

 private:
  bool has_room(worker_id host) const;

  std::deque<placement_step> waiting_;
  std::map<expert_id, placement_step> in_flight_;
  std::set<worker_id> busy_; ///< hosts of the moves in flight
  std::map<worker_id, std::uint64_t> room_;
  std::size_t num_done_ = 0;
  std::size_t num_given_up_ = 0;
};

} // namespace troupe
