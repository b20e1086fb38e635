// The services of the cluster that answer operators, as HTTP sees them: without actors. The actors' side is
// actor_control; tests use a scripted one.
#pragma once

#include <functional>
#include <variant>

#include "actors/protocol/control_questions.hpp"
#include "services/gateway/http/generation_backend.hpp"

namespace troupe {

using control_outcome = std::variant<control_answer, backend_error>;

/// Thread-safe; nothing blocks.
class control_backend {
 public:
  virtual ~control_backend() = default;
  /// Asks once. With ec::deadline_exceeded and ec::peer_down a command may have been carried out all the
  /// same.
  /// @param then  called exactly once, on any thread, within a deadline: minutes for a placement_command,
  ///              seconds for other questions
  virtual void ask(const control_question& question, std::function<void(control_outcome)> then) = 0;
};

} // namespace troupe
