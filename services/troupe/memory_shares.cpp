#include "services/troupe/memory_shares.hpp"

#include <algorithm>

#include "kernels/model/attention_bytes.hpp"
#include "kernels/model/error.hpp"
#include "kernels/model/load_options.hpp"
#include "services/attention/kv_room.hpp"
#include "services/expert/expert_room.hpp"
#include "services/options/memory_budget.hpp"
#include "services/options/memory_limit.hpp"

namespace troupe {

namespace {

/// Memory for experts of each expert worker: an equal share of what the other processes leave. Experts in a
/// mapped file get as much as needed, since their pages come and go. 0: there is no limit.
/// @throws model::model_error  where all experts take more than there is
std::uint64_t expert_memory_of_each(const up_flags& flags, const model_source& source) {
  memory_budget budget(find_memory_limit());
  if (!budget.is_limited() || source.device.kind != model::device_kind::cpu)
    return 0;
  const auto sizes = sizes_of_experts(*source.cpu_weights);
  if (source.cpu_weights->is_mapped())
    return sizes.total();
  const auto positions = model::positions_of(source.config, {.max_positions = flags.model.max_model_len});
  const auto reserve = attention_reserve(source.config, source.type, positions, flags.attention);
  const auto weights = model::attention_bytes(source.config, source.type, source.cpu_weights->quant());
  budget.take(flags.up.attention_workers * (weights + reserve + flags.attention.kv_cache_memory));
  if (budget.left() < sizes.usual_total()) {
    throw model::model_error(
        budget.text() + ": that leaves " + mebibytes_text(budget.left()) + " for experts, and all "
        + std::to_string(sizes.count) + " take " + mebibytes_text(sizes.usual_total())
        + "; raise the limit, or choose --expert-quant, a smaller --kv-cache-memory, or a "
          "--weights-cache, whose pages come and go");
  }
  const std::uint64_t num_experts = flags.scheduler.expert_workers;
  // The budget counts this program already.
  const std::uint64_t num_processes =
      flags.up.gateways + flags.up.schedulers + flags.up.attention_workers + num_experts;
  budget.take(num_processes * memory_budget::program_bytes);
  const auto each = without_rounding(
      bytes_beside(budget.left() / num_experts, expert_reserve(budget, sizes, /*is_alone=*/false)));
  // At least the worker's part of the experts, counted at full size: coded experts take less.
  const auto share = (sizes.count + num_experts - 1) / num_experts;
  return std::max(each, share * sizes.largest);
}

} // namespace

void share_memory(up_flags& flags, const model_source& source) {
  auto& kv_cache = flags.attention.kv_cache_memory;
  if (kv_cache == 0 && source.device.kind == model::device_kind::cpu) {
    kv_cache = shared_kv_cache_bytes(memory_budget(find_memory_limit()),
                                     bytes_in_process(*source.cpu_weights), flags.up.attention_workers);
  } else if (kv_cache == 0) {
    kv_cache = usual_kv_cache_bytes;
  }
  if (flags.expert.expert_memory == 0)
    flags.expert.expert_memory = expert_memory_of_each(flags, source);
}

} // namespace troupe
