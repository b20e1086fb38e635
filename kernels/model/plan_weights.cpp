#include "kernels/model/plan_weights.hpp"

#include "kernels/model/cpu_weights.hpp"

namespace troupe::model {

namespace {

kernels::packed_format coded_if(kernels::packed_format format, weight_coding coding) {
  return format == kernels::packed_format::bf16_pair && coding == weight_coding::exponents
             ? kernels::packed_format::bf16_coded
             : format;
}

/// The layer whose shapes stand for all: the first one with experts from the middle on, else any with
/// experts, since the experts are most of the weights; the middle one of a dense model.
const layer_program& measured_layer(const model_config& config) {
  const auto count = config.num_layers();
  for (std::size_t i = 0; i < count; ++i)
    if (const auto& layer = config.layers[(count / 2 + i) % count]; layer.moe() != nullptr)
      return layer;
  return config.layers.at(count / 2);
}

} // namespace

std::vector<kernels::calibration_weights> plan_weights(const model_config& config, kernels::dtype type,
                                                       const quantization& quant, weight_coding coding) {
  const auto dense = coded_if(dense_format(quant, type), coding);
  const auto experts = coded_if(expert_format(quant, type), coding);
  std::vector<kernels::calibration_weights> found;
  const auto of = [&](kernels::packed_format format) -> kernels::calibration_weights& {
    const auto rows = kernels::is_quantized(format) ? quant.rows : kernels::row_quant::none;
    const auto kind = kernels::kind_of(format, rows);
    for (auto& weights : found)
      if (weights.kind() == kind)
        return weights;
    found.push_back({.format = format, .rows = rows, .row_type = type});
    return found.back();
  };
  const auto& layer = measured_layer(config);
  for (const auto& op : layer.operations)
    if (const auto* project = std::get_if<project_op>(&op);
        project != nullptr && project->matrix.storage == matrix_storage::quantizable)
      of(dense).dense.push_back({project->matrix.outputs(), project->matrix.inputs()});
  const auto* moe = layer.moe();
  auto& ffn = of(moe != nullptr ? experts : dense);
  ffn.hidden = config.hidden;
  for (auto& weights : found)
    weights.copies = config.num_layers();
  ffn.copies = config.num_layers() * (moe != nullptr ? moe->num_experts : 1);
  const auto* mlp = layer.find<feed_forward_op>();
  ffn.ffn = moe != nullptr ? moe->intermediate : mlp->mlp.intermediate();
  ffn.gated = moe != nullptr ? moe->is_gated() : mlp->mlp.up.has_value();
  return found;
}

std::string text_of(const std::vector<kernels::calibration_weights>& weights) {
  std::string text;
  const auto shape = [](std::size_t outputs, std::size_t inputs) {
    return " " + std::to_string(outputs) + "x" + std::to_string(inputs);
  };
  for (const auto& some : weights) {
    text += (text.empty() ? "" : ", ") + std::string(kernels::name_of(some.kind())) + "/"
            + kernels::name_of(some.format) + "/" + kernels::name_of(some.row_type);
    if (some.ffn != 0)
      text += (some.gated ? " ffn" : " ungated ffn") + shape(some.ffn, some.hidden);
    for (const auto& matrix : some.dense)
      text += shape(matrix.outputs, matrix.inputs);
  }
  return text;
}

} // namespace troupe::model
