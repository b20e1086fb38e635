// The largest keys and values of a KV cache, on every device.
#pragma once

#include <cstddef>

namespace troupe::kernels {

/// Numbers of a key, and of a value.
inline constexpr std::size_t most_head_dim = 256;

/// Numbers of a key of a latent layer.
inline constexpr std::size_t most_latent_dims = 640;

/// Numbers of a value of a latent layer.
inline constexpr std::size_t most_latent_values = 512;

} // namespace troupe::kernels
