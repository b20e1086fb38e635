// Questions of operators to the services of a cluster, and the answer of each.
#pragma once

#include <cstdint>
#include <variant>

#include "actors/protocol/history_messages.hpp"
#include "actors/protocol/rebalancer_messages.hpp"
#include "actors/protocol/status_messages.hpp"
#include "actors/protocol/trace_messages.hpp"

namespace troupe {

/// Answered by the scheduler with a scheduler_status.
struct status_question {};

/// Answered by the history with a history_snapshot.
struct history_question {
  std::uint32_t max_windows = 0; ///< upper bound of the recent windows in the answer
};

/// Answered by the rebalancer with a rebalancer_status.
struct placement_question {};

/// A placement_command is answered by the rebalancer with a placement_change, a trace_command by the
/// scheduler with a trace_receipt.
using control_question =
    std::variant<status_question, history_question, placement_question, placement_command, trace_command>;

using control_answer =
    std::variant<scheduler_status, history_snapshot, rebalancer_status, placement_change, trace_receipt>;

} // namespace troupe
