// Determines which copies of KV blocks a device may do at once.
#pragma once

#include "kernels/model/attention_backend.hpp"

#include <cstddef>
#include <span>

namespace troupe::model {

/// How many of the first copies can be done in any order: none writes what another reads or writes.
/// @returns at least 1 if there are any
std::size_t independent_copies(std::span<const block_copy> copies);

} // namespace troupe::model
