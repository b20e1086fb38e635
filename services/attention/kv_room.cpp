#include "services/attention/kv_room.hpp"

#include <algorithm>
#include <string>
#include <variant>

#include "actors/engine/step_sampling.hpp"
#include "kernels/model/error.hpp"

namespace troupe {

namespace {

/// Bytes of one row during one layer.
/// @param value  bytes of a number in the model's type
std::uint64_t row_bytes_of(const model::model_config& config, const model::layer_program& layer,
                           std::uint64_t value) {
  // Residual; normed, MLP's, on the way to experts.
  std::uint64_t bytes = config.hidden * (sizeof(float) + 3 * value);
  for (const auto& op : layer.operations)
    if (const auto* project = std::get_if<model::project_op>(&op)) {
      if (project->to != model::rows_of::residual)
        bytes += project->matrix.outputs() * sizeof(float);
    } else if (const auto* norm = std::get_if<model::norm_op>(&op)) {
      if (norm->to != model::rows_of::normed)
        bytes += norm->width() * value;
    } else if (const auto* attend = std::get_if<model::attend_op>(&op)) {
      bytes += attend->query_width() * value;
    } else if (const auto* latent = std::get_if<model::attend_latent_op>(&op)) {
      // Absorbed queries, the latents that they attend to, and these expanded.
      bytes += latent->num_heads
               * (latent->key_width() * sizeof(float) + (latent->latent_dim + latent->value_dim) * value);
    } else if (const auto* route = std::get_if<model::route_op>(&op)) {
      // Each expert's answer, as it comes and as it is kept.
      bytes += 2 * route->experts.num_topk * config.hidden * value
               + route->experts.num_experts * sizeof(float)
               + (route->weighs_input ? config.hidden * value : 0);
    } else if (const auto* mlp = std::get_if<model::feed_forward_op>(&op)) {
      bytes += 2 * mlp->mlp.intermediate() * sizeof(float);
    }
  return bytes;
}

/// Bytes of one position in the tables of rotations and of queries' temperatures.
std::uint64_t position_bytes_of(const model::model_config& config) {
  std::uint64_t numbers = config.rope.rotary_dim;
  for (const auto& layer : config.layers)
    if (const auto* attend = layer.find<model::attend_op>(); attend != nullptr && attend->temperature)
      ++numbers;
  return numbers * sizeof(float);
}

std::string held_text(const attention_memory& held, const memory_budget& budget) {
  return budget.text() + ", the attention side's weights " + mebibytes_text(held.weights)
         + " and its rows and tables " + mebibytes_text(held.reserve);
}

} // namespace

std::uint64_t shared_kv_cache_bytes(const memory_budget& budget, std::uint64_t experts,
                                    std::uint32_t num_workers) {
  const auto left = budget.left();
  return std::min(usual_kv_cache_bytes, std::max(bytes_beside(left, experts) / 4, left / 32) / num_workers);
}

std::uint64_t attention_reserve(const model::model_config& config, kernels::dtype type,
                                std::uint64_t max_positions, const attention_options& options) {
  const std::uint64_t value = kernels::bytes_of(type, 1);
  std::uint64_t row = 0;
  for (const auto& layer : config.layers)
    row = std::max(row, row_bytes_of(config, layer, value));
  const std::uint64_t rows = std::uint64_t{options.micro_batches} * options.max_num_batched_tokens;
  const std::uint64_t logits = logits_chunk_rows * config.vocab_size * sizeof(float);
  return rows * row + logits + max_positions * position_bytes_of(config);
}

void check_attention_fits(const attention_memory& held, const memory_budget& budget) {
  if (held.is_mapped || held.weights <= bytes_beside(budget.left(), held.reserve))
    return;
  throw model::model_error(held_text(held, budget)
                           + ": that is more than there is; raise the limit, or choose --dense-quant or a "
                             "--weights-cache, whose pages come and go");
}

std::uint64_t kv_room_of(std::uint64_t wanted, std::uint64_t block_bytes, const attention_memory& held,
                         const memory_budget& budget) {
  if (!budget.is_limited())
    return wanted == 0 ? usual_kv_cache_bytes : wanted;
  if (wanted != 0) {
    const auto left = bytes_beside(budget.left(), held.is_mapped ? 0 : held.weights);
    if (wanted > left) {
      throw model::model_error("--kv-cache-memory is " + mebibytes_text(wanted) + ", and "
                               + held_text(held, budget) + ": that leaves " + mebibytes_text(left)
                               + "; lower it, or raise the limit");
    }
    return wanted;
  }
  const auto left = bytes_beside(budget.left(), held.weights + held.reserve);
  if (left < block_bytes) {
    throw model::model_error(held_text(held, budget)
                             + ": that leaves no room for the KV cache; raise the limit"
                             + (held.is_mapped ? ", or set --kv-cache-memory" : ", or choose --dense-quant"));
  }
  return left;
}

} // namespace troupe
