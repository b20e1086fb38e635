#include "services/gateway/openai/logprobs.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace troupe::openai {

using nlohmann::ordered_json;

namespace {

/// Written for an impossible token, as OpenAI and vLLM do: JSON has no infinity.
constexpr float least_logprob = -9999.0F;

float finite(float logprob) {
  // False for NaN, too.
  return logprob > least_logprob ? logprob : least_logprob;
}

std::string name_of(std::int32_t token, const logprob_style& style) {
  return style.tokens_as_ids ? "token_id:" + std::to_string(token) : style.codec.token_text(token);
}

/// Likely tokens in vLLM's order: the chosen one first, whatever its rank, then the likeliest others.
/// @param most  length of the list
std::vector<token_logprob> likely_tokens(const generated_token& token, std::size_t most) {
  std::vector<token_logprob> result;
  if (most > 0)
    result.push_back({token.token, token.logprob, token.rank});
  for (const token_logprob& one : token.top) {
    if (result.size() >= most)
      break;
    if (one.token != token.token)
      result.push_back(one);
  }
  return result;
}

std::size_t num_wanted(const logprob_style& style) {
  return static_cast<std::size_t>(std::max(0, style.num_top));
}

ordered_json described(std::int32_t token, float logprob, const logprob_style& style) {
  ordered_json bytes = ordered_json::array();
  for (const char byte : style.codec.token_bytes(token))
    bytes.push_back(static_cast<unsigned char>(byte));
  ordered_json result;
  result["token"] = name_of(token, style);
  result["logprob"] = finite(logprob);
  result["bytes"] = std::move(bytes);
  return result;
}

} // namespace

ordered_json legacy_logprobs(std::span<const placed_token> tokens, const logprob_style& style) {
  ordered_json offsets = ordered_json::array();
  ordered_json logprobs = ordered_json::array();
  ordered_json names = ordered_json::array();
  ordered_json tops = ordered_json::array();
  for (const auto& [token, offset] : tokens) {
    offsets.push_back(offset);
    names.push_back(name_of(token.token, style));
    if (token.rank == 0) {
      logprobs.push_back(nullptr);
      tops.push_back(nullptr);
      continue;
    }
    logprobs.push_back(finite(token.logprob));
    ordered_json top = ordered_json::object();
    // Different tokens may have the same text: the likelier one stays.
    const bool is_likely = token.rank <= style.num_top;
    for (const token_logprob& one : likely_tokens(token, num_wanted(style) + (is_likely ? 0 : 1)))
      top.emplace(name_of(one.token, style), finite(one.logprob));
    tops.push_back(std::move(top));
  }
  ordered_json result;
  result["text_offset"] = std::move(offsets);
  result["token_logprobs"] = std::move(logprobs);
  result["tokens"] = std::move(names);
  result["top_logprobs"] = std::move(tops);
  return result;
}

ordered_json chat_logprobs(std::span<const placed_token> tokens, const logprob_style& style) {
  ordered_json content = ordered_json::array();
  for (const auto& placed : tokens) {
    const generated_token& token = placed.token;
    ordered_json entry = described(token.token, token.logprob, style);
    ordered_json top = ordered_json::array();
    for (const token_logprob& one : likely_tokens(token, num_wanted(style)))
      top.push_back(described(one.token, one.logprob, style));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  ordered_json result;
  result["content"] = std::move(content);
  result["refusal"] = nullptr;
  return result;
}

ordered_json prompt_logprobs(std::span<const generated_token> tokens, const text_codec& codec) {
  ordered_json result = ordered_json::array();
  result.push_back(nullptr);
  const auto entry = [&codec](std::int32_t token, float logprob, std::int32_t rank) {
    ordered_json value;
    value["logprob"] = finite(logprob);
    value["rank"] = rank;
    value["decoded_token"] = codec.token_text(token);
    return value;
  };
  for (const generated_token& token : tokens) {
    ordered_json position = ordered_json::object();
    position[std::to_string(token.token)] = entry(token.token, token.logprob, token.rank);
    for (const token_logprob& top : token.top)
      position[std::to_string(top.token)] = entry(top.token, top.logprob, top.rank);
    result.push_back(std::move(position));
  }
  return result;
}

std::vector<placed_token> place_prompt(const std::vector<std::int32_t>& prompt,
                                       const std::vector<std::size_t>& offsets,
                                       const std::vector<generated_token>& logprobs) {
  std::vector<placed_token> result;
  result.reserve(prompt.size());
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    placed_token placed{{}, offsets.at(i)};
    if (i > 0 && i - 1 < logprobs.size())
      placed.token = logprobs[i - 1];
    placed.token.token = prompt[i];
    result.push_back(std::move(placed));
  }
  return result;
}

} // namespace troupe::openai
