// Writes a file sequentially in whole huge pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/huge_page_heap.hpp"

namespace troupe::model {

/// Collects appended bytes, and passes them on in whole blocks. The page cache keeps a block that one call
/// wrote as one piece (Linux, file systems with large folios) and maps it as one huge page; a block written
/// in parts stays in small pages until it is dropped and read again.
class block_writer {
 public:
  static constexpr std::size_t block_bytes = kernels::huge_page;

  /// Receives bytes for an offset. Its exceptions reach the appending caller.
  using sink = std::function<void(std::uint64_t offset, std::span<const std::byte> bytes)>;

  explicit block_writer(sink out) : out_(std::move(out)) { block_.reserve(block_bytes); }

  /// Continues a file.
  /// @param begin  a multiple of `block_bytes`: start of the last block
  /// @param block  existing bytes of that block
  block_writer(sink out, std::uint64_t begin, std::vector<std::byte> block)
      : out_(std::move(out)), block_(std::move(block)), begin_(begin) {
    block_.reserve(block_bytes);
  }

  /// Bytes appended so far.
  std::uint64_t end() const noexcept { return begin_ + block_.size(); }

  /// Of these, the bytes passed on.
  std::uint64_t passed_on() const noexcept { return begin_; }

  void append(std::span<const std::byte> bytes);

  /// Appends zeros.
  /// @param offset  the new `end`, not before the present one
  void pad_to(std::uint64_t offset);

  /// Passes on the remaining part of a block. Nothing may be appended afterwards.
  void flush();

 private:
  sink out_;
  std::vector<std::byte> block_; // not passed on yet, less than a block
  std::uint64_t begin_ = 0;      // its offset
};

} // namespace troupe::model
