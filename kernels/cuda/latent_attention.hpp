// The part of `attention` that depends on the kind of cache, for latent layers; only for attention.cu.
#pragma once

#include "kernels/cuda/attention.hpp"

namespace troupe::kernels::cuda {

/// Writes the partial result of every span that a row sees to the workspace.
void latent_spans(const stream& on, const attention_args& args);

} // namespace troupe::kernels::cuda
