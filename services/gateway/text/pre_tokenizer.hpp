#pragma once

#include "services/gateway/text/json_view.hpp"
#include "services/gateway/text/pieces.hpp"

#include <memory>

namespace troupe::text {

/// The `pre_tokenizer` of tokenizer.json: cuts a text into the pieces that the model encodes one by one.
/// Immutable and thread-safe.
class pre_tokenizer {
 public:
  virtual ~pre_tokenizer() = default;

  /// Cuts or rewrites every piece of @p text that is not a token already; empty ones vanish.
  virtual void apply(pieces& text) const = 0;

  /// Whether all of a text ends up in pieces, none of it shortened.
  virtual bool keeps_all() const = 0;

  /// Whether the pieces are made of the byte-level alphabet.
  virtual bool is_byte_level() const { return false; }
};

/// @throws text_error naming what is missing, malformed or unsupported.
std::unique_ptr<const pre_tokenizer> make_pre_tokenizer(const json_view& json);

} // namespace troupe::text
