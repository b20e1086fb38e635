// Collective operations between processes or devices that share one computation.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// A group can do nothing any more: a rank is gone or silent, or ranks do different things. The caller makes
/// a new group.
class collective_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One rank's end of a group of ranks 0 to num_ranks() − 1. All ranks call the same operations in the same
/// order with the same sizes; one thread at a time. Memory is the host's or a device's, as the implementation
/// says, which also says whether a call waits: `wait` does in any case.
/// @errors  collective_error from every call once the group is broken
class collective {
 public:
  virtual ~collective() = default;

  virtual std::size_t rank() const = 0;
  virtual std::size_t num_ranks() const = 0;

  /// values[i] becomes the sum of all ranks' values[i], the same bits at every rank.
  /// @param values  [count], f32 or bf16, aligned to their type
  virtual void all_reduce(void* values, std::size_t count, dtype type) = 0;

  /// @param mine  [num_bytes]
  /// @param all   [num_ranks, num_bytes], in order of ranks; does not overlap `mine`
  virtual void all_gather(const std::byte* mine, std::size_t num_bytes, std::byte* all) = 0;

  /// @param data  [num_bytes]: the root's, everywhere
  virtual void broadcast(std::byte* data, std::size_t num_bytes, std::size_t root) = 0;

  /// Row r of `mine` goes to rank r, and row r of `all` comes from it.
  /// @param mine, all  [num_ranks, num_bytes], not overlapping
  virtual void all_to_all(const std::byte* mine, std::size_t num_bytes, std::byte* all) = 0;

  /// Waits until all that was called is done.
  virtual void wait() = 0;
};

} // namespace troupe::kernels
