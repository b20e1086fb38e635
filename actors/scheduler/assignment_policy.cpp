#include "actors/scheduler/assignment_policy.hpp"

#include <algorithm>

namespace troupe {

namespace {

/// a/b <=> c/d for b, d > 0, without rounding: counts stay far below 2^63, so the products are taken in 128
/// bits.
std::strong_ordering compare_shares(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
  __extension__ using wide = unsigned __int128;
  return static_cast<wide>(a) * d <=> static_cast<wide>(c) * b;
}

/// Compares what two workers have to do before the request gets its first token. The unknown rest of the
/// prompt differs by what each knows of it.
/// @param seat_cost  tokens of prefill that a running sequence counts as, times the most seats of any
/// candidate
bool is_better(const assignment_candidate& lhs, const assignment_candidate& rhs, std::uint64_t seat_cost) {
  const auto busy = [seat_cost](const attention_budget& budget) {
    return budget.num_seqs * seat_cost / budget.max_num_seqs;
  };
  const auto& l = lhs.budget;
  const auto& r = rhs.budget;
  if (const auto left = busy(l) + rhs.prefix.known, right = busy(r) + lhs.prefix.known; left != right)
    return left < right;
  if (auto order = compare_shares(l.kv_tokens, l.kv_capacity_tokens, r.kv_tokens, r.kv_capacity_tokens);
      order != 0)
    return order < 0;
  return lhs.id < rhs.id;
}

} // namespace

std::uint64_t most_side_by_side(const attention_budget& budget, const attention_need& need) {
  if (need.seq_tokens == 0 || need.seq_tokens > budget.max_model_len
      || need.seq_tokens > budget.kv_capacity_tokens)
    return 0;
  return std::min<std::uint64_t>(budget.max_num_seqs, budget.kv_capacity_tokens / need.reserved_tokens());
}

bool can_ever_fit(const attention_budget& budget, const attention_need& need) {
  return need.num_seqs <= most_side_by_side(budget, need);
}

bool fits(const attention_budget& budget, const attention_need& need, std::uint32_t shared_tokens) {
  return can_ever_fit(budget, need) && budget.num_seqs + need.num_seqs <= budget.max_num_seqs
         && budget.kv_tokens_taken() + need.kv_tokens(shared_tokens) <= budget.kv_capacity_tokens;
}

std::optional<worker_id> choose_worker(const std::vector<assignment_candidate>& candidates,
                                       const attention_need& need, const std::vector<worker_id>& avoid,
                                       std::uint64_t sequence_cost_tokens) {
  auto is_avoided = [&avoid](worker_id id) {
    return std::find(avoid.begin(), avoid.end(), id) != avoid.end();
  };
  auto has_other = std::any_of(candidates.begin(), candidates.end(), [&](const auto& candidate) {
    return !is_avoided(candidate.id) && can_ever_fit(candidate.budget, need);
  });
  std::uint64_t most_seats = 0;
  for (const auto& candidate : candidates)
    most_seats = std::max<std::uint64_t>(most_seats, candidate.budget.max_num_seqs);
  const assignment_candidate* best = nullptr;
  for (const auto& candidate : candidates)
    if (fits(candidate.budget, need, candidate.prefix.shared) && !(has_other && is_avoided(candidate.id))
        && (best == nullptr || is_better(candidate, *best, most_seats * sequence_cost_tokens)))
      best = &candidate;
  if (best == nullptr)
    return std::nullopt;
  return best->id;
}

} // namespace troupe
