#include "services/gateway/openai/logprobs_text.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace troupe::openai {

using nlohmann::ordered_json;

namespace {

/// Tokens held as a JSON tree at a time: with 20 alternatives each, about a MiB.
constexpr std::size_t block_tokens = 256;

constexpr const char* legacy_names[] = {"text_offset", "token_logprobs", "tokens", "top_logprobs"};

/// Appends the elements of an array, without brackets.
void append_elements(std::string& list, const ordered_json& array) {
  if (array.empty())
    return;
  const std::string text = array.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  if (!list.empty())
    list += ',';
  list.append(text, 1, text.size() - 2);
}

template <class Token, class Take>
void in_blocks(std::span<const Token> tokens, Take take) {
  for (; !tokens.empty(); tokens = tokens.subspan(std::min(block_tokens, tokens.size())))
    take(tokens.first(std::min(block_tokens, tokens.size())));
}

} // namespace

logprobs_text::logprobs_text(bool chat, const logprob_style& style)
    : chat_(chat), style_(style), lists_(chat ? 1 : std::size(legacy_names)) {}

void logprobs_text::add(std::span<const placed_token> tokens) {
  in_blocks(tokens, [this](std::span<const placed_token> block) {
    if (chat_)
      return append_elements(lists_[0], chat_logprobs(block, style_)["content"]);
    const ordered_json arrays = legacy_logprobs(block, style_);
    for (std::size_t i = 0; i < lists_.size(); ++i)
      append_elements(lists_[i], arrays[legacy_names[i]]);
  });
}

void logprobs_text::write_to(std::string& out) const {
  if (chat_) {
    out += "{\"content\":[";
    out += lists_[0];
    out += "],\"refusal\":null}";
    return;
  }
  for (std::size_t i = 0; i < lists_.size(); ++i) {
    out += i == 0 ? "{\"" : "],\"";
    out += legacy_names[i];
    out += "\":[";
    out += lists_[i];
  }
  out += "]}";
}

void write_prompt_logprobs(std::string& out, std::span<const generated_token> tokens,
                           const text_codec& codec) {
  std::string list = "null";
  in_blocks(tokens, [&](std::span<const generated_token> block) {
    ordered_json positions = prompt_logprobs(block, codec);
    positions.erase(0); // the first position, which each block would repeat
    append_elements(list, positions);
  });
  out += '[';
  out += list;
  out += ']';
}

} // namespace troupe::openai
