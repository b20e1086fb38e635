// What a session takes from updates, and which failures another worker can help with. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "actors/attention/generation_messages.hpp"
#include "actors/error.hpp"

namespace troupe {

/// The tokens of one choice that the client has.
class choice_log {
 public:
  enum class verdict { fresh, duplicate, gap };

  /// Takes what is new of `tokens`, which start at `first_index` of the choice, and leaves only that in it.
  /// `duplicate`: nothing was new. `gap`: tokens before `first_index` are missing; nothing is taken.
  verdict accept(uint32_t first_index, std::vector<generated_token>& tokens);

  const std::vector<int32_t>& tokens() const { return tokens_; }

  bool is_finished() const { return finished_; }

  void finish() { finished_ = true; }

 private:
  std::vector<int32_t> tokens_;
  bool finished_ = false;
};

/// Can another worker, or the same one later, do what failed with this code?
bool is_retryable(ec code);

/// Pause before attempt number `attempt` (1: the first replay, at once); doubles up to
/// defaults::reconnect_max.
std::chrono::milliseconds replay_pause(uint32_t attempt);

} // namespace troupe
