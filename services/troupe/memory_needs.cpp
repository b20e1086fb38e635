#include "services/troupe/memory_needs.hpp"

#include "kernels/model/attention_bytes.hpp"
#include "services/attention/kv_room.hpp"
#include "services/expert/expert_room.hpp"
#include "services/options/memory_budget.hpp"

namespace troupe {

namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20U;
constexpr std::uint64_t most_mebibytes = std::uint64_t{1} << 30U;

/// The least limit, in whole MiB, with which `suffices` is true; it stays true above.
template <class Predicate>
std::uint64_t least_limit(const Predicate& suffices) {
  std::uint64_t low = 0;
  std::uint64_t high = most_mebibytes;
  while (low < high) {
    const auto middle = (low + high) / 2;
    if (suffices(memory_budget(middle * mebibyte)))
      high = middle;
    else
      low = middle + 1;
  }
  return low * mebibyte;
}

} // namespace

memory_needs memory_needs_of(const model::cpu_weights& weights, std::uint64_t positions,
                             const attention_options& attention, std::uint32_t expert_workers) {
  const auto& config = weights.config();
  const auto sizes = sizes_of_experts(weights);
  memory_needs needs;
  needs.attention_weights = model::attention_bytes(config, weights.type(), weights.quant());
  needs.expert_weights = sizes.usual_total();
  needs.kv_cache = attention.kv_cache_memory == 0 ? usual_kv_cache_bytes : attention.kv_cache_memory;
  const auto attention_side = needs.attention_weights
                              + attention_reserve(config, weights.type(), positions, attention)
                              + needs.kv_cache;
  needs.attention_worker =
      least_limit([&](const memory_budget& budget) { return budget.left() >= attention_side; });
  needs.one_machine = least_limit([&](memory_budget budget) {
    budget.take(attention_side);
    return budget.left() > 0 && expert_room_within(budget, sizes, /*is_alone=*/true) >= sizes.usual_total();
  });
  // Every expert counts as the largest one (the scheduler does so).
  const auto share = (sizes.count + expert_workers - 1) / expert_workers * sizes.largest;
  needs.expert_worker = least_limit([&](const memory_budget& budget) {
    return budget.left() > 0 && expert_room_within(budget, sizes, /*is_alone=*/false) >= share;
  });
  return needs;
}

} // namespace troupe
