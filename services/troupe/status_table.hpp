// The page /cluster for people.
#pragma once

#include <string>

namespace troupe {

/// Workers, load and a summary of the placement as a few aligned lines.
/// @param text  what a gateway answers at /cluster, in JSON
/// @throws std::runtime_error when it is not such a page
std::string status_table(const std::string& text);

} // namespace troupe
