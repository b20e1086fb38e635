// How a text is cut at the matches of a pattern.
#pragma once

#include "services/gateway/text/json_view.hpp"
#include "services/gateway/text/pieces.hpp"

#include <cstddef>
#include <string_view>
#include <vector>

namespace troupe::text {

/// What happens to the matches.
enum class split_behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// @throws text_error naming an unknown behavior
split_behavior read_split_behavior(const json_view& json);

/// A stretch of a piece, by offsets from its start: a match, or the text between two.
struct stretch {
  std::size_t begin;
  std::size_t end;
  bool is_match;
};

/// Appends the parts of `whole`. `stretches` cover it, and `behavior` joins or removes them. Empty parts are
/// left out.
void append_split(std::vector<piece>& out, const piece& whole, std::vector<stretch>& stretches,
                  split_behavior behavior);

} // namespace troupe::text
