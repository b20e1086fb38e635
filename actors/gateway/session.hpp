// The SESSION: one client request. It owns the prompt and every token emitted so far, and survives the death
// of the worker that computes it: it submits prompt and tokens again elsewhere, under the next attempt
// number, and drops what older attempts still send.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/gateway/gateway.hpp"
#include "actors/protocol/atoms.hpp"
#include "actors/protocol/generation_messages.hpp"
#include "actors/protocol/prefix_hash.hpp"
#include "actors/protocol/request_context.hpp"

namespace troupe {

/// Receives the tokens of a session (for HTTP, or a test). Called on the actor's thread: an implementation
/// hands over and returns; it neither blocks nor throws. No call follows the end of all choices or
/// `on_error`.
class session_listener {
 public:
  virtual ~session_listener() = default;

  /// A worker has room and has received the request for the first time.
  virtual void on_placed() {}

  /// New tokens of a choice, each exactly once and in order. A reason other than none: the choice is complete
  /// with them. `stop`: the last of them is the stop token that ended it; with no token: it was stopped.
  virtual void on_tokens(std::uint32_t choice, const std::vector<generated_token>& tokens,
                         finish_reason reason) = 0;

  /// Tokens of the prompt whose keys were known, so that they were not computed. Once, before the first
  /// token.
  virtual void on_cached_tokens(std::uint32_t /*num_tokens*/) {}

  /// Logprobs of prompt positions 1.., once, before the first token, when the request asked for them.
  virtual void on_prompt_logprobs(const std::vector<generated_token>& tokens) = 0;

  /// The request failed as a whole; nothing follows.
  virtual void on_error(const caf::error& error) = 0;
};

/// One client request, validated and tokenized.
struct session_request {
  request_id id;
  std::vector<std::int32_t> prompt;
  sampling_params sampling; ///< choice c samples with (seed, c)
  std::uint32_t num_choices = 1;
  std::int32_t priority = 0;
  bool open_ended = false;  ///< the answer may be shorter than sampling.max_tokens if the context ends
  bool follows = false;     ///< another prompt of the same client's request already has a token
  std::string tenant;       ///< see admission_request
  std::uint32_t weight = 1; ///< see admission_request
  std::string cache_salt;   ///< see generation_request
  std::uint32_t prefix_unit = troupe::prefix_unit; ///< tokens between names of beginnings
  std::chrono::milliseconds admission_wait{0};     ///< 0: defaults::admission_wait
  std::chrono::milliseconds timeout{0};            ///< of the whole request; 0: none
  request_context context{};
  request_events log{}; ///< receives the events of the request
};

/// The SESSION interface.
using session_actor = caf::typed_actor<
    // Tokens from the attention worker.
    caf::reacts_to<token_update>,
    // A sequence cannot run on its worker. It is replayed elsewhere if that can help; otherwise the listener
    // gets an error.
    caf::reacts_to<sequence_failed>,
    // This choice has all the text it needs (a stop string was found): it gets no more tokens. The listener
    // still gets its end, without tokens.
    caf::reacts_to<stop_atom, std::uint32_t /* choice */>,
    // The scheduler has declared this worker dead (from the gateway actor): replayed elsewhere.
    caf::reacts_to<fence_atom, worker_id>,
    // Deadlines and pauses (local only).
    caf::reacts_to<caf::tick_atom>,
    // The client is gone: cancel everything. The listener is not called any more.
    caf::reacts_to<cancel_atom>>;

/// Starts a session. It ends by itself.
session_actor spawn_session(caf::actor_system& system, gateway_actor gateway, session_request request,
                            std::shared_ptr<session_listener> listener);

} // namespace troupe
