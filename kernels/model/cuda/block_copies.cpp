#include "kernels/model/cuda/block_copies.hpp"

#include <unordered_set>

namespace troupe::model {

std::size_t independent_copies(std::span<const block_copy> copies) {
  std::unordered_set<std::uint32_t> read;
  std::unordered_set<std::uint32_t> written;
  std::size_t count = 0;
  for (const auto& copy : copies) {
    if (written.contains(copy.from) || written.contains(copy.to) || read.contains(copy.to))
      break;
    read.insert(copy.from);
    written.insert(copy.to);
    ++count;
  }
  return count;
}

} // namespace troupe::model
