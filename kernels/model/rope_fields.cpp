#include "kernels/model/rope_fields.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::model {

namespace {

constexpr const char* original_positions = "original_max_position_embeddings";

double positive_number(const json_object& json, const std::string& key, double fallback) {
  const auto value = json.value(key, fallback);
  if (!(value > 0) || !std::isfinite(value))
    json.fail(key, "must be a positive number");
  return value;
}

/// 0 says none, as transformers takes it for what may be left out.
double optional_number(const json_object& json, const std::string& key, double fallback) {
  return json.value(key, 0.0) == 0.0 ? fallback : positive_number(json, key, fallback);
}

double factor_of(const json_object& json) {
  const auto factor = json.at<double>("factor");
  if (!(factor >= 1) || !std::isfinite(factor))
    json.fail("factor", "must be at least 1");
  return factor;
}

/// @param trained_positions  what original_max_position_embeddings is where the object does not say it
void read_yarn(const json_object& json, double trained_positions, kernels::rope_config& rope) {
  rope.scaling = kernels::rope_scaling::yarn;
  rope.factor = factor_of(json);
  rope.original_max_positions = optional_number(json, original_positions, trained_positions);
  rope.beta_fast = optional_number(json, "beta_fast", 32.0);
  rope.beta_slow = optional_number(json, "beta_slow", 1.0);
  if (rope.beta_fast < rope.beta_slow)
    json.fail("beta_fast", "must not be less than beta_slow");
  rope.truncate = json.value("truncate", true);
  // Unlike the others it is taken as it is: transformers would multiply with 0.
  if (json.has("attention_factor"))
    rope.attention_factor = positive_number(json, "attention_factor", 0.0);
  for (const auto& [key, field] :
       {std::pair{"mscale", &rope.mscale}, std::pair{"mscale_all_dim", &rope.mscale_all_dim}})
    if (const auto value = optional_number(json, key, 0.0); value != 0.0)
      *field = value;
}

void read_llama3(const json_object& json, double trained_positions, kernels::rope_config& rope) {
  rope.scaling = kernels::rope_scaling::llama3;
  rope.factor = factor_of(json);
  for (const auto* key : {"low_freq_factor", "high_freq_factor"})
    if (!json.has(key))
      json.fail(key, "is missing");
  rope.original_max_positions = optional_number(json, original_positions, trained_positions);
  rope.low_freq_factor = positive_number(json, "low_freq_factor", 0.0);
  rope.high_freq_factor = positive_number(json, "high_freq_factor", 0.0);
  if (rope.high_freq_factor <= rope.low_freq_factor)
    json.fail("high_freq_factor", "must be greater than low_freq_factor");
}

/// original_max_position_embeddings may also stand beside the object.
double read_trained_positions(const json_object& json, const json_object& outer, double max_position) {
  if (!outer.has(original_positions))
    return max_position;
  const auto value = positive_number(outer, original_positions, 0.0);
  if (optional_number(json, original_positions, value) != value)
    json.fail(original_positions, "differs from the field of that name outside");
  return value;
}

/// @param label  what the object is called in config.json
void read_scaling(const json_object& json, const json_object& outer, const std::string& label,
                  model_config& config) {
  const auto max_position = static_cast<double>(config.max_context);
  // "type" is the older spelling of "rope_type".
  const auto old_type = json.value<std::string>("type", "default");
  const auto type = json.value<std::string>("rope_type", old_type);
  if (json.has("type") && old_type != type)
    json.fail("type", "differs from rope_type");
  auto& rope = config.rope;
  auto stretched = max_position;
  if (type == "linear") {
    rope.scaling = kernels::rope_scaling::linear;
    rope.factor = factor_of(json);
    stretched = max_position * rope.factor;
  } else if (type == "yarn") {
    read_yarn(json, read_trained_positions(json, outer, max_position), rope);
    stretched = std::max(max_position, rope.original_max_positions * rope.factor);
  } else if (type == "llama3") {
    read_llama3(json, read_trained_positions(json, outer, max_position), rope);
  } else if (type != "default") {
    json.fail(json.has("rope_type") ? "rope_type" : "type",
              "is '" + type + "', which is not supported (supported: default, linear, yarn, llama3)");
  }
  // Positions are 32-bit with room to spare.
  if (stretched > 1e9)
    json.fail("factor", "stretches the context beyond 10⁹ tokens");
  config.max_context = static_cast<std::size_t>(stretched);
  if (json.value("partial_rotary_factor", 1.0) != 1.0)
    json.fail("partial_rotary_factor", "other than 1 is not supported");
  for (const auto& key : json.unread()) {
    // Parameters for each type of layer are objects of their own.
    if (json.is_object(key))
      json.fail(key, "is not supported: all layers have the same positions here");
    config.ignored.push_back(label + "." + key);
  }
}

} // namespace

void read_rope(const json_object& json, double default_theta, model_config& config) {
  const auto parameters = json.object("rope_parameters");
  const auto scaling = json.object("rope_scaling");
  if (parameters && scaling && parameters->canonical() != scaling->canonical())
    json.fail("rope_scaling", "is given beside rope_parameters, and differs");
  const auto& chosen = parameters ? parameters : scaling;
  auto theta = positive_number(json, "rope_theta", default_theta);
  if (chosen)
    theta = positive_number(*chosen, "rope_theta", theta);
  if (theta <= 1)
    json.fail("rope_theta", "must be greater than 1");
  config.rope.base = theta;
  if (chosen)
    read_scaling(*chosen, json, parameters ? "rope_parameters" : "rope_scaling", config);
}

} // namespace troupe::model
