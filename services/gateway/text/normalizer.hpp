// The `normalizer` of tokenizer.json: rewrites a text before it is split.
#pragma once

#include "services/gateway/text/json_view.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace troupe::text {

/// Interface of all normalizers. Immutable and thread-safe.
class normalizer {
 public:
  virtual ~normalizer() = default;

  /// Rewrites `text`, valid UTF-8. Updates `from_first`, which is as in piece.
  virtual void apply(std::string& text, std::size_t& from_first) const = 0;

  /// Most bytes that may become one; 0: unbounded, because characters are removed.
  /// @param ascii  whether the text is pure ASCII; set to whether the result is
  virtual std::size_t most_shrinkage(bool& ascii) const = 0;

  /// Whether the result is in the byte-level alphabet.
  virtual bool is_byte_level() const { return false; }
};

/// @throws text_error naming what is missing, malformed or unsupported.
std::unique_ptr<const normalizer> make_normalizer(const json_view& json);

} // namespace troupe::text
