// The cluster behind HTTP: sessions, the gateway actor, and the services that answer operators.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <caf/fwd.hpp>

#include "actors/gateway/control_client.hpp"
#include "actors/gateway/gateway.hpp"
#include "services/gateway/http/control_backend.hpp"
#include "services/gateway/http/generation_backend.hpp"

namespace troupe {

/// Starts a session for every job, and asks `gateway` for the view. Must not outlive `system`.
/// @param max_model_len  see generation_backend; the listener of the gateway actor sets it
/// @param log            hears what becomes of each request
std::shared_ptr<generation_backend>
make_actor_backend(caf::actor_system& system, gateway_actor gateway,
                   std::shared_ptr<const std::atomic<std::uint32_t>> max_model_len, request_events log = {});

/// Asks the services. Must not outlive `system`.
std::shared_ptr<control_backend> make_actor_control(caf::actor_system& system, control_services services);

} // namespace troupe
