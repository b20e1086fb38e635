// The type in which a model computes, and the numerics class that follows from it.
#pragma once

#include "kernels/model/checkpoint.hpp"
#include "kernels/model/device.hpp"
#include "kernels/model/quantization.hpp"
#include "kernels/tensor.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace troupe::model {

/// The values of `--dtype`.
enum class dtype_choice : std::uint8_t {
  automatic, ///< bfloat16 for a BF16 checkpoint, otherwise float32, which holds F16 and F32 exactly
  float32,
  bfloat16,
};

/// The type of weights and expert rows, and by default of the KV cache: f32 or bf16.
/// @param weights  matched with `config`
kernels::dtype resolve_dtype(dtype_choice choice, const checkpoint& weights, const model_config& config);

/// Names the class within which results are bitwise equal, for any model. Devices of one kind give the same
/// bits, so kind, dtype, quantization, a different type of the KV cache and `kernels::arithmetic_revision`
/// determine it. Workers of different classes must not replace one another.
/// @param kv_type  empty: `type`
/// @returns e.g. "cpu-x86/bf16/none/r1" or "cpu-x86/bf16/int8+dense-int8+rows-int8+kv-int8/r1"
std::string numerics_class(kernels::dtype type, const quantization& quant = {},
                           std::optional<kernels::dtype> kv_type = {}, device_kind kind = device_kind::cpu);

/// The class of an attention side whose sequences have up to `positions` tokens: some models rotate otherwise
/// for short contexts (`model_config::rope_for`).
/// @param name  of the model's numerics class
std::string attention_class(std::string name, const model_config& config, std::size_t positions);

/// The parts of a CPU's numerics class.
struct class_parts {
  kernels::dtype type = kernels::dtype::f32;
  quantization quant;
  kernels::dtype kv_type = kernels::dtype::f32;
};

/// The parts from which `numerics_class` makes `name` on this CPU with this program's arithmetic; empty if
/// there are none.
std::optional<class_parts> parts_of_class(const std::string& name);

} // namespace troupe::model
