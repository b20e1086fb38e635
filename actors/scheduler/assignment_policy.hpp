// Which attention worker takes a request. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/ids.hpp"

namespace troupe {

/// What an attention worker can hold, and what it holds.
struct attention_budget {
  uint32_t max_num_seqs = 0;
  uint64_t kv_capacity_tokens = 0;
  uint32_t max_model_len = 0;
  uint64_t num_seqs = 0;  ///< sequences with a place
  uint64_t kv_tokens = 0; ///< KV tokens set aside for them
};

/// What a request takes: every sequence may grow to its longest.
struct attention_need {
  uint32_t num_seqs = 1;
  uint64_t seq_tokens = 0; ///< prompt and new tokens of one sequence

  uint64_t kv_tokens() const { return num_seqs * seq_tokens; }
};

struct assignment_candidate {
  worker_id id;
  attention_budget budget;
  uint32_t cached_prefix_tokens = 0; ///< prompt tokens that its prefix cache holds
};

/// Could an idle worker with this budget ever run it?
bool can_ever_fit(const attention_budget& budget, const attention_need& need);

/// Is there room for it now?
bool fits(const attention_budget& budget, const attention_need& need);

/// The least loaded worker with room: lowest share of its sequences in use; among equals the longest cached
/// prefix, then the lowest share of KV in use, then the lowest id. Workers in `avoid` only when no other
/// could ever run the request.
std::optional<worker_id> choose_worker(const std::vector<assignment_candidate>& candidates,
                                       const attention_need& need, const std::vector<worker_id>& avoid);

} // namespace troupe
