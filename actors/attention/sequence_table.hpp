// The sequences that an attention worker has accepted, and which of them their sessions still want. Pure:
// handles of sessions are only kept.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <caf/actor_addr.hpp>
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/attention/batch_policy.hpp"
#include "actors/engine/engine.hpp"
#include "actors/protocol/generation_messages.hpp"
#include "actors/protocol/prefix_hash.hpp"
#include "actors/protocol/request_context.hpp"

namespace troupe {

/// The part of a session that a worker needs.
using token_receiver_actor = caf::typed_actor<caf::reacts_to<token_update>, caf::reacts_to<sequence_failed>>;

/// A sequence from its acceptance to the end of its last micro-batch.
struct accepted_sequence {
  using time_point = std::chrono::steady_clock::time_point;

  std::uint32_t attempt = 0;
  std::shared_ptr<sequence_tokens> tokens;
  std::shared_ptr<prefix_chain> prefixes; ///< of `tokens`
  token_receiver_actor session;
  request_context context;
  /// Of prompt positions 1.., as far as computed; empty once they are sent, or if they are not wanted.
  std::vector<generated_token> prompt_logprobs;
  bool wants_prompt_logprobs = false;
  bool started = false;
  std::uint32_t num_cached = 0; ///< tokens that it found when it first started
  bool cancelled = false;       ///< in flight; erased when its micro-batch is finished
  std::uint64_t trace = 0;      ///< its request's key in the timeline; 0: it is not traced
  time_point arrived;
  time_point heard; ///< when the session was last sent a message

  std::int32_t num_new() const {
    return static_cast<std::int32_t>(tokens->tokens.size()) - static_cast<std::int32_t>(tokens->num_prompt);
  }
};

class sequence_table {
 public:
  using key = batch_policy::key;

  /// A key for a sequence; rises.
  key next_key() { return ++last_key_; }

  /// @returns whether it is the only sequence of its session
  bool add(key name, accepted_sequence added);

  accepted_sequence& at(key name) { return sequences_.at(name); }

  const accepted_sequence& at(key name) const { return sequences_.at(name); }

  /// The session does not want the sequence any more. @returns whether it was the last one of its session
  bool part(key name);

  void erase(key name) { sequences_.erase(name); }

  /// All sequences, cancelled ones included.
  std::map<key, accepted_sequence>& all() { return sequences_; }

  /// The sequences that their sessions want.
  const std::map<sequence_id, key>& wanted() const { return wanted_; }

  /// The wanted sequence with this id.
  std::optional<key> find(const sequence_id& id) const;

  /// The wanted sequences of a session.
  std::vector<key> of_session(const caf::actor_addr& address) const;

 private:
  std::map<key, accepted_sequence> sequences_;
  std::map<sequence_id, key> wanted_;
  std::map<caf::actor_addr, std::size_t> sessions_; ///< number of wanted sequences
  key last_key_ = 0;
};

} // namespace troupe
