// The ACTIVATION REPORTER: reports to the history which experts one attention worker uses. One beside each
// attention worker, independent of liveness: what it cannot report now it reports later.
//
// It reads the worker's counts every defaults::history_interval. The increase since the previous window is
// the next window, with its own sequence number. A window is kept until the history confirms that a restarted
// scheduler would know it, at most defaults::max_unsaved_windows of them. It is sent again after an absence
// of the scheduler; the history counts each once. No window is cut while another waits to be counted, so an
// absence makes one long window and takes no memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <caf/actor_control_block.hpp>
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/protocol/atoms.hpp"
#include "actors/protocol/directory_actor.hpp"
#include "actors/protocol/history_messages.hpp"
#include "actors/protocol/ids.hpp"

namespace troupe {

/// The ACTIVATION REPORTER interface, local only.
using activation_reporter_actor = caf::typed_actor<
    // Time to read the counts.
    caf::reacts_to<caf::tick_atom>,
    // The process ends: report the rest. Answers when that is counted, or cannot be.
    caf::replies_to<caf::leave_atom>::with<void>>;

struct activation_reporter_config {
  caf::strong_actor_ptr worker; ///< an attention_worker actor
  worker_id id;                 ///< its incarnation
  std::string fingerprint;      ///< of its model
  std::vector<std::uint32_t> layer_experts;
  /// Where schedulers listen; "history" is found beside the active one. Empty inside one process.
  std::vector<std::string> scheduler_endpoints;
  directory_actor directory;
};

/// Starts a reporter. It ends with the worker.
activation_reporter_actor spawn_activation_reporter(caf::actor_system& system,
                                                    activation_reporter_config config);

} // namespace troupe
