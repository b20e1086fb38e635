#include "kernels/model/parameters.hpp"

#include "kernels/model/required_tensors.hpp"

namespace troupe::model {

parameter_counts count_parameters(const model_config& config) {
  parameter_counts result;
  for (const auto& tensor : dense_tensors(config))
    result.all += tensor.num_values();
  result.active = result.all;
  for (const auto& layer : config.layers)
    if (const auto* moe = layer.moe()) {
      const auto expert = moe->expert(0).num_values();
      result.all += moe->num_experts * expert;
      result.active += moe->num_topk * expert;
    }
  return result;
}

} // namespace troupe::model
