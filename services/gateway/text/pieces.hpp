// A text cut into pieces on its way to the tokenizer's model.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

/// One part of a text.
struct piece {
  static constexpr std::int32_t to_encode = -1;

  std::size_t begin = 0;
  std::size_t end = 0;
  /// Leading bytes of the piece that come from the first character of the input, including the prefix put
  /// before it. Metaspace's "first" scheme uses it.
  std::size_t from_first = 0;
  std::int32_t id = to_encode; ///< a token that is already known, unless negative
};

/// A text and its pieces, in order; those still to be encoded are contiguous.
struct pieces {
  std::string text;
  std::vector<piece> list;

  std::string_view view(const piece& p) const {
    return std::string_view(text).substr(p.begin, p.end - p.begin);
  }
};

/// The part of `whole` from `begin` to `end` (offsets in the text), with its share of from_first: the result
/// of the first character may be cut in several parts.
inline piece part_of(const piece& whole, std::size_t begin, std::size_t end) {
  const std::size_t before = begin - whole.begin;
  const std::size_t from_first = before < whole.from_first ? whole.from_first - before : 0;
  return {begin, end, std::min(from_first, end - begin), piece::to_encode};
}

} // namespace troupe::text
