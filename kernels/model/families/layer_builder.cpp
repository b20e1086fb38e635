#include "kernels/model/families/layer_builder.hpp"

#include <utility>

namespace troupe::model {

namespace {

/// Name of the routed block below a layer in transformers 5, for every architecture.
constexpr const char* block_of_fused = "mlp";

} // namespace

layer_builder::layer_builder(const model_config& config, std::size_t layer, const std::string& root,
                             float residual_factor)
    : hidden_(config.hidden),
      prefix_(root + "layers." + std::to_string(layer) + "."),
      residual_factor_(residual_factor) {}

void layer_builder::norm(const char* name, const norm_parts& parts) {
  norm_op norm{.kind = parts.kind,
               .epsilon = parts.epsilon,
               .weight = tensor(std::string{name} + ".weight", {hidden_})};
  if (parts.kind == norm_kind::layer)
    norm.bias = tensor(std::string{name} + ".bias", {hidden_});
  add(std::move(norm));
}

void layer_builder::attention(const attend_op& heads, const attention_parts& parts) {
  const auto q = heads.query_width();
  const auto kv = heads.kv_width();
  project_op qkv;
  for (const auto& [name, width] : {std::pair{"self_attn.q_proj", q}, std::pair{"self_attn.k_proj", kv},
                                    std::pair{"self_attn.v_proj", kv}}) {
    qkv.matrix.parts.push_back(tensor(std::string{name} + ".weight", {width, hidden_}));
    if (parts.qkv_bias)
      qkv.matrix.biases.push_back(tensor(std::string{name} + ".bias", {width}));
  }
  auto attend = heads;
  if (parts.norm != qk_norm_kind::none) {
    const bool per_head = parts.norm == qk_norm_kind::per_head;
    attend.norm = {
        .per_head = per_head,
        .follows_rotation = parts.norm_follows_rotation,
        .epsilon = parts.norm_epsilon,
        .query = tensor("self_attn." + parts.query_norm + ".weight", {per_head ? heads.head_dim : q}),
        .key = tensor("self_attn." + parts.key_norm + ".weight", {per_head ? heads.head_dim : kv})};
  }
  add(std::move(qkv));
  add(std::move(attend));
  attention_output(q, parts.output_bias);
}

void layer_builder::attention_output(std::size_t width, bool has_bias) {
  project_op output{.from = rows_of::attended,
                    .to = rows_of::residual,
                    .matrix = {.parts = {tensor("self_attn.o_proj.weight", {hidden_, width})}},
                    .factor = residual_factor_};
  if (has_bias)
    output.matrix.biases.push_back(tensor("self_attn.o_proj.bias", {hidden_}));
  add(std::move(output));
}

void layer_builder::feed_forward(const std::string& name, std::size_t intermediate) {
  add(feed_forward_op{{.name = prefix_ + name + ".",
                       .gate = tensor(name + ".gate_proj.weight", {intermediate, hidden_}),
                       .up = tensor(name + ".up_proj.weight", {intermediate, hidden_}),
                       .down = tensor(name + ".down_proj.weight", {hidden_, intermediate})}});
}

void layer_builder::dense_mlp(const std::string& block, std::size_t intermediate) {
  feed_forward(block, intermediate);
  add_mlp();
}

void layer_builder::route(const std::string& block, route_op route, const std::string& name,
                          matrix_storage storage) {
  auto weight = tensor(block + "." + name, {route.experts.num_experts, hidden_});
  // transformers 5 saves it beside fused experts.
  if (block != block_of_fused)
    weight.also.push_back({prefix_ + block_of_fused + "." + name, weight.shape});
  route.matrix.parts = {std::move(weight)};
  route.matrix.storage = storage;
  route.scale *= residual_factor_;
  add(std::move(route));
}

void layer_builder::add_mlp(const std::string& gate) {
  add_op op{.factor = residual_factor_};
  if (!gate.empty())
    op.gate = tensor(gate, {1, hidden_});
  add(std::move(op));
}

void layer_builder::name_experts(moe_spec& experts, const std::string& block, const std::string& gate,
                                 const std::string& up, const std::string& down) const {
  experts.hidden = hidden_;
  experts.prefix = prefix_ + block + ".experts.";
  experts.gate = gate;
  experts.up = up;
  experts.down = down;
  experts.fused.clear();
  for (const auto& place : {std::string{block_of_fused}, block}) {
    const auto fused = prefix_ + place + ".experts.";
    experts.fused.push_back({fused + "gate_up_proj", fused + "down_proj"});
    if (place == block)
      break;
  }
}

void set_final_norm(model_config& config, const norm_parts& parts) {
  auto& norm = config.final_norm;
  norm.kind = parts.kind;
  norm.epsilon = parts.epsilon;
  const auto& weight = norm.weight.name;
  if (parts.kind == norm_kind::layer)
    norm.bias = {weight.substr(0, weight.rfind('.')) + ".bias", norm.weight.shape};
}

} // namespace troupe::model
