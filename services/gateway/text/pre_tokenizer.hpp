// The `pre_tokenizer` of tokenizer.json: cuts a text into the pieces that the model encodes one by one.
#pragma once

#include "services/gateway/text/json_view.hpp"
#include "services/gateway/text/pieces.hpp"

#include <memory>
#include <vector>

namespace troupe::text {

/// Interface of all pre-tokenizers. Immutable and thread-safe.
class pre_tokenizer {
 public:
  virtual ~pre_tokenizer() = default;

  /// Cuts or rewrites every piece of `text` that is not a token yet, and drops empty ones.
  virtual void apply(pieces& text) const = 0;

  /// Whether the pieces contain the whole text unshortened.
  virtual bool keeps_all() const = 0;

  /// Whether the pieces are in the byte-level alphabet.
  virtual bool is_byte_level() const { return false; }
};

/// @throws text_error naming what is missing, malformed or unsupported.
std::unique_ptr<const pre_tokenizer> make_pre_tokenizer(const json_view& json);

/// One after the other.
std::unique_ptr<const pre_tokenizer> make_sequence(std::vector<std::unique_ptr<const pre_tokenizer>> steps);

} // namespace troupe::text
