// The supported families of models: how each builds its program from config.json.
#pragma once

#include "kernels/model/config.hpp"
#include "kernels/model/json_object.hpp"

#include <string>

namespace troupe::model {

/// Builds layers, final norm and rotation from a family's own fields of config.json. The common fields of
/// `config` (hidden, vocab_size, max_context, names of embeddings and head) are set already.
/// @throws model_error naming the field
using build_function = void (*)(const json_object& json, std::size_t num_layers, model_config& config);

struct family {
  const char* architecture; ///< in config.json's "architectures"
  const char* model_type;   ///< config.json's field of that name
  build_function build;
  /// The fields of the language model are in the object "text_config".
  bool is_nested = false;
};

// One source each.
void build_deepseek_v2(const json_object& json, std::size_t num_layers, model_config& config);
void build_deepseek_v3(const json_object& json, std::size_t num_layers, model_config& config);
void build_dots1(const json_object& json, std::size_t num_layers, model_config& config);
void build_ernie4_5_moe(const json_object& json, std::size_t num_layers, model_config& config);
void build_glm4_moe(const json_object& json, std::size_t num_layers, model_config& config);
void build_glm4_moe_lite(const json_object& json, std::size_t num_layers, model_config& config);
void build_gpt_moe(const json_object& json, std::size_t num_layers, model_config& config);
void build_gpt_oss(const json_object& json, std::size_t num_layers, model_config& config);
void build_granitemoe(const json_object& json, std::size_t num_layers, model_config& config);
void build_hunyuan_v1_moe(const json_object& json, std::size_t num_layers, model_config& config);
void build_llama4(const json_object& json, std::size_t num_layers, model_config& config);
void build_minimax_m2(const json_object& json, std::size_t num_layers, model_config& config);
void build_mixtral(const json_object& json, std::size_t num_layers, model_config& config);
void build_olmoe(const json_object& json, std::size_t num_layers, model_config& config);
void build_phimoe(const json_object& json, std::size_t num_layers, model_config& config);
void build_qwen2_moe(const json_object& json, std::size_t num_layers, model_config& config);
void build_qwen3_moe(const json_object& json, std::size_t num_layers, model_config& config);

/// @returns the family of that architecture, or null
const family* find_family(const std::string& architecture);

/// @returns the family of config.json's model_type
/// @throws model_error listing the supported ones
const family& family_of_type(const json_object& json);

/// Why an architecture that people ask for is not supported; empty: nothing is known of it.
std::string why_not(const std::string& architecture);

/// The supported architectures, for messages.
std::string supported_architectures();

} // namespace troupe::model
