// The part of `attention` that depends on the kind of cache, for latent layers; only for attention.cu.
#pragma once

#include <cstddef>

#include "kernels/cuda/attention.hpp"

namespace troupe::kernels::cuda {

/// Largest head_dim and value_dim of a latent layer.
inline constexpr std::size_t most_latent_dims = 640;
inline constexpr std::size_t most_latent_values = 512;

/// Writes the partial result of every span that a row sees to the workspace.
void latent_spans(const stream& on, const attention_args& args);

} // namespace troupe::kernels::cuda
