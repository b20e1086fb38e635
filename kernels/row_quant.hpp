// How activations are converted for products with quantized weights.
#pragma once

#include <cstdint>

namespace troupe::kernels {

/// Plain weights always take plain rows.
enum class row_quant : std::uint8_t {
  none, ///< rounded to bf16
  int8, ///< x ≈ q · scale with q in −127 … 127 and one scale per row; exact integer sums over all of K
};

} // namespace troupe::kernels
