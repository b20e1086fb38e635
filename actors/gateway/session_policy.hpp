// Which tokens of an update are new, and which failures are worth a retry. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "actors/protocol/error.hpp"
#include "actors/protocol/generation_messages.hpp"

namespace troupe {

/// The tokens of one choice that the client has.
class choice_log {
 public:
  enum class verdict { fresh, duplicate, gap };

  /// Appends the new part of `tokens`, which start at `first_index` of the choice, and removes the rest from
  /// `tokens`.
  /// `duplicate`: nothing was new. `gap`: tokens before `first_index` are missing; nothing is taken.
  verdict accept(std::uint32_t first_index, std::vector<generated_token>& tokens);

  const std::vector<std::int32_t>& tokens() const { return tokens_; }

  bool is_finished() const { return finished_; }

  void finish() { finished_ = true; }

 private:
  std::vector<std::int32_t> tokens_;
  bool finished_ = false;
};

/// Whether a request that failed with this code can succeed on another worker, or later on the same one.
bool is_retryable(ec code);

/// Pause before attempt number `attempt` (1: the first replay, at once); doubles up to
/// defaults::reconnect_max.
std::chrono::milliseconds replay_pause(std::uint32_t attempt);

} // namespace troupe
