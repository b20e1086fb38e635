// The errors that actors answer with. Their values travel on the wire: append only, never renumber.
#pragma once

#include <cstdint>
#include <string>

#include <caf/error.hpp>

namespace troupe {

enum class ec : std::uint8_t {
  none = 0,
  overloaded = 1,       ///< a bounded queue is full; try again later
  not_ready = 2,        ///< no attention worker, or an expert without a host
  not_hosted = 3,       ///< this worker does not host one of the experts (any more)
  bad_request = 4,      ///< the request can never be served as it is
  context_exceeded = 5, ///< prompt and new tokens do not fit the model's context or the KV budget
  deadline_exceeded = 6,
  peer_down = 7, ///< the other process died or was fenced
  cancelled = 8,
  stale_term = 9,     ///< sent by a scheduler that has been replaced
  incompatible = 10,  ///< another model, numerics class or protocol version
  engine_failed = 11, ///< a step failed (out of memory, device lost)
  shutting_down = 12,
  model_broken = 13, ///< the model's logits are not numbers: damaged weights; a retry fails, too
};

std::string to_string(ec code);

/// An error with one sentence of explanation, rendered as "troupe: <code>: <text>".
caf::error make_error(ec code, const std::string& text);

/// The code inside `error`; ec::none when the error is not one of ours.
ec code_of(const caf::error& error);

/// The sentence inside `error`, or a rendering of it when it is not one of ours.
std::string text_of(const caf::error& error);

/// True when `error` means that the receiver's process or actor is gone: requests to a dead peer end with
/// sec::request_receiver_down or exit_reason::remote_link_unreachable, depending on how far they had got.
bool is_peer_down(const caf::error& error);

} // namespace troupe
