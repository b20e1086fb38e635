// The memory that serving a model takes, before it is loaded.
#pragma once

#include <cstdint>

#include "kernels/model/cpu_weights.hpp"
#include "kernels/tensor.hpp"
#include "services/options/role_options.hpp"

namespace troupe {

/// Least memory limits of processes on the CPU, in bytes: those with which `troupe serve` and the workers
/// start, by the functions that they plan their memory with. Weights in mapped files count as if they had to
/// stay.
struct memory_needs {
  std::uint64_t attention_weights = 0;
  std::uint64_t expert_weights = 0;
  std::uint64_t kv_cache = 0;    ///< --kv-cache-memory, or what is usual without a limit
  std::uint64_t one_machine = 0; ///< of `troupe serve`
  std::uint64_t attention_worker = 0;
  std::uint64_t expert_worker = 0; ///< of each, where all are there
};

/// @param weights  need not be there: only their layout is looked at
/// @param positions  of RoPE's tables
/// @param expert_workers  at least 1
memory_needs memory_needs_of(const model::cpu_weights& weights, std::uint64_t positions,
                             const attention_options& attention, std::uint32_t expert_workers);

} // namespace troupe
