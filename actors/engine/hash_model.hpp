// A model made of hashes: no arithmetic worth the name, but every token that it samples depends on every
// token of the context, every routing decision and every byte of every expert's output. A row that is wrong,
// lost, computed twice or put in another's place changes the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "actors/attention/generation_messages.hpp"
#include "actors/engine/engine.hpp"

namespace troupe {

/// The functions of the pseudo-model; pure. `row_bytes` of the shape must be a multiple of 8, and no layer
/// may have fewer experts than `num_topk` (dense layers aside).
struct hash_model {
  model_shape shape;
  /// How unevenly experts are chosen: 0 evenly; with s, expert e is drawn as floor(experts × u^(1 + s)), so
  /// that low numbers are hot.
  double skew = 0;

  /// State of a token before the first layer.
  static uint64_t embed(int32_t token, uint32_t position);
  /// Extends a running digest of keys, in order of position.
  static uint64_t attend(uint64_t digest, uint64_t key);
  /// State of a row once it has attended to `digest`.
  static uint64_t attended(uint32_t layer, uint64_t state, uint64_t digest);
  /// State behind a layer without experts.
  static uint64_t dense(uint32_t layer, uint64_t state);
  /// The experts of a row, distinct, best first. [num_topk]
  std::vector<uint32_t> route(uint32_t layer, uint64_t state) const;
  /// The activation row of a state. [row_bytes]
  void activations(uint64_t state, std::byte* row) const;
  /// An expert's output for an activation row. [row_bytes] both
  void expert(uint32_t layer, uint32_t expert, const std::byte* row, std::byte* output) const;
  /// State behind a MoE layer: the outputs of the row's experts in top-k order.
  uint64_t combine(uint32_t layer, uint64_t state, std::span<const std::byte* const> outputs) const;
  /// The token at `position`, drawn from the state of the row before it. Stop tokens are not drawn while
  /// fewer than `min_tokens` have come.
  generated_token sample(uint64_t state, const sequence_tokens& sequence, uint32_t position) const;
  /// What is said of a token that is known.
  generated_token score(uint64_t state, int32_t token, int32_t num_logprobs) const;
};

/// What a request must give.
struct hash_model_output {
  std::vector<generated_token> tokens; ///< new ones, without those that the request says are emitted already;
                                       ///< the last is the stop token when it finishes with `stop`
  std::vector<generated_token> prompt_logprobs;
  finish_reason finish = finish_reason::none;
  bool operator==(const hash_model_output&) const = default;
};

/// Runs one request alone, from scratch and without any of the machinery that serves it.
/// @param max_positions  prompt and new tokens together
hash_model_output hash_model_tokens(const hash_model& model, const generation_request& request,
                                    uint32_t max_positions);

} // namespace troupe
