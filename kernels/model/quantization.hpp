// Which weights of a model are quantized, how rows meet them, and how the others are stored.
#pragma once

#include "kernels/row_quant.hpp"

#include <cstdint>
#include <string>

namespace troupe::model {

/// What the routed experts are stored as.
enum class expert_quant : std::uint8_t {
  none = 0,
  int8 = 1,
  int4_group32 = 2,
  int4_group64 = 3,
  int4_channel = 4
};

/// Last value of `expert_quant`: what a file may name.
inline constexpr expert_quant last_expert_quant = expert_quant::int4_channel;

/// What attention, LM head, dense MLPs and shared experts are stored as. Embeddings are int8 with either;
/// norms, biases and routers never are.
enum class dense_quant : std::uint8_t { none = 0, int8 = 1, int4_group32 = 2 };

inline constexpr dense_quant last_dense_quant = dense_quant::int4_group32;

/// How matrices that stay in BF16 are stored for the CPU: the same values, so no part of the numerics class.
enum class weight_coding : std::uint8_t {
  none,
  exponents ///< `kernels::packed_format::bf16_coded`, where a matrix can be coded; routers are not
};

struct quantization {
  expert_quant experts = expert_quant::none;
  dense_quant dense = dense_quant::none;
  /// How rows enter quantized weights: no part of the weights' bytes.
  kernels::row_quant rows = kernels::row_quant::none;

  friend bool operator==(const quantization&, const quantization&) = default;

  /// Whether any weight is quantized.
  bool any() const noexcept { return dense != dense_quant::none || experts != expert_quant::none; }

  /// What is stored, as one word: "none", "int8", "int4-group32", "int8+dense-int8",
  /// "none+dense-int4-group32".
  std::string stored_name() const;

  /// The same and the rows: part of the numerics class. "+rows-int8" only where there is something for them
  /// to enter.
  std::string name() const;
};

/// "none", "int8" or "int4-group32".
const char* name_of(dense_quant quant);

} // namespace troupe::model
