// File descriptors: every connection takes one.
#pragma once

#include <cstddef>

namespace troupe {

/// Raises the soft limit of this process to its hard limit. Shells and services start with 1,024, for the
/// sake of select(), which nothing here uses; at the limit, connections would wait in the kernel without an
/// answer.
/// @returns the limit that holds from then on
std::size_t raise_descriptor_limit() noexcept;

/// How many of `wanted` connections a process may take that may open `limit` files: 256 are left for the rest
/// (peers, UCX, mapped files), or half of a small limit.
std::size_t connections_that_fit(std::size_t wanted, std::size_t limit) noexcept;

} // namespace troupe
