// From tensors of a checkpoint to a matrix in the layout that the GPU's kernels stream; needs no GPU.
#pragma once

#include "kernels/cuda/weights.hpp"
#include "kernels/isa.hpp"
#include "kernels/model/quantization.hpp"
#include "kernels/model/weight_source.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe::model {

/// How a matrix's numbers are stored on the device.
struct device_storage {
  kernels::cuda::weight_format format = kernels::cuda::weight_format::bf16;
  /// int4: inputs that share a group scale, 32 or 64; 0: none do.
  std::size_t group = 0;
};

/// Of routed experts.
device_storage expert_storage(const quantization& quant);

/// Of the attention side's matrices, routers excepted.
device_storage dense_storage(const quantization& quant);

/// A matrix, ready to be copied: kernels::cuda::weight_matrix says what its parts are.
struct matrix_image {
  kernels::cuda::weight_shape shape;
  std::vector<std::byte> weights;
  std::vector<std::uint32_t> group_scales; // int4
  std::vector<float> channel_scales;       // int8, int4
  std::vector<float> bias;                 // [outputs], or empty
};

/// Packs [N, K] matrices with equal K as one: the first one's outputs come first. The integers are those of
/// the CPU's weights (kernels/quantize.hpp). Pages that were read are given back to the page cache.
/// @param set  whose kernels help to quantize; with every set's the bytes are the same
/// @errors  model_error that names the tensor: it cannot be read, or holds what cannot be quantized
matrix_image pack_matrix(const tensor_source& tensors, std::span<const std::string> names,
                         device_storage storage, kernels::isa set);

} // namespace troupe::model
