#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

/// Part of a text on its way to the model.
struct piece {
  static constexpr std::int32_t to_encode = -1;

  std::size_t begin = 0;
  std::size_t end = 0;
  /// Bytes at the start of the piece that come from the very first character of the input (the prefix put
  /// before it included), at most all of it: what Metaspace's "first" scheme asks for.
  std::size_t from_first = 0;
  std::int32_t id = to_encode; ///< a token already, when not negative
};

/// A text and its pieces, in order and without gaps between what is still to be encoded.
struct pieces {
  std::string text;
  std::vector<piece> list;

  std::string_view view(const piece& p) const {
    return std::string_view(text).substr(p.begin, p.end - p.begin);
  }
};

/// The part of @p whole from @p begin to @p end (offsets in the text), with its share of from_first: what the
/// first character became may be cut in several parts.
inline piece part_of(const piece& whole, std::size_t begin, std::size_t end) {
  const std::size_t before = begin - whole.begin;
  const std::size_t from_first = before < whole.from_first ? whole.from_first - before : 0;
  return {begin, end, std::min(from_first, end - begin), piece::to_encode};
}

} // namespace troupe::text
