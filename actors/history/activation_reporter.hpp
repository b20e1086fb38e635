// The ACTIVATION REPORTER: tells the history which experts one attention worker uses. One beside each
// attention worker, as its member is, and apart from liveness: what it cannot tell now it tells later.
//
// It looks at the worker's counts every defaults::history_interval. What has come to them since the window
// before is the next window, and has its own sequence number. A window is kept until the history says that a
// restarted scheduler would know it, at most defaults::max_unsaved_windows of them, and sent again when the
// scheduler was away; the history counts each once. No window is cut while another waits to be counted, so
// that an absence makes one long window, and takes no memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <caf/actor_control_block.hpp>
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/atoms.hpp"
#include "actors/cluster/directory.hpp"
#include "actors/history/history_messages.hpp"
#include "actors/ids.hpp"

namespace troupe {

/// The ACTIVATION REPORTER interface, local only.
using activation_reporter_actor = caf::typed_actor<
    // Look at the worker.
    caf::reacts_to<caf::tick_atom>,
    // The process ends: tell what has not been told. Answers when that is counted, or cannot be.
    caf::replies_to<caf::leave_atom>::with<void>>;

struct activation_reporter_config {
  caf::strong_actor_ptr worker; ///< an attention_worker actor
  worker_id id;                 ///< its incarnation
  std::string fingerprint;      ///< of its model
  std::vector<uint32_t> layer_experts;
  /// Where schedulers listen, beside the active one of which "history" is found; empty inside one process.
  std::vector<std::string> scheduler_endpoints;
  directory_actor directory;
};

/// Starts a reporter. It ends with the worker.
activation_reporter_actor spawn_activation_reporter(caf::actor_system& system,
                                                    activation_reporter_config config);

} // namespace troupe
