#include "kernels/model/required_tensors.hpp"

#include "kernels/model/program/visit_weights.hpp"

#include <variant>

namespace troupe::model {

namespace {

using tensors = std::vector<tensor_requirement>;

/// Lists tensors.
struct collector {
  tensors& out;

  void add(const tensor_requirement& tensor) const { out.push_back(tensor); }

  void add(const matrix_ref& matrix) const {
    for (std::size_t i = 0; i < matrix.parts.size(); ++i) {
      out.push_back(matrix.parts[i]);
      if (!matrix.biases.empty())
        out.push_back(matrix.biases[i]);
    }
  }

  void add(const mlp_ref& mlp) const {
    out.push_back(mlp.gate);
    if (mlp.up)
      out.push_back(*mlp.up);
    out.push_back(mlp.down);
    out.insert(out.end(), mlp.biases.begin(), mlp.biases.end());
  }
};

} // namespace

tensors dense_tensors(const model_config& config) {
  tensors result{config.embeddings};
  if (config.position_embeddings)
    result.push_back(*config.position_embeddings);
  collector all{result};
  const weight_visitor visitor(all);
  visitor(config.final_norm);
  if (!config.tie_word_embeddings)
    result.push_back(config.lm_head);
  if (config.lm_head_bias)
    result.push_back(*config.lm_head_bias);
  for (const auto& layer : config.layers)
    for (const bool norms : {true, false})
      for (const auto& op : layer.operations)
        if (std::holds_alternative<norm_op>(op) == norms)
          std::visit(visitor, op);
  return result;
}

tensors expert_layer_tensors(const model_config& config, std::size_t layer) {
  tensors result;
  const auto* moe = config.layers.at(layer).moe();
  for (std::size_t e = 0; moe != nullptr && e < moe->num_experts; ++e)
    collector{result}.add(moe->expert(e));
  return result;
}

mlp_ref expert_tensors(const model_config& config, std::size_t layer, std::size_t expert) {
  return config.layers.at(layer).moe()->expert(expert);
}

} // namespace troupe::model
