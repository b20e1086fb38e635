// A micro-batch, the unit that passes a model, and the places where it stops.
#pragma once

#include "kernels/block_copy.hpp"

#include <cstdint>
#include <span>

namespace troupe::model {

/// One token of one sequence, which sees its whole past.
struct batch_row {
  std::uint32_t token = 0;
  std::uint32_t position = 0;
  /// Index into `micro_batch::sequences`.
  std::uint32_t sequence = 0;
  /// Destination of its key and value: block · block_tokens + offset in the block.
  std::uint32_t kv_slot = 0;
};

/// Rows of any sequences, prefill and decode, in any order. A sequence's earlier tokens must be in the cache
/// or in this micro-batch.
struct micro_batch {
  std::span<const batch_row> rows;
  /// Block table of each sequence, covering the positions of its rows. Copied by `begin`.
  std::span<const std::span<const std::uint32_t>> sequences;
  /// Of backends with several tables for each sequence, the others: that of table t and sequence s is number
  /// (t − 1) · sequences.size() + s. Blocks that the table's layers do not see may have any number.
  std::span<const std::span<const std::uint32_t>> further_tables{};
};

using kernels::block_copy;

/// Why the model stopped.
enum class pause : std::uint8_t {
  experts, ///< a routed layer: send its rows to their experts, then resume
  done,    ///< after the last layer: request logits
};

} // namespace troupe::model
