// Converts tensors of a checkpoint to matrices in the layout of the GPU's kernels; needs no GPU.
#pragma once

#include "kernels/cuda/weights.hpp"
#include "kernels/isa.hpp"
#include "kernels/model/quantization.hpp"
#include "kernels/model/weight_source.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::model {

/// How a matrix's numbers are stored on the device.
struct device_storage {
  kernels::cuda::weight_format format = kernels::cuda::weight_format::bf16;
  /// int4: inputs that share a group scale, 32 or 64; 0: no group scales.
  std::size_t group = 0;
};

/// For routed experts.
device_storage expert_storage(const quantization& quant);

/// For the attention side's matrices, except routers.
device_storage dense_storage(const quantization& quant);

/// A matrix, ready to be copied; kernels::cuda::weight_matrix explains the parts.
struct matrix_image {
  kernels::cuda::weight_shape shape;
  std::vector<std::byte> weights;
  std::vector<std::uint32_t> group_scales; // int4
  std::vector<float> channel_scales;       // int8, int4
  std::vector<float> bias;                 // [outputs], or empty
};

/// Packs [N, K] matrices with equal K as one, in order of their outputs. The integers equal those of the
/// CPU's weights (kernels/quantize.hpp). Pages that were read are returned to the page cache.
/// @param set  its kernels help to quantize; the bytes are the same for every set
/// @throws model_error naming the tensor: it cannot be read, or cannot be quantized
matrix_image pack_matrix(const tensor_source& tensors, std::span<const tensor_requirement> parts,
                         device_storage storage, kernels::isa set);

/// The same with its bias, quantized if it may be and --dense-quant says so.
matrix_image pack_matrix(const tensor_source& tensors, const matrix_ref& ref, kernels::isa set);

/// Gate, up if it is gated, and down, with their biases. Pages that were read are returned to the page cache.
std::vector<matrix_image> pack_mlp(const tensor_source& tensors, const mlp_ref& ref, device_storage storage,
                                   kernels::isa set);

} // namespace troupe::model
