#include "kernels/model/program/operations.hpp"

namespace troupe::model {

namespace {

/// Adds where gate, up and down of gated expert `index` lie in fused tensors.
void add_places(const moe_spec& moe, const fused_experts& fused, std::size_t index, mlp_ref& out) {
  const auto ffn = moe.intermediate;
  const auto first = index * 2 * ffn * moe.hidden;
  const auto down = index * ffn * moe.hidden;
  switch (fused.order) {
  case fused_experts::layout::rows: {
    const std::vector<std::size_t> shape{moe.num_experts, 2 * ffn, moe.hidden};
    out.gate.also.push_back({fused.gate_up, shape, first});
    out.up->also.push_back({fused.gate_up, shape, first + ffn * moe.hidden});
    out.down.also.push_back({fused.down, {moe.num_experts, moe.hidden, ffn}, down});
    return;
  }
  case fused_experts::layout::columns:
  case fused_experts::layout::interleaved: {
    const bool in_turn = fused.order == fused_experts::layout::interleaved;
    const std::vector<std::size_t> shape{moe.num_experts, moe.hidden, 2 * ffn};
    const std::size_t step = in_turn ? 2 : 1;
    out.gate.also.push_back({fused.gate_up, shape, first, step, 2 * ffn});
    out.up->also.push_back({fused.gate_up, shape, first + (in_turn ? 1 : ffn), step, 2 * ffn});
    out.down.also.push_back({fused.down, {moe.num_experts, ffn, moe.hidden}, down, 1, moe.hidden});
    break;
  }
  }
  if (!moe.has_bias)
    return;
  const std::vector<std::size_t> biases{moe.num_experts, 2 * ffn};
  const auto first_bias = index * 2 * ffn;
  out.biases[0].also.push_back({fused.gate_up_bias, biases, first_bias, 0, 2});
  out.biases[1].also.push_back({fused.gate_up_bias, biases, first_bias + 1, 0, 2});
  out.biases[2].also.push_back({fused.down_bias, {moe.num_experts, moe.hidden}, index * moe.hidden});
}

} // namespace

mlp_ref moe_spec::expert(std::size_t index) const {
  const auto name = prefix + std::to_string(index) + ".";
  mlp_ref result{.name = name,
                 .gate = {name + gate + ".weight", {intermediate, hidden}},
                 .down = {name + down + ".weight", {hidden, intermediate}},
                 .act = act,
                 .act_limit = act_limit};
  if (is_gated())
    result.up = {{name + up + ".weight", {intermediate, hidden}}};
  if (has_bias) {
    result.biases.push_back({name + gate + ".bias", {intermediate}});
    if (is_gated())
      result.biases.push_back({name + up + ".bias", {intermediate}});
    result.biases.push_back({name + down + ".bias", {hidden}});
  }
  for (const auto& place : fused)
    add_places(*this, place, index, result);
  if (is_always_fused) {
    for (auto* tensor : {&result.gate, &*result.up, &result.down})
      tensor->is_part = true;
    for (auto& bias : result.biases)
      bias.is_part = true;
  }
  return result;
}

} // namespace troupe::model
