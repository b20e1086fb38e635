// The limit of open file descriptors, of which each connection takes one.
#pragma once

#include <cstddef>

namespace troupe {

/// Raises the soft limit of this process to its hard limit. The usual soft limit of 1,024 exists for
/// select(), which this project does not use; at the limit, connections wait in the kernel without an answer.
/// @returns the new limit
std::size_t raise_descriptor_limit() noexcept;

/// How many of `wanted` connections fit into `limit` descriptors: 256 are reserved for peers, UCX and mapped
/// files, or half of a small limit.
std::size_t connections_that_fit(std::size_t wanted, std::size_t limit) noexcept;

} // namespace troupe
