// The GATEWAY actor holds what the sessions of one gateway process share: the handle of the scheduler, the
// view of the cluster, and the handles of attention workers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/protocol/admission_messages.hpp"
#include "actors/protocol/atoms.hpp"
#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/directory_actor.hpp"
#include "actors/protocol/gateway_actor.hpp"

namespace troupe {

struct gateway_config {
  worker_address address;
  directory_actor directory;
  std::string config_id{}; ///< identifies the config.json of the gateway's model; empty: any model
  /// Called on the actor's thread when the longest context of the cluster becomes known and when it changes.
  /// Not called when the last attention worker leaves: the gateway expects a similar one. May be empty.
  std::function<void(std::uint32_t max_model_len)> on_context;
};

gateway_actor spawn_gateway(caf::actor_system& system, gateway_config config);

} // namespace troupe
