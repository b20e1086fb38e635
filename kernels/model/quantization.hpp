// Which weights of a model are quantized, how rows are converted for them, and how other weights are stored.
#pragma once

#include "kernels/row_quant.hpp"

#include <cstdint>
#include <string>

namespace troupe::model {

/// Storage of the routed experts.
enum class expert_quant : std::uint8_t {
  none = 0,
  int8 = 1,
  int4_group32 = 2,
  int4_group64 = 3,
  int4_channel = 4
};

/// Last value of `expert_quant` that a file may name.
inline constexpr expert_quant last_expert_quant = expert_quant::int4_channel;

/// Storage of attention, LM head, dense MLPs and shared experts. Embeddings are int8 with either; norms,
/// biases and routers are never quantized.
enum class dense_quant : std::uint8_t { none = 0, int8 = 1, int4_group32 = 2 };

inline constexpr dense_quant last_dense_quant = dense_quant::int4_group32;

/// Storage of BF16 matrices for the CPU. The values are the same, so it is not part of the numerics class.
enum class weight_coding : std::uint8_t {
  none,
  exponents ///< `kernels::packed_format::bf16_coded` for matrices that can be coded; not for routers
};

struct quantization {
  expert_quant experts = expert_quant::none;
  dense_quant dense = dense_quant::none;
  /// How rows are converted for quantized weights; not part of the weights' bytes.
  kernels::row_quant rows = kernels::row_quant::none;

  friend bool operator==(const quantization&, const quantization&) = default;

  /// Whether any weight is quantized.
  bool any() const noexcept { return dense != dense_quant::none || experts != expert_quant::none; }

  /// The stored formats as one word: "none", "int8", "int4-group32", "int8+dense-int8",
  /// "none+dense-int4-group32".
  std::string stored_name() const;

  /// The same with the rows: part of the numerics class. "+rows-int8" only if there are weights for such
  /// rows.
  std::string name() const;
};

/// "none", "int8" or "int4-group32".
const char* name_of(dense_quant quant);

} // namespace troupe::model
