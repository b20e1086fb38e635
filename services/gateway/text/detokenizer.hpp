#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::text {

class decoder_stream;
class tokenizer;

/// Text of a growing sequence, token by token. What push and flush return, put end to end, is exactly
/// `tokenizer::decode` of the whole sequence, and every piece is valid UTF-8: text is held back while a later
/// token may still complete or change it (part of a character, a run of byte-fallback tokens). Not
/// thread-safe; one for each sequence.
class detokenizer {
 public:
  /// @p skip_special_tokens as for tokenizer::decode.
  explicit detokenizer(std::shared_ptr<const tokenizer> source, bool skip_special_tokens = true);
  ~detokenizer();
  detokenizer(detokenizer&&) noexcept;
  detokenizer& operator=(detokenizer&&) noexcept;

  /// Takes the next token and returns the text that has become certain; often empty.
  std::string push(std::int32_t id);

  /// Ends the sequence and returns what was held back, an unfinished character as U+FFFD. Afterwards the
  /// object is as new.
  std::string flush();

 private:
  std::shared_ptr<const tokenizer> source_;
  std::unique_ptr<decoder_stream> stream_;
  bool skip_special_tokens_;
};

} // namespace troupe::text
