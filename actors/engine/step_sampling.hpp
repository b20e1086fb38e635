// The end of an attention step: logits of the rows that need them, sampled tokens, and prompt logprobs.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "actors/engine/engine.hpp"
#include "kernels/model/attention_backend.hpp"

namespace troupe {

/// Rows of logits computed at a time: bounds the memory of prompt logprobs (64 rows × 150,000 entries × 4
/// bytes is 38 MB).
inline constexpr std::size_t logits_chunk_rows = 64;

/// A row of a micro-batch whose logits are needed, and their purpose.
struct logits_request {
  std::uint32_t row = 0;      ///< of the micro-batch
  std::uint32_t sequence = 0; ///< index into micro_batch::sequences
  std::uint32_t position = 0; ///< position of the token that the logits predict
  bool sample = false;        ///< draw the token; else report the known one at `position`
};

/// The requests of a micro-batch, in the order of rows: the last row of each sequence that samples, and, if
/// prompt logprobs are wanted, every row before a known prompt token.
std::vector<logits_request> wanted_logits(const std::vector<step_sequence>& sequences);

/// Samples and reports for up to logits_chunk_rows requests; adds the results to `samples`.
/// @param sample   called once; does what `attention_backend::sample` does
/// @param samples  [sequences.size()], sequence i at index i
void answer_logits(const std::function<void(const model::token_requests&)>& sample,
                   std::span<const logits_request> requests, const std::vector<step_sequence>& sequences,
                   std::vector<sampled_sequence>& samples);

} // namespace troupe
