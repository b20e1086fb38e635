// What the API needs of a model's text side: the seam that lets requests and responses be tested without a
// tokenizer file and without Python.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "services/gateway/text/chat_template.hpp"

namespace troupe::text {
class tokenizer;
}

namespace troupe::openai {

/// Text of a growing sequence; as text::detokenizer: every piece is valid UTF-8.
class text_stream {
 public:
  virtual ~text_stream() = default;
  virtual std::string push(int32_t token) = 0;
  /// What was held back; nothing is pushed afterwards.
  virtual std::string flush() = 0;
};

/// Tokenizer and chat template of the served model. Const members may be called from any thread at once.
class text_codec {
 public:
  virtual ~text_codec() = default;
  /// @throws text::text_error when the text is too long or too hard for the tokenizer
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const = 0;
  /// A number of tokens that encode gives at least, found without encoding; 0 where nothing is known.
  virtual size_t fewest_tokens(std::string_view text) const = 0;
  virtual std::string decode(std::span<const int32_t> tokens, bool skip_special_tokens) const = 0;
  /// @param before  the tokens of what the sequence continues
  virtual std::unique_ptr<text_stream> stream(bool skip_special_tokens,
                                              std::span<const int32_t> before) const = 0;
  /// Valid UTF-8; what logprobs call the token.
  virtual std::string token_text(int32_t token) const = 0;
  /// The bytes it stands for; may be part of a character.
  virtual std::string token_bytes(int32_t token) const = 0;
  /// The vocabulary entry itself.
  virtual std::string token_entry(int32_t token) const = 0;
  /// One past the highest id.
  virtual int32_t vocab_size() const = 0;
  /// Whether render can work at all.
  virtual bool has_chat_template() const = 0;
  /// The prompt's text. May block for seconds.
  /// @throws text::template_error what the client is to be told
  virtual std::string render(const text::chat_request& request) const = 0;
};

/// The real one.
std::shared_ptr<const text_codec> make_text_codec(std::shared_ptr<const text::tokenizer> tokenizer,
                                                  std::shared_ptr<const text::chat_template> chat_template);

} // namespace troupe::openai
