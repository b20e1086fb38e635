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

/// A request that has been read, and whose prompts are tokens.
struct planned_generation {
  openai::generation_plan plan;
  std::string model; ///< as the answer names it
  key_permit& permit;
  std::optional<room_demand> wanted; ///< what a refusal of it says about others; none: nothing
  std::chrono::steady_clock::time_point arrival{};
  uint64_t trace = 0; ///< its key in the timeline; 0: it is not traced
};

/// Starts its prompts, and sends what comes of them: as events, or as one answer at the end.
/// @throws openai::api_error before anything was sent
task<void> run_generation(exchange& client, api& shared, planned_generation what);

} // namespace troupe::http
