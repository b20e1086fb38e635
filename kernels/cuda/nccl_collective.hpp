// Collectives of GPUs, by NCCL: for values in device memory.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>

#include "kernels/collective.hpp"
#include "kernels/cuda/device.hpp"

namespace troupe::kernels::cuda {

struct nccl_api;

/// Names a group; one rank makes it and tells the others, by whatever way they have.
using nccl_group_id = std::array<std::byte, 128>;

struct nccl_config {
  nccl_group_id group{};
  std::size_t rank = 0;
  std::size_t num_ranks = 1;
  /// Until all ranks have met; until NCCL has taken an operation, which at the first of its kind waits for
  /// the peers; and for `wait`.
  std::chrono::milliseconds timeout{30'000};
};

/// @errors collective_error: no NCCL here (`loaded_nccl`), or it fails
nccl_group_id make_nccl_group_id(const nccl_api& nccl);

/// Waits until all ranks have met. Calls return when NCCL has given their work to the stream; `wait` waits
/// for the stream, and so does the end of the group. Sums are added in NCCL's order, in the type of the
/// values: equal at all ranks, and other bits than the transport's. A rank that is gone or silent breaks the
/// group when somebody waits, and work that still runs is aborted then.
/// @param nccl, on  borrowed: they outlive the result. `on` is the calling thread's device's
/// @errors collective_error; of `wait` also device_error, which breaks the group
std::unique_ptr<collective> join_nccl_group(const nccl_api& nccl, const nccl_config& config,
                                            const stream& on);

} // namespace troupe::kernels::cuda
