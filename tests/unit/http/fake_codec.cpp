#include "tests/unit/http/fake_codec.hpp"

#include "services/gateway/text/text_error.hpp"

namespace troupe::http_test {

namespace {

/// Bytes of the character that begins with `lead`.
std::size_t length_of(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// Holds bytes back until a character is complete.
class byte_stream final : public openai::text_stream {
 public:
  byte_stream(const fake_codec& codec, bool skip_special) : codec_(codec), skip_special_(skip_special) {}

  std::string push(std::int32_t token) override {
    if (skip_special_ && (token == eos || token == bos))
      return {};
    held_ += codec_.token_bytes(token);
    std::string out;
    while (!held_.empty() && held_.size() >= length_of(held_.front())) {
      const std::size_t length = length_of(held_.front());
      out += held_.substr(0, length);
      held_.erase(0, length);
    }
    return out;
  }

  std::string flush() override { return held_.empty() ? "" : "\xEF\xBF\xBD"; }

 private:
  const fake_codec& codec_;
  bool skip_special_;
  std::string held_;
};

} // namespace

std::vector<std::int32_t> fake_codec::encode(std::string_view text, bool add_special_tokens) const {
  if (before_encode)
    before_encode(text);
  if (text.find("untokenizable") != std::string_view::npos)
    throw text::text_error("it is too hard");
  std::vector<std::int32_t> tokens;
  if (add_special_tokens)
    tokens.push_back(bos);
  constexpr std::string_view ligature = "ﬁ";
  while (!text.empty()) {
    if (splits_ligatures && text.starts_with(ligature)) {
      tokens.insert(tokens.end(), {'f', 'i'});
      text.remove_prefix(ligature.size());
      continue;
    }
    const bool special = text.starts_with("<bos>") || text.starts_with("<eos>");
    tokens.push_back(special ? (text[1] == 'b' ? bos : eos) : static_cast<unsigned char>(text.front()));
    text.remove_prefix(special ? 5 : 1);
  }
  if (add_special_tokens && adds_end)
    tokens.push_back(eos);
  return tokens;
}

std::string fake_codec::decode(std::span<const std::int32_t> tokens, bool skip_special_tokens) const {
  byte_stream all{*this, skip_special_tokens};
  std::string text;
  for (const std::int32_t token : tokens)
    text += all.push(token);
  return text + all.flush();
}

std::unique_ptr<openai::text_stream> fake_codec::stream(bool skip_special_tokens,
                                                        std::span<const std::int32_t> before) const {
  if (on_stream)
    on_stream(before);
  return std::make_unique<byte_stream>(*this, skip_special_tokens);
}

std::string fake_codec::token_bytes(std::int32_t token) const {
  if (token == eos)
    return "<eos>";
  if (token == bos)
    return "<bos>";
  if (token == hello)
    return "Hello";
  return std::string(1, static_cast<char>(token));
}

std::string fake_codec::token_text(std::int32_t token) const {
  return token >= 0x80 && token < 0x100 ? "\xEF\xBF\xBD" : token_bytes(token);
}

std::string fake_codec::token_entry(std::int32_t token) const {
  return token < 0x100 ? "byte" + std::to_string(token) : token_bytes(token);
}

std::string fake_codec::render(const text::chat_request& request) const {
  if (request.messages.find("refuse me") != std::string_view::npos)
    throw text::template_error("roles must alternate");
  return (request.source.empty() ? "" : "T:" + std::string(request.source)) + std::string(request.messages)
         + std::string(request.tools) + std::string(request.extra)
         + (request.add_generation_prompt ? "A:" : "");
}

} // namespace troupe::http_test
