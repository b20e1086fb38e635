// A pseudo-model made of hashes. Every token that it samples depends on every token of the context, every
// routing decision and every byte of every expert's output. So a row that is wrong, lost, computed twice or
// misplaced changes the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "actors/engine/engine.hpp"
#include "actors/protocol/generation_messages.hpp"

namespace troupe {

/// The functions of the pseudo-model; pure. `row_bytes` of the shape must be a multiple of 8, and no layer
/// may have fewer experts than `num_topk` (dense layers aside).
struct hash_model {
  model_shape shape;
  /// Skew s of the choice of experts: expert e is drawn as floor(experts × u^(1 + s)), so that low numbers
  /// are frequent; 0: evenly.
  double skew = 0;

  /// State of a token before the first layer.
  static std::uint64_t embed(std::int32_t token, std::uint32_t position);
  /// Extends a running digest of keys, in order of position.
  static std::uint64_t attend(std::uint64_t digest, std::uint64_t key);
  /// State of a row once it has attended to `digest`.
  static std::uint64_t attended(std::uint32_t layer, std::uint64_t state, std::uint64_t digest);
  /// State behind a layer without experts.
  static std::uint64_t dense(std::uint32_t layer, std::uint64_t state);
  /// The experts of a row, distinct, best first. [num_topk]
  std::vector<std::uint32_t> route(std::uint32_t layer, std::uint64_t state) const;
  /// The activation row of a state. [row_bytes]
  void activations(std::uint64_t state, std::byte* row) const;
  /// An expert's output for an activation row. [row_bytes] both
  void expert(std::uint32_t layer, std::uint32_t expert, const std::byte* row, std::byte* output) const;
  /// State behind a MoE layer: the outputs of the row's experts in top-k order.
  std::uint64_t combine(std::uint32_t layer, std::uint64_t state,
                        std::span<const std::byte* const> outputs) const;
  /// The token at `position`, drawn from the state of the row before it. Stop tokens are not drawn while
  /// fewer than `min_tokens` have come.
  generated_token sample(std::uint64_t state, const sequence_tokens& sequence, std::uint32_t position) const;
  /// The report on a known token.
  generated_token score(std::uint64_t state, std::int32_t token, std::int32_t num_logprobs) const;
};

/// The expected result of a request.
struct hash_model_output {
  std::vector<generated_token> tokens; ///< new tokens, without those that the request has emitted already;
                                       ///< the last one is the stop token if it finishes with `stop`
  std::vector<generated_token> prompt_logprobs;
  finish_reason finish = finish_reason::none;
  bool operator==(const hash_model_output&) const = default;
};

/// Runs one request alone, without the actors that serve it.
/// @param max_positions  bound of prompt and new tokens together
hash_model_output hash_model_tokens(const hash_model& model, const generation_request& request,
                                    std::uint32_t max_positions);

} // namespace troupe
