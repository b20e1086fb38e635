// The cluster behind HTTP: sessions and the gateway actor.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <caf/fwd.hpp>

#include "actors/gateway/gateway.hpp"
#include "services/gateway/http/generation_backend.hpp"

namespace troupe {

/// Starts a session for every job, and asks `gateway` for view and status. Must not outlive `system`.
/// @param max_model_len  see generation_backend; set by whoever hears it from the gateway actor
/// @param log            hears what becomes of each request
std::shared_ptr<generation_backend>
make_actor_backend(caf::actor_system& system, gateway_actor gateway,
                   std::shared_ptr<const std::atomic<uint32_t>> max_model_len, request_events log = {});

} // namespace troupe
