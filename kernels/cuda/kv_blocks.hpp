// Copies KV blocks on the device.
#pragma once

#include <cstddef>

#include "kernels/block_copy.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kv_layout.hpp"

namespace troupe::kernels::cuda {

/// Pointers are to device memory.
struct copy_blocks_args {
  /// [num_layers].
  const kv_layer* layers = nullptr;
  std::size_t num_layers = 0;
  /// [num_copies]: no block is both written and read, or written twice.
  const block_copy* copies = nullptr;
  std::size_t num_copies = 0;
};

/// Copies blocks in every layer, for forked sequences. To and from pinned memory use the stream's own copies,
/// `kv_layer::block_bytes` of each layer.
void copy_blocks(const stream& on, const copy_blocks_args& args);

} // namespace troupe::kernels::cuda
