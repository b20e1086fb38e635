#include "kernels/model/families/rope_fields.hpp"

#include "kernels/portable_math.hpp"

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

/// 0 means none, as in transformers for optional numbers.
double optional_number(const json_object& json, const std::string& key, double fallback) {
  return json.value(key, 0.0) == 0.0 ? fallback : positive_number(json, key, fallback);
}

double factor_of(const json_object& json) {
  const auto factor = json.at<double>("factor");
  if (!(factor >= 1) || !std::isfinite(factor))
    json.fail("factor", "must be at least 1");
  return factor;
}

/// @param trained_positions  default of original_max_position_embeddings
void read_yarn(const json_object& json, double trained_positions, kernels::rope_config& rope) {
  rope.scaling = kernels::rope_scaling::yarn;
  rope.factor = factor_of(json);
  rope.original_max_positions = optional_number(json, original_positions, trained_positions);
  rope.beta_fast = optional_number(json, "beta_fast", 32.0);
  rope.beta_slow = optional_number(json, "beta_slow", 1.0);
  if (rope.beta_fast < rope.beta_slow)
    json.fail("beta_fast", "must not be less than beta_slow");
  rope.truncate = json.value("truncate", true);
  // Unlike the others it is used unchanged: transformers would multiply by 0.
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
  // Llama 4 Scout has equal ones.
  if (rope.high_freq_factor < rope.low_freq_factor)
    json.fail("high_freq_factor", "must not be less than low_freq_factor");
}

/// Phi's: divisors of the frequencies for short and for long contexts.
void read_longrope(const json_object& json, double trained_positions, model_config& config) {
  const auto read = [&](const std::string& kind) {
    auto rope = config.rope;
    rope.scaling = kernels::rope_scaling::longrope;
    rope.original_max_positions = optional_number(json, original_positions, trained_positions);
    const auto key = kind + "_factor";
    rope.divisors = json.at<std::vector<double>>(key);
    if (rope.divisors.size() != rope.rotary_dim / 2
        || !std::ranges::all_of(rope.divisors, [](double x) { return x > 0 && std::isfinite(x); }))
      json.fail(key, "must have " + std::to_string(rope.rotary_dim / 2) + " positive numbers");
    rope.attention_factor = positive_number(json, kind + "_mscale", 1.0);
    return rope;
  };
  config.short_rope = read("short");
  config.rope = read("long");
}

/// Hunyuan's: another base, for all contexts.
void read_alpha(const json_object& json, kernels::rope_config& rope) {
  const auto alpha = positive_number(json, "alpha", 1.0);
  if (json.value("factor", 1.0) != 1.0)
    json.fail("factor", "other than 1 is not supported with alpha");
  const auto dim = static_cast<double>(rope.rotary_dim);
  rope.base *= kernels::portable_exp(kernels::portable_log(alpha) * dim / (dim - 2.0));
  for (const auto* key : {"beta_fast", "beta_slow", "mscale", "mscale_all_dim"})
    json.ignore(key); // of YaRN
}

/// original_max_position_embeddings may also be beside the object.
double read_trained_positions(const json_object& json, const json_object& outer, double max_position) {
  if (!outer.has(original_positions))
    return max_position;
  const auto value = positive_number(outer, original_positions, 0.0);
  if (optional_number(json, original_positions, value) != value)
    json.fail(original_positions, "differs from the field of that name outside");
  return value;
}

/// @param label  name of the object in config.json
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
  } else if (type == "longrope") {
    read_longrope(json, read_trained_positions(json, outer, max_position), config);
  } else if (type == "dynamic" && json.has("alpha")) {
    read_alpha(json, rope);
  } else if (type != "default") {
    json.fail(json.has("rope_type") ? "rope_type" : "type",
              "is '" + type
                  + "', which is not supported (supported: default, linear, yarn, llama3, longrope, dynamic "
                    "with alpha)");
  }
  // Positions are 32-bit numbers, with a margin.
  if (stretched > 1e9)
    json.fail("factor", "stretches the context beyond 10⁹ tokens");
  config.max_context = static_cast<std::size_t>(stretched);
  json.ignore("partial_rotary_factor"); // read by read_rotary_dim
  for (const auto& key : json.unread()) {
    // Parameters per type of layer are nested objects.
    if (json.is_object(key))
      json.fail(key, "is not supported: all layers have the same positions here");
    config.ignored.push_back(label + "." + key);
  }
}

/// Elements of a head that rotate.
std::size_t read_rotary_dim(const json_object& json, const std::optional<json_object>& parameters,
                            const rope_defaults& defaults, std::size_t head_dim) {
  constexpr const char* key = "partial_rotary_factor";
  const auto outer = json.value(key, defaults.partial);
  const auto factor = parameters ? parameters->value(key, outer) : outer;
  if (json.has(key) && factor != outer)
    json.fail(key, "is given twice, with two values");
  if (factor == 1.0)
    return head_dim;
  if (!defaults.may_be_partial)
    json.fail(key, "other than 1 is not supported");
  const auto rotated = static_cast<double>(head_dim) * factor;
  if (!(factor > 0 && factor < 1) || rotated != std::floor(rotated) || std::fmod(rotated, 2.0) != 0.0)
    json.fail(key, "must make an even part of a head of " + std::to_string(head_dim));
  return static_cast<std::size_t>(rotated);
}

} // namespace

void read_rope(const json_object& json, const rope_defaults& defaults, std::size_t head_dim,
               model_config& config) {
  const auto parameters = json.object("rope_parameters");
  const auto scaling = json.object("rope_scaling");
  if (parameters && scaling && parameters->canonical() != scaling->canonical())
    json.fail("rope_scaling", "is given beside rope_parameters, and differs");
  const auto& chosen = parameters ? parameters : scaling;
  auto theta = positive_number(json, "rope_theta", defaults.theta);
  if (chosen) {
    const auto inner = positive_number(*chosen, "rope_theta", theta);
    if (json.has("rope_theta") && inner != theta)
      json.fail("rope_theta",
                "differs from the one in " + std::string{parameters ? "rope_parameters" : "rope_scaling"});
    theta = inner;
  }
  if (theta <= 1)
    json.fail("rope_theta", "must be greater than 1");
  config.rope.base = theta;
  config.rope.rotary_dim = read_rotary_dim(json, chosen, defaults, head_dim);
  if (chosen)
    read_scaling(*chosen, json, parameters ? "rope_parameters" : "rope_scaling", config);
}

} // namespace troupe::model
