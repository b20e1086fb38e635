// The page /cluster/placement, and what a command on it answers, for people.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// What the planner does, and the orders that it has, as a few lines and a table.
/// @param text  what GET /cluster/placement answers
/// @throws std::runtime_error when it is not such a page
std::string placement_table(const std::string& text);

/// A change that a command has begun, or would begin.
/// @param text  what POST /cluster/placement answers
/// @throws std::runtime_error when it is not such an answer
std::string change_table(const std::string& text);

/// How far the change that is under way has come, in one line; empty: none is.
/// @param text  as for placement_table
/// @throws likewise
std::string change_under_way(const std::string& text);

/// Moves that the last change has given up; 0 when there was none.
/// @param text  as for placement_table
/// @throws likewise
std::uint64_t moves_given_up(const std::string& text);

} // namespace troupe
