#include "actors/expert/expert_batch_check.hpp"

#include <algorithm>

namespace troupe {

std::string flaw_of(const expert_batch& batch, const model_shape& shape) {
  const auto name = "expert batch " + std::to_string(batch.batch) + ": ";
  if (batch.layer >= shape.layer_experts.size() || shape.layer_experts[batch.layer] == 0)
    return name + "layer " + std::to_string(batch.layer) + " has no experts";
  const auto num_experts = shape.layer_experts[batch.layer];
  if (batch.experts.empty() || batch.offsets.size() != batch.experts.size() + 1 || batch.offsets.front() != 0
      || batch.offsets.back() != batch.rows.size())
    return name + "the table of " + std::to_string(batch.experts.size()) + " experts, "
           + std::to_string(batch.offsets.size()) + " offsets and " + std::to_string(batch.rows.size())
           + " rows does not fit together";
  for (std::size_t i = 0; i < batch.experts.size(); ++i) {
    if (batch.experts[i] >= num_experts || (i > 0 && batch.experts[i] <= batch.experts[i - 1]))
      return name + "expert " + std::to_string(batch.experts[i]) + " is out of range (the layer has "
             + std::to_string(num_experts) + ") or out of order";
    if (batch.offsets[i] >= batch.offsets[i + 1])
      return name + "expert " + std::to_string(batch.experts[i]) + " has no rows";
  }
  if (std::any_of(batch.rows.begin(), batch.rows.end(),
                  [&](std::uint32_t row) { return row >= batch.num_rows; }))
    return name + "a row is beyond the " + std::to_string(batch.num_rows) + " that came";
  if (batch.activations.size() != std::uint64_t{batch.num_rows} * shape.row_bytes)
    return name + std::to_string(batch.activations.size()) + " bytes of activations are not "
           + std::to_string(batch.num_rows) + " rows of " + std::to_string(shape.row_bytes) + " bytes";
  return {};
}

} // namespace troupe
