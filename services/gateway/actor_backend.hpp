// The cluster behind HTTP: sessions and the gateway actor.
#pragma once

#include <memory>

#include <caf/fwd.hpp>

#include "actors/gateway/gateway.hpp"
#include "services/gateway/http/generation_backend.hpp"

namespace troupe {

/// Starts a session for every job, and asks `gateway` for view and status. Must not outlive `system`.
std::shared_ptr<generation_backend> make_actor_backend(caf::actor_system& system, gateway_actor gateway);

} // namespace troupe
