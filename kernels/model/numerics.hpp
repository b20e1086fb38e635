// In which type a model computes, and what that means for who may replace whom.
#pragma once

#include "kernels/model/checkpoint.hpp"
#include "kernels/model/device.hpp"
#include "kernels/model/quantization.hpp"
#include "kernels/tensor.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace troupe::model {

/// What `--dtype` asks for.
enum class dtype_choice : std::uint8_t {
  automatic, ///< bfloat16 where the checkpoint stores BF16, otherwise float32, which holds F16 and F32
             ///< exactly
  float32,
  bfloat16,
};

/// The type of weights and expert rows, and of the KV cache unless told otherwise: f32 or bf16.
kernels::dtype resolve_dtype(dtype_choice choice, const checkpoint& weights);

/// Names the class within which results are bitwise equal, whatever the model: devices of one kind give the
/// same bits, so the kind, dtype, quantization, the KV cache's type where it is another and
/// `kernels::arithmetic_revision` say it all. Workers of different classes must not replace one another.
/// @param kv_type  nothing: `type`
/// @returns e.g. "cpu-x86/bf16/none/r1" or "cpu-x86/bf16/int8+dense-int8+rows-int8+kv-int8/r1"
std::string numerics_class(kernels::dtype type, const quantization& quant = {},
                           std::optional<kernels::dtype> kv_type = {}, device_kind kind = device_kind::cpu);

/// What a numerics class of CPUs stands for.
struct class_parts {
  kernels::dtype type = kernels::dtype::f32;
  quantization quant;
  kernels::dtype kv_type = kernels::dtype::f32;
};

/// The parts of which `numerics_class` makes `name` on this CPU with this program's arithmetic; nothing where
/// there are none.
std::optional<class_parts> parts_of_class(const std::string& name);

} // namespace troupe::model
