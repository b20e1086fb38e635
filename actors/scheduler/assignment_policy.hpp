// Which attention worker takes a request. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "actors/protocol/defaults.hpp"
#include "actors/protocol/ids.hpp"
#include "actors/scheduler/prefix_index.hpp"

namespace troupe {

/// What an attention worker can hold, and what it holds.
struct attention_budget {
  std::uint32_t max_num_seqs = 0;
  std::uint64_t kv_capacity_tokens = 0;
  std::uint32_t max_model_len = 0;
  std::uint64_t num_seqs = 0;       ///< sequences with a place
  std::uint64_t kv_tokens = 0;      ///< KV tokens set aside for them
  std::uint64_t kv_tokens_used = 0; ///< in use, as it has reported

  /// Not to be reserved for others: sequences may have grown beyond what was reserved for them.
  std::uint64_t kv_tokens_taken() const { return std::max(kv_tokens, kv_tokens_used); }
};

/// What a request takes.
struct attention_need {
  std::uint32_t num_seqs = 1;
  std::uint64_t seq_tokens = 0;      ///< prompt and new tokens that one sequence may grow to
  std::uint64_t expected_tokens = 0; ///< that it is likely to grow to, and that are reserved; 0: all of them

  std::uint64_t reserved_tokens() const { return expected_tokens == 0 ? seq_tokens : expected_tokens; }

  /// @param shared  tokens of the prompt that another request holds already
  std::uint64_t kv_tokens(std::uint32_t shared = 0) const {
    return num_seqs * (reserved_tokens() - std::min<std::uint64_t>(shared, reserved_tokens()));
  }
};

struct assignment_candidate {
  worker_id id;
  attention_budget budget;
  prefix_index::match prefix{};
};

/// How many sequences of this need an idle worker with this budget runs side by side; 0 when one is too long.
std::uint64_t most_side_by_side(const attention_budget& budget, const attention_need& need);

/// Could an idle worker with this budget ever run it?
bool can_ever_fit(const attention_budget& budget, const attention_need& need);

/// Is there room for it now?
bool fits(const attention_budget& budget, const attention_need& need, std::uint32_t shared_tokens = 0);

/// The worker with room that has least to do before the request gets its first token: the tokens of the
/// prompt that it does not know, and `sequence_cost_tokens` for each sequence that it runs (of a
/// worker with fewer seats than the largest candidate, proportionally more). Among equals the one with the
/// lowest share of KV in use, then the lowest id. Workers in `avoid` only when no other could ever run the
/// request.
std::optional<worker_id> choose_worker(const std::vector<assignment_candidate>& candidates,
                                       const attention_need& need, const std::vector<worker_id>& avoid,
                                       std::uint64_t sequence_cost_tokens = defaults::sequence_cost_tokens);

} // namespace troupe
