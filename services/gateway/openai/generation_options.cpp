#include "services/gateway/openai/generation_options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include <nlohmann/json.hpp>

#include "kernels/sampling.hpp"
#include "services/gateway/openai/api_error.hpp"
#include "services/gateway/openai/unserved_fields.hpp"

namespace troupe::openai {

namespace {

constexpr std::int64_t max_choices = 128; // OpenAI's bound of n
constexpr std::size_t max_stop_strings = 256;
constexpr std::size_t max_stop_bytes = 1024;         // of one stop string; bounds the held-back text
constexpr std::size_t max_stop_bytes_in_all = 16384; // each choice has its own matcher for them
constexpr std::size_t max_stop_tokens = 256;
constexpr std::size_t max_biased_tokens = 4096;
constexpr std::size_t max_bad_words = 512;
static_assert(2 * max_bad_words <= max_bad_word_sequences, "each word can become two token sequences");
constexpr std::size_t max_bad_word_bytes = 256;
constexpr auto any_int32 = std::numeric_limits<std::int32_t>::max();
constexpr auto any_int64 = std::numeric_limits<std::int64_t>::max();
constexpr double any_float = std::numeric_limits<float>::max();

/// The strings of an array.
std::vector<std::string> parse_strings(const json& list, const std::string& name, std::size_t most,
                                       std::size_t most_bytes) {
  if (list.size() > most)
    throw invalid_request("'" + name + "' may hold at most " + std::to_string(most) + " strings, got "
                              + std::to_string(list.size()),
                          name, "invalid_value");
  std::vector<std::string> result;
  for (const json& entry : list) {
    if (!entry.is_string())
      throw invalid_request("'" + name + "' must hold strings, not " + kind_of(entry), name, "invalid_type");
    auto text = entry.get<std::string>();
    if (text.empty())
      throw invalid_request("'" + name + "' cannot contain an empty string", name, "invalid_value");
    if (text.size() > most_bytes)
      throw invalid_request("a string of '" + name + "' may be at most " + std::to_string(most_bytes)
                                + " bytes long, got " + std::to_string(text.size()),
                            name, "invalid_value");
    result.push_back(std::move(text));
  }
  return result;
}

std::vector<std::string> parse_stop(const fields& body) {
  const json* stop = body.find("stop");
  if (stop == nullptr)
    return {};
  const json list = stop->is_string() ? json::array({*stop}) : *stop;
  if (!list.is_array())
    throw invalid_request(std::string("'stop' must be a string or an array of strings, not ")
                              + kind_of(*stop),
                          "stop", "invalid_type");
  auto stops = parse_strings(list, "stop", max_stop_strings, max_stop_bytes);
  std::size_t bytes = 0;
  for (const std::string& one : stops)
    bytes += one.size();
  if (bytes > max_stop_bytes_in_all)
    throw invalid_request("the strings of 'stop' may have at most " + std::to_string(max_stop_bytes_in_all)
                              + " bytes together, got " + std::to_string(bytes),
                          "stop", "invalid_value");
  return stops;
}

/// The only tokens that may be chosen; sorted, each once.
std::vector<std::int32_t> parse_allowed(const fields& body, std::int32_t vocab_size) {
  const json* ids = body.array("allowed_token_ids");
  if (ids == nullptr)
    return {};
  if (ids->empty() || ids->size() > max_allowed_tokens)
    throw invalid_request("'allowed_token_ids' must hold 1 to " + std::to_string(max_allowed_tokens)
                              + " ids, got " + std::to_string(ids->size()),
                          "allowed_token_ids", "invalid_value");
  std::vector<std::int32_t> result = parse_token_ids(*ids, "allowed_token_ids", vocab_size);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

/// A tenant's part of the prefix cache, as in vLLM.
std::string parse_cache_salt(const fields& body) {
  constexpr std::size_t most_bytes = 1024;
  const auto salt = body.string("cache_salt");
  if (salt && (salt->empty() || salt->size() > most_bytes))
    throw invalid_request("'cache_salt' must have 1 to " + std::to_string(most_bytes) + " bytes, got "
                              + std::to_string(salt->size()),
                          "cache_salt", "invalid_value");
  return salt.value_or("");
}

void parse_truncation(const fields& body, generation_options& options) {
  const auto most = body.integer("truncate_prompt_tokens", -1, any_int64);
  if (most == 0)
    throw invalid_request("'truncate_prompt_tokens' must be -1 or at least 1, got 0: nothing would be left",
                          "truncate_prompt_tokens", "invalid_value");
  if (most)
    options.truncate_prompt = static_cast<std::int32_t>(std::min<std::int64_t>(*most, any_int32));
  const auto side = body.string("truncation_side");
  if (side && *side != "left" && *side != "right")
    throw invalid_request("'truncation_side' must be 'left' or 'right', not '" + *side + "'",
                          "truncation_side", "invalid_value");
  options.truncate_left = side.value_or("left") == "left";
}

/// Lists all wrong keys of `logit_bias`, so that one correction is enough.
api_error not_token_ids(const std::vector<std::string>& keys, std::int32_t vocab_size) {
  constexpr std::size_t most_named = 8;
  const std::string range = "between 0 and " + std::to_string(vocab_size - 1);
  std::string text = "'logit_bias' has the key '" + keys.front() + "', which is not a token id " + range;
  if (keys.size() > 1) {
    text = "'logit_bias' has keys that are not token ids " + range + ":";
    for (std::size_t i = 0; i < std::min(keys.size(), most_named); ++i)
      text += (i == 0 ? " '" : ", '") + keys[i] + "'";
    if (keys.size() > most_named)
      text += " and " + std::to_string(keys.size() - most_named) + " more";
  }
  return invalid_request(text, "logit_bias", "invalid_value");
}

std::vector<biased_token> parse_logit_bias(const fields& body, std::int32_t vocab_size) {
  std::vector<biased_token> result;
  const json* bias = body.object("logit_bias");
  if (bias == nullptr)
    return result;
  if (bias->size() > max_biased_tokens)
    throw invalid_request("'logit_bias' may hold at most " + std::to_string(max_biased_tokens)
                              + " tokens, got " + std::to_string(bias->size()),
                          "logit_bias", "invalid_value");
  std::map<std::int32_t, float> by_token; // ordered; "7" and "07" are one token
  std::vector<std::string> strangers;
  const fields values{*bias, "logit_bias."};
  for (const auto& [key, value] : bias->items()) {
    std::int32_t token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc{} || end != key.data() + key.size() || token < 0 || token >= vocab_size)
      strangers.push_back(key);
    else if (const auto weight = values.number(key.c_str(), -100, 100))
      by_token[token] = static_cast<float>(*weight);
  }
  if (!strangers.empty())
    throw not_token_ids(strangers, vocab_size);
  for (const auto& [token, weight] : by_token)
    result.push_back({token, weight});
  return result;
}

float number_or(const fields& body, const char* name, double least, double most,
                const std::optional<float>& recommended, float otherwise) {
  const auto sent = body.number(name, least, most);
  return sent ? static_cast<float>(*sent) : recommended.value_or(otherwise);
}

sampling_params parse_sampling(const fields& body, const request_limits& limits) {
  const sampling_defaults& defaults = limits.defaults;
  sampling_params result;
  result.temperature = number_or(body, "temperature", 0, any_float, defaults.temperature, 1.0F);
  result.top_p = number_or(body, "top_p", 0, 1, defaults.top_p, 1.0F);
  // OpenAI treats an empty nucleus as that of the best token.
  if (result.top_p <= 0) {
    result.top_p = 1.0F;
    result.temperature = 0.0F;
  }
  result.min_p = number_or(body, "min_p", 0, 1, defaults.min_p, 0.0F);
  const auto top_k = body.integer("top_k", -1, any_int32);
  result.top_k = std::max(0, top_k ? static_cast<std::int32_t>(*top_k) : defaults.top_k.value_or(0));
  result.repetition_penalty =
      number_or(body, "repetition_penalty", kernels::least_repetition_penalty,
                kernels::largest_repetition_penalty, defaults.repetition_penalty, 1.0F);
  result.presence_penalty = number_or(body, "presence_penalty", -2, 2, std::nullopt, 0.0F);
  result.frequency_penalty = number_or(body, "frequency_penalty", -2, 2, std::nullopt, 0.0F);
  result.min_tokens = static_cast<std::int32_t>(body.integer("min_tokens", 0, any_int32).value_or(0));
  result.logit_bias = parse_logit_bias(body, limits.vocab_size);
  result.allowed_token_ids = parse_allowed(body, limits.vocab_size);
  return result;
}

void parse_streaming(const fields& body, generation_options& options) {
  options.stream = body.boolean("stream").value_or(false);
  const json* stream_options = body.object("stream_options");
  if (stream_options == nullptr)
    return;
  const auto is_set = [](const json& value) { return !value.is_null() && value != false; };
  if (!options.stream && std::any_of(stream_options->begin(), stream_options->end(), is_set))
    throw invalid_request("'stream_options' is only allowed when 'stream' is true", "stream_options");
  const fields inner{*stream_options, "stream_options."};
  options.include_usage = inner.boolean("include_usage").value_or(false);
  options.continuous_usage = inner.boolean("continuous_usage_stats").value_or(false) && options.include_usage;
}

} // namespace

std::vector<std::int32_t> parse_token_ids(const json& array, const std::string& name,
                                          std::int32_t vocab_size) {
  std::vector<std::int32_t> result;
  result.reserve(array.size());
  for (const json& value : array) {
    const auto refused = [&](const std::string& got, const char* code) {
      return invalid_request("'" + name + "[" + std::to_string(result.size())
                                 + "]' must be a token id between 0 and " + std::to_string(vocab_size - 1)
                                 + ", " + got,
                             name.substr(0, name.find('[')), code);
    };
    if (value.is_binary()) // an integer beyond 64 bits
      throw refused("got " + shown(value), "invalid_value");
    if (!value.is_number())
      throw refused(std::string("not ") + kind_of(value), "invalid_type");
    const auto id = value.get<double>(); // exact within the valid range
    if (id != std::floor(id))
      throw refused("got " + value.dump(), "invalid_type");
    if (id < 0 || id >= vocab_size)
      throw refused("got " + value.dump(), "invalid_value");
    result.push_back(static_cast<std::int32_t>(id));
  }
  return result;
}

std::optional<std::int32_t> parse_token_count(const fields& body, const char* name, std::int32_t least) {
  const json* sent = body.find(name);
  if (sent == nullptr || *sent == -1)
    return std::nullopt;
  return static_cast<std::int32_t>(to_integer(*sent, body.name_of(name), least, any_int32));
}

bool is_unlimited(const fields& body, const char* name) {
  const json* sent = body.find(name);
  return sent != nullptr && *sent == -1;
}

generation_options parse_generation_options(const fields& body, const request_limits& limits) {
  refuse_unserved(body);
  generation_options options;
  options.model = body.string("model").value_or("");
  options.sampling = parse_sampling(body, limits);
  options.seed = body.integer("seed", std::numeric_limits<std::int64_t>::min(),
                              std::numeric_limits<std::int64_t>::max());
  if (options.seed == -1) // llama.cpp and others send -1 for a random one
    options.seed.reset();
  options.num_choices = static_cast<std::uint32_t>(body.integer("n", 1, max_choices).value_or(1));
  if (const auto best_of = body.integer("best_of", 1, any_int32); best_of && *best_of != options.num_choices)
    throw unsupported("'best_of' is only supported when it equals 'n'", "best_of");
  options.stop = parse_stop(body);
  if (const json* ids = body.array("stop_token_ids")) {
    if (ids->size() > max_stop_tokens)
      throw invalid_request("'stop_token_ids' may hold at most " + std::to_string(max_stop_tokens)
                                + " ids, got " + std::to_string(ids->size()),
                            "stop_token_ids", "invalid_value");
    options.stop_token_ids = parse_token_ids(*ids, "stop_token_ids", limits.vocab_size);
  }
  if (const json* words = body.array("bad_words"))
    options.bad_words = parse_strings(*words, "bad_words", max_bad_words, max_bad_word_bytes);
  parse_truncation(body, options);
  options.include_stop = body.boolean("include_stop_str_in_output").value_or(false);
  options.skip_special_tokens = body.boolean("skip_special_tokens").value_or(true);
  options.return_token_ids = body.boolean("return_token_ids").value_or(false);
  options.tokens_as_ids = body.boolean("return_tokens_as_token_ids").value_or(false);
  options.cache_salt = parse_cache_salt(body);
  options.priority = static_cast<std::int32_t>(
      body.integer("priority", std::numeric_limits<std::int32_t>::min(), any_int32).value_or(0));
  if (const auto wanted = body.integer("prompt_logprobs", 0, max_logprobs))
    options.prompt_logprobs = static_cast<std::int32_t>(*wanted);
  body.string("user");
  parse_streaming(body, options);
  if (options.stream && options.prompt_logprobs)
    throw invalid_request("'prompt_logprobs' is not available when 'stream' is true", "prompt_logprobs");

  // The model's own end tokens are stop tokens unless the client says otherwise. The client's stop tokens
  // always end the sequence.
  auto& stops = options.sampling.stop_token_ids;
  stops = options.stop_token_ids;
  if (!body.boolean("ignore_eos").value_or(false))
    stops.insert(stops.end(), limits.eos_token_ids.begin(), limits.eos_token_ids.end());
  std::sort(stops.begin(), stops.end());
  stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  return options;
}

} // namespace troupe::openai
