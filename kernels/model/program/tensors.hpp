// The tensors of a checkpoint that a program refers to.
#pragma once

#include "kernels/activation.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::model {

/// Where a tensor lies in a larger one, or under another name.
struct tensor_place {
  std::string name{};               ///< in the checkpoint
  std::vector<std::size_t> shape{}; ///< of the tensor there
  std::size_t first = 0;            ///< element of the tensor there that is the first one here
  /// Elements between rows and between columns; 0: dense.
  std::size_t row_step = 0;
  std::size_t column_step = 0;
};

/// A weight that a model needs.
struct tensor_requirement {
  std::string name; ///< in the checkpoint; or one of its own, for a part of a tensor
  std::vector<std::size_t> shape;
  /// Other places where checkpoints hold it. The first that exists is taken, if there is no tensor `name`.
  std::vector<tensor_place> also{};
  /// No checkpoint has a tensor of this name: it is a part of another one.
  bool is_part = false;

  std::size_t num_values() const;
};

/// How a matrix of products is kept.
enum class matrix_storage : std::uint8_t {
  quantizable, ///< as --dense-quant says
  plain,       ///< in the model's type
  exact,       ///< in FP32: routers whose choices BF16 would change
};

/// A matrix [outputs, inputs]: tensors of equal inputs, stacked by outputs.
struct matrix_ref {
  std::vector<tensor_requirement> parts{};
  std::vector<tensor_requirement> biases{}; ///< one per part; or none
  matrix_storage storage = matrix_storage::quantizable;

  std::size_t outputs() const;

  std::size_t inputs() const { return parts.front().shape.back(); }
};

/// A feed-forward network: down(act(gate(x)) · up(x)), or down(act(gate(x))) without up.
struct mlp_ref {
  std::string name;                       ///< for messages, and of its extent in a packed file
  tensor_requirement gate;                ///< [intermediate, hidden]
  std::optional<tensor_requirement> up{}; ///< [intermediate, hidden]; none: it is not gated
  tensor_requirement down;                ///< [hidden, intermediate]
  kernels::activation act = kernels::activation::silu;
  float act_limit = kernels::usual_act_limit;
  std::vector<tensor_requirement> biases{}; ///< of gate, up if there is one, and down; or none

  std::size_t intermediate() const { return gate.shape.front(); }

  /// Of all its tensors.
  std::size_t num_values() const;

  std::size_t num_matrices() const { return up ? 3 : 2; }
};

} // namespace troupe::model
