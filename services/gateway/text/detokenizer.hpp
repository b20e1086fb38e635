// Turns a growing sequence of tokens into text, token by token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace troupe::text {

class decoder_stream;
class tokenizer;

/// The results of push and flush together equal `tokenizer::decode` of the whole sequence, and each is valid
/// UTF-8. Text is held back while a later token may complete or change it (part of a character, a run of
/// byte-fallback tokens). For a sequence that continues another one, the result is what that decode adds:
/// `▁there` behind a prompt is " there". A character or run of byte-fallback tokens that the prompt began is
/// not completed. Not thread-safe; one per sequence.
class detokenizer {
 public:
  /// `skip_special_tokens` as for tokenizer::decode; `before`: the tokens that the sequence continues.
  explicit detokenizer(std::shared_ptr<const tokenizer> source, bool skip_special_tokens = true,
                       std::span<const std::int32_t> before = {});
  ~detokenizer();
  detokenizer(detokenizer&&) noexcept;
  detokenizer& operator=(detokenizer&&) noexcept;

  /// Adds the next token and returns the text that became final; often empty.
  std::string push(std::int32_t id);

  /// Ends the sequence and returns held-back text, an unfinished character as U+FFFD. Afterwards the object
  /// is ready for a new sequence that continues nothing.
  std::string flush();

 private:
  /// The vocabulary entry of `id` if it stands for text, or nullptr.
  const std::string* entry_of(std::int32_t id) const;

  std::shared_ptr<const tokenizer> source_;
  bool skip_special_tokens_;
  std::unique_ptr<decoder_stream> stream_;
};

} // namespace troupe::text
