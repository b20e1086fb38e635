#include "load/score.hpp"

#include <nlohmann/json.hpp>

namespace troupe::load {

namespace {

/// Bytes of the first `num_characters` code points; all where there are fewer.
size_t bytes_of_characters(std::string_view utf8, size_t num_characters) {
  size_t at = 0;
  for (; at < utf8.size(); ++at) {
    bool begins = (static_cast<unsigned char>(utf8[at]) & 0xC0) != 0x80;
    if (begins && num_characters-- == 0) {
      break;
    }
  }
  return at;
}

} // namespace

score score_echo(std::string_view text, const nlohmann::json& logprobs) {
  const auto& values = logprobs.at("token_logprobs");
  const auto& offsets = logprobs.at("text_offset");
  score s;
  for (size_t i = 1; i < values.size(); ++i) {
    s.nats -= values[i].get<double>();
    ++s.tokens;
  }
  // Tokens may split characters, so bytes are counted on the text, behind what the first token stands for
  // there: its name would not do, for that of a begin token is not in the text.
  if (s.tokens > 0) {
    s.bytes = text.size() - bytes_of_characters(text, offsets.at(1).get<size_t>());
  }
  return s;
}

} // namespace troupe::load
