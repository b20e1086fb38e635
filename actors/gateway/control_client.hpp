// The CONTROL CLIENT: asks the scheduler, the history and the rebalancer on behalf of operators. Each
// question is an actor of its own that finds the service, asks it once and ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <caf/expected.hpp>
#include <caf/fwd.hpp>

#include "actors/protocol/control_questions.hpp"
#include "actors/protocol/directory_actor.hpp"

namespace troupe {

/// Where the services of a cluster are found.
struct control_services {
  directory_actor directory;
  std::vector<std::string> endpoints{}; ///< of the schedulers; empty: this process
  /// Place in `endpoints` of the scheduler that is asked first, modulo their number.
  std::shared_ptr<std::atomic<std::size_t>> active = std::make_shared<std::atomic<std::size_t>>(0);
};

/// Asks one question. A command is sent at most once.
/// @param then  called exactly once, on an actor's thread, within the deadline of the question: at most
///              defaults::connect_timeout longer than the service may take
/// @errors ec::not_ready: the service cannot be reached, or does not answer (a command excepted). Of a
///         placement_command also what the rebalancer answers, and ec::deadline_exceeded or ec::peer_down if
///         it was asked and gave no answer: the command may have been carried out all the same.
void ask_service(caf::actor_system& system, const control_services& services,
                 const control_question& question, std::function<void(caf::expected<control_answer>)> then);

} // namespace troupe
