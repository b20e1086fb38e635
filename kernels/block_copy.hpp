// A copy of a KV block, in every layer.
#pragma once

#include <cstdint>

namespace troupe::kernels {

struct block_copy {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  bool operator==(const block_copy&) const = default;
};

} // namespace troupe::kernels
