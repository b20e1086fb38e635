#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace troupe::text {

class decoder_stream;
class tokenizer;

/// Text of a growing sequence, token by token. What push and flush return, put end to end, is exactly
/// `tokenizer::decode` of the whole sequence, and every piece is valid UTF-8: text is held back while a later
/// token may still complete or change it (part of a character, a run of byte-fallback tokens). Of a sequence
/// that continues another it is what that decode adds, so that `▁there` behind a prompt is " there"; a
/// character or a run of byte-fallback tokens that the prompt began is not completed. Not thread-safe; one
/// for each sequence.
class detokenizer {
 public:
  /// @p skip_special_tokens as for tokenizer::decode; @p before: the tokens of what the sequence continues.
  explicit detokenizer(std::shared_ptr<const tokenizer> source, bool skip_special_tokens = true,
                       std::span<const std::int32_t> before = {});
  ~detokenizer();
  detokenizer(detokenizer&&) noexcept;
  detokenizer& operator=(detokenizer&&) noexcept;

  /// Takes the next token and returns the text that has become certain; often empty.
  std::string push(std::int32_t id);

  /// Ends the sequence and returns what was held back, an unfinished character as U+FFFD. Afterwards the
  /// object is as new, for a sequence that continues nothing.
  std::string flush();

 private:
  /// The vocabulary entry of @p id where it stands for text, or nullptr.
  const std::string* entry_of(std::int32_t id) const;

  std::shared_ptr<const tokenizer> source_;
  bool skip_special_tokens_;
  std::unique_ptr<decoder_stream> stream_;
};

} // namespace troupe::text
