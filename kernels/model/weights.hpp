// Converts tensors of a file for the kernels.
#pragma once

#include "kernels/buffer.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/model/checkpoint.hpp"
#include "kernels/packed_matrix.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace troupe::model {

kernels::dtype to_dtype(storage_dtype type) noexcept;

/// A matrix of a checkpoint as rows: in the mapped file if it is aligned for its type there, otherwise
/// copied.
class weight_rows {
 public:
  /// @param tensor  [rows, cols]; a vector is one row
  explicit weight_rows(const tensor_ref& tensor);

  const kernels::const_tensor_view& view() const noexcept { return view_; }

 private:
  kernels::buffer copy_;
  kernels::const_tensor_view view_;
};

/// All values of a tensor, exact.
std::vector<float> to_floats(const tensor_ref& tensor);

/// The first value that is not finite if a model computes in `type`: NaN, an infinity or, for bf16, a value
/// that rounds to an infinity. Empty if all are finite.
/// @param type  f32 or bf16
std::optional<std::size_t> first_not_finite(const tensor_ref& tensor, kernels::dtype type);

/// Packs [N, K] matrices with equal K as one, in order of their outputs.
/// @param set  as in `packed_matrix::pack`
kernels::packed_matrix pack_rows(kernels::packed_format format, std::span<const tensor_ref> parts,
                                 kernels::isa set);

/// Packs an MLP, gated if `up` is not null; the pages read are returned to the page cache.
kernels::expert_weights pack_mlp(kernels::packed_format format, const tensor_ref& gate, const tensor_ref* up,
                                 const tensor_ref& down, kernels::isa set);

} // namespace troupe::model
