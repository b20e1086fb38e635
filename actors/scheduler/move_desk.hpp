// The moves of single experts that a planner has asked for. Each is answered once all routers know of it, or
// once it has become impossible. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <caf/error.hpp>

#include "actors/protocol/fleet_messages.hpp"
#include "actors/scheduler/expert_desk.hpp"
#include "actors/scheduler/member_table.hpp"

namespace troupe {

class move_desk {
 public:
  using answer = std::function<void(const caf::error&)>; ///< no error: the move is carried out

  /// May this move begin?
  /// @errors as `fleet_actor` says of an expert_move
  caf::error check(const expert_move& move, const expert_desk& experts, const member_table& members) const;

  /// Sets the expert's target. The move has passed `check`.
  void begin(const expert_move& move, expert_desk& experts, answer when_over);

  bool is_empty() const { return moves_.empty(); }

  /// Answers the moves that are carried out, and those that a lost or full host has made impossible.
  void finish(const expert_desk& experts, const member_table& members);

  /// Gives up the moves to a host that cannot load their experts: these stay where they were.
  void abandon(worker_id host, const std::string& why, expert_desk& experts, const member_table& members);

  /// Gives up all moves.
  void shut_down(const caf::error& reason);

 private:
  struct pending_move {
    answer when_over;
    std::vector<worker_id> to;   ///< ascending
    std::vector<worker_id> from; ///< likewise
    std::uint64_t begin_ns = 0;  ///< where it is traced
  };

  static void trace(expert_id expert, const pending_move& move, bool is_done, const member_table& members);

  std::map<expert_id, pending_move> moves_;
};

} // namespace troupe
