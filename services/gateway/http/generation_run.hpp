// One request for generated text from its plan to its answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "services/gateway/http/api.hpp"
#include "services/gateway/http/exchange.hpp"
#include "services/gateway/openai/plan.hpp"

namespace troupe::http {

/// A request that was parsed and tokenized.
struct planned_generation {
  openai::generation_plan plan;
  std::string model; ///< as the answer names it
  key_permit& permit;
  std::optional<room_demand> wanted; ///< for shared refusals; empty: its refusal is not shared
  std::chrono::steady_clock::time_point arrival{};
  std::uint64_t trace = 0; ///< key of the request in the timeline; 0: it is not traced
};

/// Starts the prompts, and sends their tokens as events, or as one answer at the end.
/// @throws openai::api_error before anything was sent
task<void> run_generation(exchange& client, api& shared, planned_generation what);

} // namespace troupe::http
