// Collective operations between processes or devices that share one computation.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// The group is unusable: a rank is gone or silent, or ranks call different operations. The caller must make
/// a new group.
class collective_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One rank's end of a group of ranks 0 to num_ranks() − 1. All ranks call the same operations in the same
/// order with the same sizes; one thread at a time. Each implementation documents whether memory is the
/// host's or a device's, and whether calls wait; `wait` always does.
/// @throws collective_error  from every call once the group is broken
class collective {
 public:
  virtual ~collective() = default;

  virtual std::size_t rank() const = 0;
  virtual std::size_t num_ranks() const = 0;

  /// values[i] becomes the sum of all ranks' values[i], the same bits at every rank.
  /// @param values  [count], f32 or bf16, aligned to their type
  virtual void all_reduce(void* values, std::size_t count, dtype type) = 0;

  /// @param mine  [num_bytes]
  /// @param all   [num_ranks, num_bytes], in order of ranks; must not overlap `mine`
  virtual void all_gather(const std::byte* mine, std::size_t num_bytes, std::byte* all) = 0;

  /// @param data  [num_bytes]: receives the root's everywhere
  virtual void broadcast(std::byte* data, std::size_t num_bytes, std::size_t root) = 0;

  /// Row r of `mine` goes to rank r, and row r of `all` comes from it.
  /// @param mine, all  [num_ranks, num_bytes], not overlapping
  virtual void all_to_all(const std::byte* mine, std::size_t num_bytes, std::byte* all) = 0;

  /// Waits for all previous calls.
  virtual void wait() = 0;
};

} // namespace troupe::kernels
