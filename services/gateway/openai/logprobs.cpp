#include "services/gateway/openai/logprobs.hpp"

#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

namespace troupe::openai {

using nlohmann::ordered_json;

namespace {

/// JSON has no infinity: a token that cannot be gets what OpenAI and vLLM write.
constexpr float least_logprob = -9999.0F;

float finite(float logprob) {
  // The comparison is false for NaN, too.
  return logprob > least_logprob ? logprob : least_logprob;
}

std::string name_of(int32_t token, const logprob_style& style) {
  return style.tokens_as_ids ? "token_id:" + std::to_string(token) : style.codec.token_text(token);
}

size_t num_shown(const generated_token& token, const logprob_style& style) {
  return std::min(token.top.size(), static_cast<size_t>(std::max(0, style.num_top)));
}

ordered_json described(int32_t token, float logprob, const logprob_style& style) {
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
    // Different tokens may read alike: the likelier one stays.
    for (size_t i = 0; i < num_shown(token, style); ++i)
      top.emplace(name_of(token.top[i].token, style), finite(token.top[i].logprob));
    top.emplace(name_of(token.token, style), finite(token.logprob));
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
    for (size_t i = 0; i < num_shown(token, style); ++i)
      top.push_back(described(token.top[i].token, token.top[i].logprob, style));
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
  const auto entry = [&codec](int32_t token, float logprob, int32_t rank) {
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

std::vector<placed_token> place_prompt(const std::vector<int32_t>& prompt, const std::vector<size_t>& offsets,
                                       const std::vector<generated_token>& logprobs) {
  std::vector<placed_token> result;
  result.reserve(prompt.size());
  for (size_t i = 0; i < prompt.size(); ++i) {
    placed_token placed{{}, offsets.at(i)};
    if (i > 0 && i - 1 < logprobs.size())
      placed.token = logprobs[i - 1];
    placed.token.token = prompt[i];
    result.push_back(std::move(placed));
  }
  return result;
}

} // namespace troupe::openai
