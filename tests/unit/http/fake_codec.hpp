// A text codec over single bytes: token 0..255 is that byte, 256 the end of text, 257 the beginning, 258
// "Hello". "<eos>" and "<bos>" in a text are the special tokens.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "services/gateway/openai/text_codec.hpp"

namespace troupe::http_test {

inline constexpr std::int32_t eos = 256;
inline constexpr std::int32_t bos = 257;
inline constexpr std::int32_t hello = 258;
inline constexpr std::int32_t vocab_size = 259;

class fake_codec : public openai::text_codec {
 public:
  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens) const override;

  std::size_t fewest_tokens(std::string_view text) const override {
    return longest_token == 0 ? 0 : (text.size() + longest_token - 1) / longest_token;
  }

  std::string decode(std::span<const std::int32_t> tokens, bool skip_special_tokens) const override;
  std::unique_ptr<openai::text_stream> stream(bool skip_special_tokens,
                                              std::span<const std::int32_t> before) const override;
  std::string token_text(std::int32_t token) const override;
  std::string token_bytes(std::int32_t token) const override;
  std::string token_entry(std::int32_t token) const override;

  std::int32_t vocab_size() const override { return http_test::vocab_size; }

  bool has_chat_template() const override { return has_template; }

  /// Concatenates messages, tools and extra; refuses conversations that contain "refuse me".
  std::string render(const text::chat_request& request) const override;

  std::size_t longest_token = 0; ///< for fewest_tokens; 0: unknown
  bool has_template = true;
  bool adds_end = false;         ///< encode also appends the end token
  bool splits_ligatures = false; ///< "ﬁ" is two tokens, as if a normalizer made two letters of it
  std::function<void(std::string_view text)> before_encode;            ///< called where it is set
  std::function<void(std::span<const std::int32_t> before)> on_stream; ///< called where it is set
};

} // namespace troupe::http_test
