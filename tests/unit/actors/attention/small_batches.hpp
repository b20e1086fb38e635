// A policy over few blocks, for tests.
#pragma once

#include "actors/attention/batch_policy.hpp"

#include <algorithm>
#include <memory>
#include <vector>

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

/// Names of a sequence of `num_tokens` tokens that has its first `num_common` in common with others of the
/// group.
inline batch_policy::names names(std::int32_t group, std::uint32_t num_common, std::uint32_t num_tokens = 0) {
  static std::int32_t own = 0;
  --own;
  std::vector<std::int32_t> tokens;
  for (std::uint32_t i = 0; i < std::max(num_common, num_tokens); ++i)
    tokens.push_back(i < num_common ? group : own);
  auto result = std::make_shared<prefix_chain>("", 4);
  result->extend(tokens);
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
