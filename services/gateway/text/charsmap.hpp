#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

/// SentencePiece's precompiled character map: a double-array trie (Darts) from character sequences to their
/// replacements. Immutable and thread-safe.
class charsmap {
 public:
  /// @p base64 as in tokenizer.json. @throws text_error, without a place, when it is malformed.
  explicit charsmap(std::string_view base64);

  /// The replacement of the shortest prefix of @p text that the map knows, if it knows one: Hugging Face
  /// takes the first result of the prefix search for the whole.
  std::optional<std::string_view> find(std::string_view text) const noexcept;

 private:
  std::vector<std::uint32_t> units_;
  std::string replacements_; // each ends in a NUL
};

} // namespace troupe::text
