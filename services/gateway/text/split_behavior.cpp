#include "services/gateway/text/split_behavior.hpp"

#include <algorithm>
#include <string>

namespace troupe::text {

split_behavior read_split_behavior(const json_view& json) {
  const auto& name = json.string();
  if (name == "Removed")
    return split_behavior::removed;
  if (name == "Isolated")
    return split_behavior::isolated;
  if (name == "MergedWithPrevious")
    return split_behavior::merged_with_previous;
  if (name == "MergedWithNext")
    return split_behavior::merged_with_next;
  if (name == "Contiguous")
    return split_behavior::contiguous;
  json.fail("split behavior '" + name + "' is not supported");
}

namespace {

/// Joins a stretch with the part before it if joins(this one is a match, the previous one was a match).
template <class F>
void join_stretches(std::vector<stretch>& stretches, F&& joins) {
  std::size_t kept = 0;
  bool before = false;
  for (const auto& s : stretches) {
    if (joins(s.is_match, before) && kept > 0) {
      stretches[kept - 1].begin = std::min(stretches[kept - 1].begin, s.begin);
      stretches[kept - 1].end = std::max(stretches[kept - 1].end, s.end);
    } else {
      stretches[kept++] = {s.begin, s.end, s.is_match};
    }
    before = s.is_match;
  }
  stretches.resize(kept);
}

} // namespace

void append_split(std::vector<piece>& out, const piece& whole, std::vector<stretch>& stretches,
                  split_behavior behavior) {
  const auto match_after_other = [](bool is_match, bool before) { return is_match && !before; };
  switch (behavior) {
  case split_behavior::removed:
    std::erase_if(stretches, [](const stretch& s) { return s.is_match; });
    break;
  case split_behavior::isolated:
    break;
  case split_behavior::contiguous:
    join_stretches(stretches, [](bool is_match, bool before) { return is_match == before; });
    break;
  case split_behavior::merged_with_previous:
    join_stretches(stretches, match_after_other);
    break;
  case split_behavior::merged_with_next:
    std::reverse(stretches.begin(), stretches.end());
    join_stretches(stretches, match_after_other);
    std::reverse(stretches.begin(), stretches.end());
    break;
  }
  for (const auto& s : stretches)
    if (s.begin < s.end)
      out.push_back(part_of(whole, whole.begin + s.begin, whole.begin + s.end));
}

} // namespace troupe::text
