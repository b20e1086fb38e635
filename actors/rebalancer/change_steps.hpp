// A change of the placement as a sequence of moves of single experts, of which each host takes part in one at
// a time: whatever goes wrong, most of the cluster is not on its way anywhere. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "actors/expert_target.hpp"

namespace troupe {

/// An expert's hosts, before and after.
struct placement_step {
  expert_id expert;
  std::vector<worker_id> from; ///< ascending
  std::vector<worker_id> to;   ///< likewise
  bool operator==(const placement_step&) const = default;
};

/// The hosts that must load the expert.
std::vector<worker_id> gaining_hosts(const placement_step& step);

class change_steps {
 public:
  static constexpr size_t max_in_flight = 16;

  change_steps() = default;

  /// @param room  experts that a host can take beyond what it should hold now; a host that is not named: any
  ///              number
  change_steps(std::vector<placement_step> steps, std::map<worker_id, uint64_t> room);

  /// What can begin now: no host of it is loading or letting go for another move, and each that loads has
  /// room. They are in flight from now on.
  std::vector<placement_step> begin();

  /// @param is_done  it has its new hosts; else it has its old ones, or whatever the scheduler makes of it
  void end(expert_id expert, bool is_done);

  /// What has not begun is given up.
  void give_up();

  /// Nothing is in flight and nothing can begin: hosts wait for one another's room.
  bool is_stuck() const { return in_flight_.empty() && !waiting_.empty(); }

  bool is_over() const { return in_flight_.empty() && waiting_.empty(); }

  bool is_in_flight(expert_id expert) const { return in_flight_.contains(expert); }

  size_t num_left() const { return waiting_.size() + in_flight_.size(); }

  size_t num_done() const { return num_done_; }

  size_t num_given_up() const { return num_given_up_; }

 private:
  bool has_room(worker_id host) const;

  std::deque<placement_step> waiting_;
  std::map<expert_id, placement_step> in_flight_;
  std::set<worker_id> busy_; ///< hosts of those in flight
  std::map<worker_id, uint64_t> room_;
  size_t num_done_ = 0;
  size_t num_given_up_ = 0;
};

} // namespace troupe
