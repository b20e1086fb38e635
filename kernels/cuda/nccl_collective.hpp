// Collectives of GPUs by NCCL, for values in device memory.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>

#include "kernels/collective.hpp"
#include "kernels/cuda/device.hpp"

namespace troupe::kernels::cuda {

struct nccl_api;

/// Identifies a group; one rank makes it and sends it to the others by any means.
using nccl_group_id = std::array<std::byte, 128>;

struct nccl_config {
  nccl_group_id group{};
  std::size_t rank = 0;
  std::size_t num_ranks = 1;
  /// Longest wait for all ranks to meet, for NCCL to accept an operation (the first of its kind waits for the
  /// peers), and in `wait`.
  std::chrono::milliseconds timeout{30'000};
};

/// @throws collective_error  NCCL is missing here (`loaded_nccl`), or fails
nccl_group_id make_nccl_group_id(const nccl_api& nccl);

/// Waits until all ranks have met. Calls return when NCCL has given their work to the stream; `wait`, and the
/// end of the group, wait for the stream. Sums are added in NCCL's order, in the type of the values: equal at
/// all ranks, but not the bits of the transport. A lost or silent rank breaks the group at the next wait, and
/// running work is aborted then.
/// @param nccl, on  borrowed: they outlive the result. `on` belongs to the calling thread's device
/// @throws collective_error; `wait` also device_error, which breaks the group
std::unique_ptr<collective> join_nccl_group(const nccl_api& nccl, const nccl_config& config,
                                            const stream& on);

} // namespace troupe::kernels::cuda
