// The backend that runs a model on an NVIDIA GPU with the kernels in kernels/cuda.
//
// Three libraries define this header's functions, chosen at link time: one with kernels for a GPU; one with
// kernels and device emulated on the host (for tests); and, in a build without CUDA, one that reports its
// absence.
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

/// Why this build or machine cannot compute on the CUDA device `number`, as the end of a sentence, with a
/// remedy; empty: it can.
std::optional<std::string> cuda_problem(std::uint32_t number);

/// Whether the host emulates the GPU, in programs of tests.
bool cuda_is_emulated();

/// Why no GPU can run this model, because kernels are missing, as the end of a sentence, with a remedy;
/// empty: it can.
/// @param type  f32 or bf16
std::optional<std::string> cuda_model_problem(const model_config& config, kernels::dtype type,
                                              const quantization& quant);

struct cuda_options {
  /// Device memory for experts' weights, in bytes. If all experts of the model take more, loaded experts are
  /// in pinned host memory, and are copied to the device when rows come for them. 0: all loaded experts are
  /// on the device.
  std::size_t expert_memory = 0;
  /// Pieces of decode steps are recorded once and then launched as one piece.
  bool graphs = true;
};

/// A model on the device `number`. Batch-invariant: the same kernels for few and for many rows, attention in
/// splits of a fixed length.
/// @param ctx  borrowed, outlives what the backend makes: samples from logits, and its instruction set helps
/// to quantize
/// @throws model_error as `cuda_model_problem`; kernels::kernel_error if the device cannot be used
std::unique_ptr<compute_backend> make_cuda_backend(kernels::context& ctx,
                                                   std::shared_ptr<const tensor_source> tensors,
                                                   std::uint32_t number, const cuda_options& options = {});

} // namespace troupe::model
