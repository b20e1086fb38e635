#include "load/score.hpp"

#include <nlohmann/json.hpp>

namespace troupe::load {

namespace {

/// Bytes of the first `num_characters` code points; all if there are fewer.
std::size_t bytes_of_characters(std::string_view utf8, std::size_t num_characters) {
  std::size_t at = 0;
  for (; at < utf8.size(); ++at) {
    bool begins = (static_cast<unsigned char>(utf8[at]) & 0xC0) != 0x80;
    if (begins && num_characters-- == 0)
      break;
  }
  return at;
}

} // namespace

score score_echo(std::string_view text, const nlohmann::json& logprobs) {
  const auto& values = logprobs.at("token_logprobs");
  const auto& offsets = logprobs.at("text_offset");
  score s;
  for (std::size_t i = 1; i < values.size(); ++i) {
    s.nats -= values[i].get<double>();
    ++s.tokens;
  }
  // Tokens may split characters, so bytes are counted in the text, after the first token's part of it. The
  // first token's name would not do: that of a begin token is not in the text.
  if (s.tokens > 0)
    s.bytes = text.size() - bytes_of_characters(text, offsets.at(1).get<std::size_t>());
  return s;
}

} // namespace troupe::load
