#include "kernels/model/generation_config.hpp"

#include "kernels/model/json_object.hpp"
#include "kernels/model/text_file.hpp"
#include "kernels/sampling.hpp"

#include <charconv>
#include <limits>

namespace troupe::model {

namespace {

constexpr std::size_t max_bytes = std::size_t{1} << 20;
constexpr double least_float = std::numeric_limits<float>::min(); // what is less may be 0 as a float
constexpr double largest_float = std::numeric_limits<float>::max();

std::int32_t token_id(const json_object& json, const std::string& key, std::int64_t id) {
  if (id < 0 || id > std::numeric_limits<std::int32_t>::max())
    json.fail(key, "has " + std::to_string(id) + ", which is no token id");
  return static_cast<std::int32_t>(id);
}

/// The fewest digits that say it: 1e-60 is not 0.
std::string text_of(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

/// A number within [low, high].
std::optional<float> number(const json_object& json, const std::string& key, double low, double high) {
  const auto value = json.find<double>(key);
  if (!value)
    return std::nullopt;
  if (!(*value >= low && *value <= high))
    json.fail(key, "is " + text_of(*value) + ", which is out of range");
  return static_cast<float>(*value);
}

std::optional<std::int32_t> count(const json_object& json, const std::string& key) {
  const auto value = json.find<std::int64_t>(key);
  if (!value)
    return std::nullopt;
  if (*value < 0)
    json.fail(key, "must not be negative, found " + std::to_string(*value));
  if (*value > std::numeric_limits<std::int32_t>::max())
    json.fail(key, "is " + std::to_string(*value) + ", which is out of range");
  return static_cast<std::int32_t>(*value);
}

} // namespace

generation_config parse_generation_config(std::string_view text, const std::string& name) {
  const auto json = json_object::parse(text, name, max_bytes);
  generation_config result;
  // As for a request's own, but for temperatures, of which any may be recommended.
  result.temperature = number(json, "temperature", 0.0, largest_float);
  result.top_k = count(json, "top_k");
  result.top_p = number(json, "top_p", least_float, 1.0);
  result.min_p = number(json, "min_p", 0.0, 1.0);
  result.repetition_penalty = number(json, "repetition_penalty", kernels::least_repetition_penalty,
                                     kernels::largest_repetition_penalty);
  result.max_new_tokens = count(json, "max_new_tokens");
  for (const auto id : json.one_or_many("eos_token_id"))
    result.eos_token_ids.push_back(token_id(json, "eos_token_id", id));
  return result;
}

generation_config load_generation_config(const std::filesystem::path& folder, const model_config& config) {
  generation_config result;
  const auto path = folder / "generation_config.json";
  if (std::filesystem::exists(path))
    result = parse_generation_config(read_text_file(path, max_bytes), path.string());
  if (result.eos_token_ids.empty())
    result.eos_token_ids = config.eos_token_ids;
  return result;
}

} // namespace troupe::model
