#include "kernels/model/block_writer.hpp"

#include <algorithm>

namespace troupe::model {

void block_writer::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (block_.empty() && bytes.size() >= block_bytes) { // uncopied
      const auto whole = bytes.first(bytes.size() / block_bytes * block_bytes);
      out_(begin_, whole);
      begin_ += whole.size();
      bytes = bytes.subspan(whole.size());
      continue;
    }
    const auto some = bytes.first(std::min(bytes.size(), block_bytes - block_.size()));
    block_.insert(block_.end(), some.begin(), some.end());
    bytes = bytes.subspan(some.size());
    if (block_.size() == block_bytes)
      flush();
  }
}

void block_writer::pad_to(std::uint64_t offset) {
  static constexpr std::byte zeros[4096] = {};
  while (end() < offset)
    append(std::span{zeros}.first(std::min<std::uint64_t>(offset - end(), sizeof zeros)));
}

void block_writer::flush() {
  if (!block_.empty())
    out_(begin_, block_);
  begin_ += block_.size();
  block_.clear();
}

} // namespace troupe::model
