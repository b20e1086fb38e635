// The interface between the API and a model's tokenizer and chat template. Tests of requests and responses
// replace it, and so need no tokenizer file and no Python.
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

/// Text of a growing sequence. As with text::detokenizer, every piece is valid UTF-8.
class text_stream {
 public:
  virtual ~text_stream() = default;
  virtual std::string push(std::int32_t token) = 0;
  /// Returns what was held back; nothing may be pushed afterwards.
  virtual std::string flush() = 0;
};

/// Tokenizer and chat template of the served model. Any thread may call const members.
class text_codec {
 public:
  virtual ~text_codec() = default;
  /// @throws text::text_error  the text is too long or too expensive for the tokenizer
  virtual std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens) const = 0;
  /// A lower bound on the number of tokens, found without encoding; 0: unknown.
  virtual std::size_t fewest_tokens(std::string_view text) const = 0;
  virtual std::string decode(std::span<const std::int32_t> tokens, bool skip_special_tokens) const = 0;
  /// @param before  the tokens that the sequence continues
  virtual std::unique_ptr<text_stream> stream(bool skip_special_tokens,
                                              std::span<const std::int32_t> before) const = 0;
  /// Valid UTF-8; the token's name in logprobs.
  virtual std::string token_text(std::int32_t token) const = 0;
  /// The bytes of the token; may be part of a character.
  virtual std::string token_bytes(std::int32_t token) const = 0;
  /// The vocabulary entry itself.
  virtual std::string token_entry(std::int32_t token) const = 0;
  /// One past the highest id.
  virtual std::int32_t vocab_size() const = 0;
  /// Whether render can succeed.
  virtual bool has_chat_template() const = 0;
  /// The prompt's text. May block for seconds.
  /// @throws text::template_error with a text for the client
  virtual std::string render(const text::chat_request& request) const = 0;
};

/// The implementation that serves.
std::shared_ptr<const text_codec> make_text_codec(std::shared_ptr<const text::tokenizer> tokenizer,
                                                  std::shared_ptr<const text::chat_template> chat_template);

} // namespace troupe::openai
