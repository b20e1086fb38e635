// Memory of a worker's experts.
#pragma once

#include <cstdint>

#include "kernels/model/cpu_weights.hpp"
#include "kernels/model/expert_backend.hpp"
#include "services/options/memory_budget.hpp"

namespace troupe {

struct expert_room_request {
  std::uint64_t wanted = 0;  ///< --expert-memory; 0: not given
  bool is_alone = false;     ///< the only expert worker, which must hold all experts
  bool from_workers = false; ///< other workers may send weights, into process memory
};

/// Sizes of a model's experts. The scheduler counts each expert at the size of the largest.
struct expert_sizes {
  std::uint64_t count = 0;
  std::uint64_t largest = 0; ///< bytes
  std::uint64_t usual = 0;   ///< bytes of most experts; `largest` unless exponents are coded
  std::uint64_t row = 0;     ///< bytes of an input row, and of an output row

  std::uint64_t total() const { return count * largest; }

  /// The actual size of all experts for most models.
  std::uint64_t usual_total() const { return count * usual; }
};

expert_sizes sizes_of_experts(const model::expert_backend& backend);

/// The same from the weights, without a backend.
expert_sizes sizes_of_experts(const model::cpu_weights& weights);

/// Approximate process memory of all experts of the model; 0 where they lie in a mapped file.
std::uint64_t bytes_in_process(const model::cpu_weights& weights);

/// Maximum number of rows queued at an expert worker: the default, or fewer where the rows with their outputs
/// would exceed an eighth of the memory limit or only one attention worker sends rows. At least eight
/// micro-batches.
std::uint32_t queued_rows_within(const memory_budget& budget, const expert_sizes& sizes, bool is_alone);

/// Memory of an expert worker besides its experts: queued rows, an arriving expert and its source, and two
/// experts that are removed while in use.
std::uint64_t expert_reserve(const memory_budget& budget, const expert_sizes& sizes, bool is_alone);

/// Default memory of a worker's experts: the budget's rest without the reserve and the allocator's rounding.
std::uint64_t expert_room_within(const memory_budget& budget, const expert_sizes& sizes, bool is_alone);

/// Memory of a worker's experts: as wanted, or the device's room, or what the budget leaves besides the
/// reserve. Experts in mapped files may exceed the budget, since the kernel may evict their pages.
/// @returns bytes; 0: as much as needed
/// @throws model::model_error  without room for one expert, for the wanted memory, or, where the worker is
/// alone, for all experts
std::uint64_t expert_room_of(const model::expert_backend& backend, const expert_room_request& request,
                             const memory_budget& budget);

} // namespace troupe
