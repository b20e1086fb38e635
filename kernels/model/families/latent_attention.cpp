#include "kernels/model/families/latent_attention.hpp"

#include "kernels/kv_limits.hpp"
#include "kernels/model/families/fields.hpp"

#include <cmath>
#include <utility>

namespace troupe::model {

namespace {

// transformers takes this for the inner norms, whatever rms_norm_eps says.
constexpr float inner_epsilon = 1e-6F;

// Each has two matrices of its own in a program; ten times as many as the largest published models have.
constexpr std::size_t most_heads_of_all_layers = 1 << 17;

std::size_t multiple_of_8(const json_object& json, const char* key, std::size_t most) {
  const auto value = positive(json, key, max_heads);
  if (value % 8 != 0 || value > most)
    json.fail(key,
              "must be a multiple of 8 up to " + std::to_string(most) + ", found " + std::to_string(value));
  return value;
}

} // namespace

latent_attention::latent_attention(const json_object& json, std::size_t rope_dim, std::size_t num_layers,
                                   const model_config& config) {
  op_.num_heads = positive(json, "num_attention_heads", max_heads);
  if (op_.num_heads * num_layers > most_heads_of_all_layers)
    json.fail("num_attention_heads", "makes " + std::to_string(op_.num_heads * num_layers)
                                         + " heads in all layers, at most "
                                         + std::to_string(most_heads_of_all_layers) + " are supported");
  json.ignore("num_key_value_heads"); // the number of heads, and meaningless
  op_.rope_dim = rope_dim;
  op_.nope_dim = positive(json, "qk_nope_head_dim", max_heads);
  op_.latent_dim = multiple_of_8(json, "kv_lora_rank", kernels::most_latent_values);
  op_.value_dim = positive(json, "v_head_dim", max_heads);
  if (op_.key_width() % 8 != 0 || op_.key_width() > kernels::most_latent_dims)
    json.fail("qk_rope_head_dim", "must be a multiple of 8, with kv_lora_rank up to "
                                      + std::to_string(kernels::most_latent_dims));
  if (!json.is_given("q_lora_rank")) // null means none, and families differ in what absence means
    json.fail("q_lora_rank", "is missing");
  if (json.has("q_lora_rank"))
    query_rank_ = positive(json, "q_lora_rank", max_dim);
  if (json.value("attention_bias", false))
    json.fail("attention_bias", "is not supported with latent attention");
  if (json.is_given("rope_interleave") && !json.value("rope_interleave", true))
    op_.rotation = kernels::rope_style::rotate_half;
  if (json.value("qk_head_dim", static_cast<std::int64_t>(op_.head_dim()))
      != static_cast<std::int64_t>(op_.head_dim()))
    json.fail("qk_head_dim", "differs from qk_nope_head_dim + qk_rope_head_dim");
  json.ignore("head_dim"); // writers differ in which of the others it repeats
  op_.norm_epsilon = inner_epsilon;
  op_.scale = static_cast<float>(kernels::rope_softmax_factor(config.rope)
                                 / std::sqrt(static_cast<double>(op_.head_dim())));
}

void latent_attention::add_to(layer_builder& layer, const model_config& config) const {
  const auto hidden = config.hidden;
  const auto query_width = op_.num_heads * op_.head_dim();
  const auto project = [&](rows_of from, rows_of to, const char* name, std::size_t outputs,
                           std::size_t inputs) {
    layer.add(project_op{.from = from,
                         .to = to,
                         .matrix = {.parts = {layer.tensor(std::string{"self_attn."} + name + ".weight",
                                                           {outputs, inputs})}}});
  };
  if (query_rank_ == 0) {
    project(rows_of::normed, rows_of::projected, "q_proj", query_width, hidden);
  } else {
    project(rows_of::normed, rows_of::query_latent, "q_a_proj", query_rank_, hidden);
    layer.add(norm_op{.epsilon = inner_epsilon,
                      .weight = layer.tensor("self_attn.q_a_layernorm.weight", {query_rank_}),
                      .from = rows_of::query_latent,
                      .to = rows_of::query_normed});
    project(rows_of::query_normed, rows_of::projected, "q_b_proj", query_width, query_rank_);
  }
  project(rows_of::normed, rows_of::key_latent, "kv_a_proj_with_mqa", op_.key_width(), hidden);

  auto attend = op_;
  attend.norm = layer.tensor("self_attn.kv_a_layernorm.weight", {op_.latent_dim});
  // Per head [nope, latent] rows of keys, then [value, latent] rows of values.
  const auto whole = layer.tensor("self_attn.kv_b_proj.weight",
                                  {op_.num_heads * (op_.nope_dim + op_.value_dim), op_.latent_dim});
  const auto part = [&](const std::string& what, std::size_t outputs, std::size_t inputs,
                        tensor_place place) {
    place.name = whole.name;
    place.shape = whole.shape;
    return matrix_ref{.parts = {{.name = whole.name + what,
                                 .shape = {outputs, inputs},
                                 .also = {std::move(place)},
                                 .is_part = true}}};
  };
  for (std::size_t h = 0; h < op_.num_heads; ++h) {
    const auto first = h * (op_.nope_dim + op_.value_dim) * op_.latent_dim;
    const auto head = "[head " + std::to_string(h);
    attend.key_heads.push_back(part(head + " keys]", op_.latent_dim, op_.nope_dim,
                                    {.first = first, .row_step = 1, .column_step = op_.latent_dim}));
    attend.value_heads.push_back(part(head + " values]", op_.value_dim, op_.latent_dim,
                                      {.first = first + op_.nope_dim * op_.latent_dim}));
  }
  layer.add(std::move(attend));
  layer.attention_output(op_.num_heads * op_.value_dim, false);
}

} // namespace troupe::model
