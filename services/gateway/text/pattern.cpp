#include "services/gateway/text/pattern.hpp"

namespace troupe::text {

regex read_pattern(const json_view& json) {
  const bool literal = json.has("String");
  const auto source = json.at(literal ? "String" : "Regex");
  const auto& text = source.string();
  try {
    return literal ? regex::from_literal(text) : regex::from_pattern(text);
  } catch (const text_error& e) {
    source.fail(e.what());
  }
}

std::string replace_all(const regex& pattern, std::string_view text, std::string_view content) {
  constexpr std::size_t longest = 256UL << 20U;
  std::string out;
  std::size_t done = 0;
  regex::cursor at;
  while (const auto found = pattern.next(text, at)) {
    out += text.substr(done, found->begin - done);
    out += content;
    done = found->end;
    if (out.size() > longest)
      throw text_error("a Replace of tokenizer.json makes more than 256 MiB of this text");
  }
  out += text.substr(done);
  return out;
}

} // namespace troupe::text
