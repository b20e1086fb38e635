#pragma once

#include "services/gateway/text/json_view.hpp"
#include "services/gateway/text/pieces.hpp"

#include <cstddef>
#include <string_view>
#include <vector>

namespace troupe::text {

/// What becomes of the matches when a text is cut at them.
enum class split_behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// @throws text_error naming an unknown one.
split_behavior read_split_behavior(const json_view& json);

/// A stretch of a piece, relative to its start: a match, or what lies between two.
struct stretch {
  std::size_t begin;
  std::size_t end;
  bool is_match;
};

/// Appends the parts of @p whole that @p stretches, which cover it, make under @p behavior; empty ones are
/// left out.
void append_split(std::vector<piece>& out, const piece& whole, std::vector<stretch>& stretches,
                  split_behavior behavior);

} // namespace troupe::text
