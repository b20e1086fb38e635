#include "kernels/model/load_options.hpp"

#include "kernels/model/error.hpp"

#include <algorithm>
#include <string>

namespace troupe::model {

namespace {

// A million tokens of heads of 128 take half of it.
constexpr std::size_t max_rope_bytes = std::size_t{1} << 30;

} // namespace

void check_kv_type(const model_config& config, kernels::dtype type) {
  const auto is_latent = [](const layer_program& layer) { return layer.find<attend_latent_op>() != nullptr; };
  if (type == kernels::dtype::int8 && std::ranges::any_of(config.layers, is_latent))
    throw model_error("--kv-cache-dtype int8: the KV cache of " + config.architecture
                      + " holds latents, which are not quantized; choose auto");
}

std::size_t positions_of(const model_config& config, const load_options& options) {
  const auto wanted = options.max_positions == 0 ? config.max_context : options.max_positions;
  const auto positions = std::min(wanted, config.max_context);
  if (const auto table_bytes = positions * config.rope.rotary_dim * sizeof(float);
      table_bytes > max_rope_bytes)
    throw model_error("a context of " + std::to_string(positions) + " tokens takes "
                      + std::to_string(table_bytes) + " bytes of position tables, at most "
                      + std::to_string(max_rope_bytes) + " are allowed: choose a shorter maximum");
  return positions;
}

} // namespace troupe::model
