// The weights of an operation, for whoever counts or lists them.
#pragma once

#include "kernels/model/program/operations.hpp"

#include <optional>

namespace troupe::model {

/// Passes each weight of an operation on, in the order of their use. The routed experts are not among them.
/// @tparam Sink  has `add` for a tensor_requirement, a matrix_ref (with its biases) and an mlp_ref
template <class Sink>
class weight_visitor {
 public:
  explicit weight_visitor(Sink& sink) : sink_(sink) {}

  void operator()(const norm_op& op) const {
    sink_.add(op.weight);
    add(op.bias);
  }

  void operator()(const project_op& op) const { sink_.add(op.matrix); }

  void operator()(const attend_op& op) const {
    if (op.norm) {
      add(op.norm->query);
      add(op.norm->key);
    }
    add(op.sinks);
  }

  void operator()(const attend_latent_op& op) const {
    sink_.add(op.norm);
    for (const auto* heads : {&op.key_heads, &op.value_heads})
      for (const auto& matrix : *heads)
        sink_.add(matrix);
  }

  void operator()(const route_op& op) const {
    sink_.add(op.matrix);
    add(op.choice_bias);
  }

  void operator()(const combine_op& /*unused*/) const {}

  void operator()(const feed_forward_op& op) const { sink_.add(op.mlp); }

  void operator()(const add_op& op) const { add(op.gate); }

 private:
  void add(const std::optional<tensor_requirement>& tensor) const {
    if (tensor)
      sink_.add(*tensor);
  }

  Sink& sink_;
};

} // namespace troupe::model
