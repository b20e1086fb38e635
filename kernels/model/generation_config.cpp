#include "kernels/model/generation_config.hpp"

#include "kernels/model/json_object.hpp"
#include "kernels/model/text_file.hpp"
#include "kernels/sampling.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace troupe::model {

namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 20;
constexpr double least_float = std::numeric_limits<float>::min(); // smaller numbers may become 0 as a float
constexpr double largest_float = std::numeric_limits<float>::max();

// Fields without effect on the generated tokens: bookkeeping, additional results of transformers, and its
// speed.
constexpr const char* harmless[] = {
    "_from_model_config",
    "bos_token_id",
    "cache_config",
    "cache_implementation",
    "compile_config",
    "decoder_start_token_id",
    "disable_compile",
    "do_sample",
    "low_memory",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "pad_token_id",
    "return_dict_in_generate",
    "return_legacy_cache",
    "transformers_version",
    "use_cache",
};

// Fields with the default 1, which some writers include.
constexpr const char* nothing_at_1[] = {
    "encoder_repetition_penalty", "length_penalty", "num_beam_groups", "num_beams",
    "num_return_sequences",       "typical_p",
};

/// Reads fields, and lists unusable ones.
class lenient_reader {
 public:
  lenient_reader(const json_object& json, std::vector<std::string>& ignored)
      : json_(json), ignored_(ignored) {}

  /// A number within [low, high].
  std::optional<float> number(const std::string& key, double low, double high) {
    const auto value = find<double>(key);
    if (!value)
      return std::nullopt;
    if (!(*value >= low && *value <= high))
      return ignore(key);
    return static_cast<float>(*value);
  }

  /// A probability mass: 0 keeps only the best token, and so does the least float.
  std::optional<float> mass(const std::string& key) {
    const auto value = find<double>(key);
    if (!value)
      return std::nullopt;
    if (!(*value >= 0.0 && *value <= 1.0))
      return ignore(key);
    return static_cast<float>(std::max(*value, least_float));
  }

  /// Counts beyond 32 bits are equivalent to the largest one.
  std::optional<std::int32_t> count(const std::string& key) {
    const auto value = find<std::int64_t>(key);
    if (!value)
      return std::nullopt;
    if (*value < 0)
      return ignore(key);
    constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();
    return static_cast<std::int32_t>(std::min(*value, largest));
  }

  /// vLLM writes -1 for all tokens, transformers 0.
  std::optional<std::int32_t> top_k(const std::string& key) {
    if (find<std::int64_t>(key) == -1)
      return 0;
    return count(key);
  }

  bool is_1(const std::string& key) const { return json_.text(key) == "1" || json_.text(key) == "1.0"; }

 private:
  template <class T>
  std::optional<T> find(const std::string& key) {
    try {
      return json_.find<T>(key);
    } catch (const model_error&) {
      return ignore(key);
    }
  }

  std::nullopt_t ignore(const std::string& key) {
    auto text = key + " = " + json_.text(key);
    if (std::ranges::find(ignored_, text) == ignored_.end())
      ignored_.push_back(std::move(text));
    return std::nullopt;
  }

  const json_object& json_;
  std::vector<std::string>& ignored_;
};

} // namespace

generation_config parse_generation_config(std::string_view text, const std::string& name,
                                          std::size_t vocab_size) {
  const auto json = json_object::parse(text, name, most_bytes);
  generation_config result;
  lenient_reader reader(json, result.ignored);
  // Bounds as for requests, except that any temperature may be recommended.
  result.temperature = reader.number("temperature", 0.0, largest_float);
  result.top_k = reader.top_k("top_k");
  result.top_p = reader.mass("top_p");
  result.min_p = reader.number("min_p", 0.0, 1.0);
  result.repetition_penalty = reader.number("repetition_penalty", kernels::least_repetition_penalty,
                                            kernels::largest_repetition_penalty);
  result.max_new_tokens = reader.count("max_new_tokens");
  for (const auto id : json.one_or_many("eos_token_id"))
    if (id >= 0 && static_cast<std::uint64_t>(id) < vocab_size)
      result.eos_token_ids.push_back(static_cast<std::int32_t>(id));
    else
      result.ignored.push_back("eos_token_id " + std::to_string(id) + " (not in the vocabulary)");
  for (const auto* key : harmless)
    json.ignore(key);
  for (const auto* key : nothing_at_1)
    if (reader.is_1(key))
      json.ignore(key);
  for (auto& key : json.unread())
    result.ignored.push_back(std::move(key));
  return result;
}

generation_config load_generation_config(const std::filesystem::path& folder, const model_config& config) {
  generation_config result;
  const auto path = folder / "generation_config.json";
  if (std::filesystem::exists(path))
    result = parse_generation_config(read_text_file(path, most_bytes), path.string(), config.vocab_size);
  auto& ids = result.eos_token_ids;
  ids.insert(ids.end(), config.eos_token_ids.begin(), config.eos_token_ids.end());
  std::set<std::int32_t> seen;
  std::erase_if(ids, [&](std::int32_t id) { return !seen.insert(id).second; });
  return result;
}

} // namespace troupe::model
