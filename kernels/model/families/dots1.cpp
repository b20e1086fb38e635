// dots.llm1.
#include "kernels/model/families/family.hpp"
#include "kernels/model/families/fields.hpp"
#include "kernels/model/families/noaux.hpp"
#include "kernels/model/families/rope_fields.hpp"

#include <algorithm>

namespace troupe::model {

void build_dots1(const json_object& json, std::size_t num_layers, model_config& config) {
  auto heads = read_heads(json, config.hidden);
  read_rope(json, {.theta = 1e4}, heads.head_dim, config);
  const norm_parts norm{read_epsilon(json, 1e-6)};
  const bool has_bias = json.value("attention_bias", false);
  const attention_parts parts{.qkv_bias = has_bias,
                              .output_bias = has_bias,
                              .norm = qk_norm_kind::per_head,
                              .norm_epsilon = norm.epsilon};
  // Without layer_types, layers from max_window_layers on slide.
  const auto window = read_window(json);
  const auto first_sliding =
      static_cast<std::size_t>(std::max<std::int64_t>(json.value<std::int64_t>("max_window_layers", 62), 0));
  const auto types = read_layer_types(json, num_layers, window);
  json.ignore("use_sliding_window"); // is not read by transformers
  noaux_layers blocks(json, num_layers, {.renormalise = false, .dense_layers = 0, .shared_experts = 0},
                      config);
  for (std::size_t i = 0; i < num_layers; ++i) {
    layer_builder layer(config, i);
    layer.attention_norm(norm);
    heads.window = (types ? (*types)[i] : i >= first_sliding) ? window : 0;
    layer.attention(heads, parts);
    layer.mlp_norm(norm);
    blocks.add_to(layer, i);
    config.layers.push_back(layer.finish());
  }
  set_final_norm(config, norm);
}

} // namespace troupe::model
