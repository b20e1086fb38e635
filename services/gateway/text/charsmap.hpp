// SentencePiece's precompiled character map, as tokenizer.json contains it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

/// A double-array trie (Darts) from character sequences to their replacements. Immutable and thread-safe.
class charsmap {
 public:
  /// @param base64  as in tokenizer.json
  /// @throws text_error  it is malformed; the text names no place
  explicit charsmap(std::string_view base64);

  /// The replacement for the shortest known prefix of `text`, or empty. Hugging Face also takes the first
  /// result of the prefix search.
  std::optional<std::string_view> find(std::string_view text) const noexcept;

 private:
  std::vector<std::uint32_t> units_;
  std::string replacements_; // each ends with a NUL
};

} // namespace troupe::text
