// Fields of config.json that several families have in common.
#pragma once

#include "kernels/model/config.hpp"
#include "kernels/model/json_object.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::model {

// Far beyond any published model; a product of two dimensions stays far below 2⁶⁴.
inline constexpr std::int64_t max_heads = 1 << 14;
inline constexpr std::int64_t max_dim = 1 << 24;
inline constexpr std::int64_t max_experts = 1 << 16;
inline constexpr std::size_t max_topk = 64; // kernels/router.hpp
inline constexpr std::size_t max_predict_layers = 64;

/// Reads a count in 1..max.
/// @throws model_error naming the field
std::size_t positive(const json_object& json, const std::string& key, std::int64_t max);

/// `usual`, or the field's name in configs of GPT-2's kind (n_embd, n_head) where only that one is given.
const char* key_of(const json_object& json, const char* usual, const char* gpt2);

/// A factor, between 1e-6 and 1e6.
float read_factor(const json_object& json, const char* key, double fallback);

/// rms_norm_eps.
float read_epsilon(const json_object& json, double fallback);

/// num_attention_heads (n_head), num_key_value_heads and head_dim, with the scale 1 / √head_dim.
/// @param head_dim_key  where a family has another name for it
attend_op read_heads(const json_object& json, std::size_t hidden, const char* head_dim_key = "head_dim");

/// Leaves out the tensors of the layers behind the last one that predict further tokens (MTP), as many as the
/// field `key` says.
void ignore_predict_layers(const json_object& json, const char* key, std::size_t num_layers,
                           model_config& config);

/// A count that is null where there is none.
std::size_t read_count(const json_object& json, const char* key, std::size_t if_absent, std::size_t if_null);

/// The number of routed experts, under whatever name; 0 is possible. Fields of several names must agree.
std::size_t read_num_experts(const json_object& json);

/// Experts per token, at most those that there are. The names of other families for it must agree.
/// @param if_absent  0: the field must be there
std::size_t read_topk(const json_object& json, const char* key, std::size_t num_experts,
                      std::size_t if_absent = 0);

/// Number of the experts, at least one, and their size.
moe_spec read_experts(const json_object& json, const char* intermediate_key,
                      const char* topk_key = "num_experts_per_tok", std::size_t topk_if_absent = 0);

/// The width of shared experts that are one MLP.
/// @param key  where their number stands
std::size_t width_of_shared(const json_object& json, const char* key, std::size_t count,
                            std::size_t intermediate);

/// sliding_window; 0: none.
std::size_t read_window(const json_object& json);

/// If all layers attend alike, layer_types only repeats it: transformers' cache and masks follow it.
void check_layer_types(const json_object& json, std::size_t window);

/// layer_types: which layers slide; none if the field is absent.
/// @param window  what sliding layers see; 0: none may slide
std::optional<std::vector<bool>> read_layer_types(const json_object& json, std::size_t num_layers,
                                                  std::size_t window);

/// The routed layers: every decoder_sparse_step-th that is not in mlp_only_layers.
std::vector<bool> read_sparse_layers(const json_object& json, std::size_t num_layers);

} // namespace troupe::model
