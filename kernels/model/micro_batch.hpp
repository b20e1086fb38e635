// What goes through a model together, and where it stops.
#pragma once

#include <cstdint>
#include <span>

namespace troupe::model {

/// One token of one sequence.
struct batch_row {
  /// No other row's mask is extended: the token sees its whole past.
  static constexpr std::uint32_t causal = ~std::uint32_t{0};

  std::uint32_t token = 0;
  std::uint32_t position = 0;
  /// Index into `micro_batch::sequences`.
  std::uint32_t sequence = 0;
  /// Where its key and value go: block · block_tokens + offset in the block.
  std::uint32_t kv_slot = 0;
  /// Row of a speculative tree that this one follows. Only `causal` is accepted so far.
  std::uint32_t mask_parent = causal;
};

/// What goes through the model together: rows of any sequences, prefill and decode, in any order, as long as
/// a sequence's earlier tokens are in the cache or in this micro-batch.
struct micro_batch {
  std::span<const batch_row> rows;
  /// Block table of each sequence, covering the positions of its rows. Copied by `begin`.
  std::span<const std::span<const std::uint32_t>> sequences;
};

/// Why the model stopped.
enum class pause : std::uint8_t {
  experts, ///< a routed layer: send its rows to their experts, then resume
  done,    ///< behind the last layer: ask for logits
};

} // namespace troupe::model
