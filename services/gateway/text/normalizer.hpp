#pragma once

#include "services/gateway/text/json_view.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace troupe::text {

/// The `normalizer` of tokenizer.json: rewrites a text before it is split. Immutable and thread-safe.
class normalizer {
 public:
  virtual ~normalizer() = default;

  /// Rewrites @p text, valid UTF-8. @p from_first as in piece, kept up to date.
  virtual void apply(std::string& text, std::size_t& from_first) const = 0;

  /// How many bytes may become one, at most; 0: any number, where characters are removed.
  /// @param ascii  whether the text is ASCII alone; then, whether what becomes of it is
  virtual std::size_t most_shrinkage(bool& ascii) const = 0;

  /// Whether it writes the byte-level alphabet.
  virtual bool is_byte_level() const { return false; }
};

/// @throws text_error naming what is missing, malformed or unsupported.
std::unique_ptr<const normalizer> make_normalizer(const json_view& json);

} // namespace troupe::text
