// Processors for compute threads: lists in flags, and their division among the processes of a machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// The processors that this process may run on, in ascending order; at least one.
std::vector<int> usable_processors();

/// How many threads can compute at once: one for each usable processor, and no more than the CPU quota of the
/// cgroup pays for, rounded up; threads beyond it would be stopped for the rest of every period. At least
/// one.
std::uint32_t available_processors();

/// Reads numbers and ranges, "0-3,8".
/// @param flag  for the error's text
/// @throws option_error when the text is no list, or names a processor twice or one that this process may not
///         run on
std::vector<int> parse_processors(const std::string& text, const std::string& flag);

/// "0,1,2,3,8"; empty for none.
std::string processors_text(std::span<const int> processors);

/// The `length` processors of `all` for process `index` of `count`: its own share first, then its neighbours'
/// shares, so that every processor serves equally many processes where the lengths allow it.
/// @param all  may be empty; then so is the result
std::vector<int> processors_of(std::span<const int> all, std::size_t index, std::size_t count,
                               std::size_t length);

} // namespace troupe
