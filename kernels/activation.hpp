// Activation functions, built from our own fused multiply-adds instead of libm: the same bits everywhere.
#pragma once

#include <cstdint>

#include "kernels/context.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// Nonlinearity of an expert or a dense FFN.
enum class activation : std::uint8_t {
  silu = 0,      ///< x · sigmoid(x)
  gelu_tanh = 1, ///< 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))
  gelu_erf = 2,  ///< 0.5 x (1 + erf(x / √2))
  /// gpt-oss's gated unit: g · sigmoid(1.702 g) with g = min(x, limit). Its up is min(max(up, −limit), limit)
  /// + 1 instead of up.
  clamped_glu = 3,
};

/// gpt-oss's `swiglu_limit`.
inline constexpr float usual_act_limit = 7.0F;

/// out = act(x), element by element; [rows, cols], f32 or bf16 each. In place allowed. For tests, as
/// `gated_activation`.
void activate(context& ctx, activation kind, const_tensor_view input, tensor_view output,
              float limit = usual_act_limit);

} // namespace troupe::kernels
