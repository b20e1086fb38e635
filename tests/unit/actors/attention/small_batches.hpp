// A policy over few blocks, for tests.
#pragma once

#include "actors/attention/batch_policy.hpp"

namespace troupe::test {

inline batch_policy::limits small() {
  batch_policy::limits result;
  result.max_num_seqs = 4;
  result.max_num_batched_tokens = 8;
  result.max_waiting = 6;
  result.max_model_len = 64;
  result.block_tokens = 4;
  result.num_blocks = 16;
  return result;
}

/// A block table of a sequence.
inline const block_table& blocks(const batch_policy& policy, batch_policy::key sequence,
                                 std::size_t table = 0) {
  return policy.tables(sequence)->at(table);
}

inline void complete(batch_policy& policy, const batch_policy::plan& plan) {
  for (const auto& slice : plan.slices)
    policy.complete(slice.sequence, slice.last);
}

} // namespace troupe::test
