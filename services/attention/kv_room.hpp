// Memory of a worker's KV cache, and whether the rest of the attention side fits a memory limit.
#pragma once

#include <cstdint>

#include "kernels/model/config.hpp"
#include "kernels/tensor.hpp"
#include "services/options/memory_budget.hpp"
#include "services/options/role_options.hpp"

namespace troupe {

/// Default memory of the KV cache without a flag and without a memory limit.
inline constexpr std::uint64_t usual_kv_cache_bytes = std::uint64_t{1} << 30U;

/// Default memory of each KV cache where attention and expert workers share a limit: all caches together get
/// a quarter of what the experts leave. If that is almost nothing, loading the experts reports it.
/// @param experts  process memory of all experts
std::uint64_t shared_kv_cache_bytes(const memory_budget& budget, std::uint64_t experts,
                                    std::uint32_t num_workers);

/// Memory of the attention side besides weights and KV cache: rows of all micro-batches in flight, their
/// experts' answers, logits, and RoPE's tables.
/// @param type  of rows
/// @param max_positions  number of positions in RoPE's tables
std::uint64_t attention_reserve(const model::model_config& config, kernels::dtype type,
                                std::uint64_t max_positions, const attention_options& options);

/// Memory of the attention side besides its KV cache.
struct attention_memory {
  std::uint64_t weights = 0;
  bool is_mapped = false;    ///< the weights lie in a mapped file, whose pages the kernel may evict
  std::uint64_t reserve = 0; ///< as `attention_reserve`
};

/// @throws model::model_error  where the weights loaded so far do not fit the budget
void check_attention_fits(const attention_memory& held, const memory_budget& budget);

/// The KV cache's memory: `wanted`, or what the budget leaves, or `usual_kv_cache_bytes` without a limit.
/// @param wanted  --kv-cache-memory; 0: not given
/// @param block_bytes  of a KV block
/// @throws model::model_error  where `wanted` or a single block does not fit
std::uint64_t kv_room_of(std::uint64_t wanted, std::uint64_t block_bytes, const attention_memory& held,
                         const memory_budget& budget);

} // namespace troupe
