// A text codec over single bytes: token 0..255 is that byte, 256 the end of text, 257 the beginning, 258
// "Hello". "<eos>" and "<bos>" in a text are the special tokens.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "services/gateway/openai/text_codec.hpp"

namespace troupe::http_test {

inline constexpr int32_t eos = 256;
inline constexpr int32_t bos = 257;
inline constexpr int32_t hello = 258;
inline constexpr int32_t vocab_size = 259;

class fake_codec : public openai::text_codec {
 public:
  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const override;

  size_t fewest_tokens(std::string_view text) const override {
    return longest_token == 0 ? 0 : (text.size() + longest_token - 1) / longest_token;
  }

  std::string decode(std::span<const int32_t> tokens, bool skip_special_tokens) const override;
  std::unique_ptr<openai::text_stream> stream(bool skip_special_tokens,
                                              std::span<const int32_t> before) const override;
  std::string token_text(int32_t token) const override;
  std::string token_bytes(int32_t token) const override;
  std::string token_entry(int32_t token) const override;

  int32_t vocab_size() const override { return http_test::vocab_size; }

  bool has_chat_template() const override { return has_template; }

  /// Writes messages, tools and extra behind one another; refuses conversations that hold "refuse me".
  std::string render(const text::chat_request& request) const override;

  size_t longest_token = 0; ///< what fewest_tokens counts with; 0: it knows nothing
  bool has_template = true;
  bool adds_end = false;         ///< encode puts the end token behind a text, too
  bool splits_ligatures = false; ///< "ﬁ" is two tokens, as a normalizer makes it two letters
  std::function<void(std::string_view text)> before_encode;       ///< called where it is set
  std::function<void(std::span<const int32_t> before)> on_stream; ///< likewise
};

} // namespace troupe::http_test
