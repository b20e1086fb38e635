// Loads the weights of a program's operations from their source.
#include "kernels/model/cpu_runner.hpp"
#include "kernels/model/kv_layers.hpp"
#include "kernels/model/load_counter.hpp"
#include "kernels/query_factors.hpp"

#include <utility>

namespace troupe::model {

class cpu_runner::loader {
 public:
  loader(const load_progress& progress, cpu_runner& model)
      : weights_(*model.weights_), loaded_(model.config(), progress), model_(model) {}

  void run(std::size_t max_positions) {
    const auto& config = model_.config();
    model_.max_positions_ = max_positions;
    if (config.rope.rotary_dim != 0)
      model_.rope_ = kernels::rope_table(config.rope_for(max_positions), max_positions);
    model_.embeddings_ = weights_.embeddings();
    loaded_.add(model_.embeddings_.num_bytes(), config.vocab_size * config.hidden);
    model_.position_embeddings_ = floats(config.position_embeddings);
    for (const auto& layer : config.layers) {
      auto& operations = model_.layers_.emplace_back();
      for (const auto& op : layer.operations)
        operations.push_back(
            std::visit([this](const auto& described) { return cpu_operation{load(described)}; }, op));
    }
    model_.final_norm_ = load(config.final_norm);
    const auto head = config.output_head();
    model_.lm_head_ = matrix(head);
    model_.lm_head_bias_ = joined(head.biases);
    model_.num_bytes_ = loaded_.num_bytes();
  }

 private:
  std::vector<float> floats(const tensor_requirement& tensor) {
    auto result = weights_.floats(tensor);
    loaded_.add(result.size() * sizeof(float), result.size());
    return result;
  }

  std::vector<float> floats(const std::optional<tensor_requirement>& tensor) {
    return tensor ? floats(*tensor) : std::vector<float>{};
  }

  std::vector<float> joined(const std::vector<tensor_requirement>& parts) {
    std::vector<float> result;
    for (const auto& part : parts) {
      const auto values = floats(part);
      result.insert(result.end(), values.begin(), values.end());
    }
    return result;
  }

  std::span<const float> query_factors(const query_temperature& of) {
    auto& table = model_.query_factors_[{of.scale, of.floor}];
    if (table.empty())
      table = kernels::query_factors(of.scale, of.floor, model_.max_positions_);
    return table;
  }

  kernels::packed_matrix matrix(const matrix_ref& ref) {
    auto result = weights_.matrix(ref);
    loaded_.add(result.bytes().size(), result.outputs() * result.inputs());
    return result;
  }

  std::vector<kernels::packed_matrix> matrices(const std::vector<matrix_ref>& refs) {
    std::vector<kernels::packed_matrix> result;
    for (const auto& ref : refs)
      result.push_back(matrix(ref));
    return result;
  }

  cpu_norm load(const norm_op& op) { return {op, floats(op.weight), floats(op.bias)}; }

  cpu_project load(const project_op& op) { return {op, matrix(op.matrix), joined(op.matrix.biases)}; }

  cpu_attend load(const attend_op& op) {
    cpu_attend result{op, {}, {}, {}, floats(op.sinks)};
    if (op.norm) {
      result.query_norm = floats(op.norm->query);
      result.key_norm = floats(op.norm->key);
    }
    if (op.temperature)
      result.query_factors = query_factors(*op.temperature);
    return result;
  }

  cpu_attend_latent load(const attend_latent_op& op) {
    return {op, floats(op.norm), matrices(op.key_heads), matrices(op.value_heads)};
  }

  cpu_route load(const route_op& op) {
    return {op, matrix(op.matrix), joined(op.matrix.biases), floats(op.choice_bias)};
  }

  combine_op load(const combine_op& op) { return op; }

  cpu_feed_forward load(const feed_forward_op& op) {
    cpu_feed_forward result{weights_.mlp(op.mlp)};
    const auto& weights = result.weights;
    loaded_.add(weights.gate_up.bytes().size() + weights.down.bytes().size()
                    + weights.biases.size() * sizeof(float),
                op.mlp.num_matrices() * weights.hidden() * weights.ffn() + weights.biases.size());
    return result;
  }

  cpu_add load(const add_op& op) { return {op, floats(op.gate)}; }

  const cpu_weights& weights_;
  load_counter loaded_;
  cpu_runner& model_;
};

cpu_runner cpu_runner::load(std::shared_ptr<const cpu_weights> weights, const load_options& options,
                            const load_progress& progress) {
  cpu_runner model;
  model.weights_ = std::move(weights);
  model.kv_type_ = options.kv_type.value_or(model.type());
  check_kv_type(model.config(), model.kv_type_);
  model.tables_ =
      options.tables_by_reach ? kv_tables_by_reach(model.config()) : single_kv_table(model.config());
  loader(progress, model).run(positions_of(model.config(), options));
  return model;
}

kernels::kv_cache_config cpu_runner::kv_config(std::size_t block_tokens) const {
  auto result = kv_layers(config(), kv_type_, block_tokens);
  result.places = tables_.place_of;
  return result;
}

} // namespace troupe::model
