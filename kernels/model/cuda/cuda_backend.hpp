// A model on an NVIDIA GPU: what the kernels in kernels/cuda make of it.
//
// Three libraries define this header's functions, chosen when a program is linked: the one with kernels for a
// GPU, the one whose kernels and device are emulated on the host (for tests), and, in a build without CUDA,
// one that says so.
#pragma once

#include "kernels/context.hpp"
#include "kernels/model/compute_backend.hpp"
#include "kernels/model/weight_source.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace troupe::model {

/// Why this build or this machine cannot compute on the CUDA device `number`, as a sentence's end, and what
/// to do about it; nothing: it can.
std::optional<std::string> cuda_problem(std::uint32_t number);

/// Whether the host stands in for the GPU: a test's program.
bool cuda_is_emulated();

/// Why there are no kernels for a model that is to be computed so, on any GPU, as a sentence's end, and what
/// to do about it; nothing: there are.
/// @param type  f32 or bf16
std::optional<std::string> cuda_model_problem(const model_config& config, kernels::dtype type,
                                              const quantization& quant);

struct cuda_options {
  /// Device memory for experts' weights, in bytes. If all experts of the model take more, those that are
  /// loaded lie in pinned memory of the host, and are copied to the device when rows come for them. 0: all
  /// that are loaded lie on the device.
  std::size_t expert_memory = 0;
  /// Pieces of decode steps are recorded once and given to the device as one piece from then on.
  bool graphs = true;
};

/// A model on the device `number`. Batch-invariant: the same kernels for few rows and for many, attention in
/// splits of a fixed length.
/// @param ctx  borrowed, outlives what the backend makes: samples from logits, and its instruction set helps
///             to quantize
/// @errors  model_error as `cuda_model_problem`; kernels::kernel_error where the device cannot be used
std::unique_ptr<compute_backend> make_cuda_backend(kernels::context& ctx,
                                                   std::shared_ptr<const tensor_source> tensors,
                                                   std::uint32_t number, const cuda_options& options = {});

} // namespace troupe::model
