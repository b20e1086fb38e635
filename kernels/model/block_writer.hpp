// Writes a file from front to back in whole huge pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/huge_page_heap.hpp"

namespace troupe::model {

/// Collects what is appended, and passes it on in runs of whole blocks. The page cache keeps a block that was
/// written by one call in one piece (Linux, file systems with large folios), and maps it as one huge page;
/// written in parts, it stays in small pages until it is dropped and read again.
class block_writer {
 public:
  static constexpr std::size_t block_bytes = kernels::huge_page;

  /// Takes bytes for an offset. What it throws goes to whoever appends.
  using sink = std::function<void(std::uint64_t offset, std::span<const std::byte> bytes)>;

  explicit block_writer(sink out) : out_(std::move(out)) { block_.reserve(block_bytes); }

  /// Bytes appended so far.
  std::uint64_t end() const noexcept { return begin_ + block_.size(); }

  void append(std::span<const std::byte> bytes);

  /// Appends zeros. @param offset  where `end` is to be, not before it
  void pad_to(std::uint64_t offset);

  /// Passes on the part of a block that is left. Nothing may be appended behind it.
  void flush();

 private:
  sink out_;
  std::vector<std::byte> block_; // what is not yet passed on, less than a block
  std::uint64_t begin_ = 0;      // where it goes
};

} // namespace troupe::model
