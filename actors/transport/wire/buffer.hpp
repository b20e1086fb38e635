// Reference-counted memory that payloads slice: pooled, 64-byte aligned, pinned where a device backend asks
// for that.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include <caf/intrusive_ptr.hpp>

namespace troupe {

/// What host memory a buffer's bytes lie in.
enum class memory_kind : std::uint8_t {
  host,
  host_pinned, ///< locked in its pages: a device copies from and to it while others compute
};

/// Where a pool takes its memory. Lives as long as any buffer does, so it is a static.
struct memory_source {
  memory_kind kind = memory_kind::host;
  /// `num_bytes`, a multiple of 64, aligned to 64; null when there are none.
  void* (*take)(std::size_t num_bytes) = nullptr;
  void (*give_back)(void* memory) noexcept = nullptr;
};

/// The allocator of the C library.
extern const memory_source host_memory;

class buffer_pool;

/// Header of a pooled allocation. The bytes follow it, 64-byte aligned (one cache line, one AVX-512
/// register).
///
/// The holder of the only reference writes all but the reference count, before the buffer is shared.
struct alignas(64) buffer {
  /// Bytes to the end of the allocation, behind the header.
  std::size_t capacity = 0;
  /// Returns here when the last reference goes.
  buffer_pool* pool = nullptr;
  /// UCX memory handle (`ucp_mem_h`) where the memory is registered for RDMA, else null.
  void* memory_handle = nullptr;
  /// Where it came from and goes back to.
  const memory_source* source = nullptr;
  std::atomic<std::uint32_t> references{0};
  /// Index of the pool's free list.
  std::uint8_t size_class = 0;

  memory_kind kind() const { return source->kind; }

  std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }

  const std::byte* data() const { return reinterpret_cast<const std::byte*>(this + 1); }
};

static_assert(sizeof(buffer) == 64);

void intrusive_ptr_add_ref(buffer* ptr) noexcept;
void intrusive_ptr_release(buffer* ptr) noexcept;

using buffer_ptr = caf::intrusive_ptr<buffer>;

/// Keeps freed buffers in power-of-two classes for the next caller, up to a bound; beyond it they go back to
/// where they came from. One pool serves a process, because buffers outlive every transport and actor system.
///
/// @threads any
class buffer_pool {
 public:
  struct counters {
    /// Buffers taken from the memory source since the start.
    std::uint64_t allocations = 0;
    /// Bytes that wait for reuse.
    std::size_t cached_bytes = 0;
    /// Bytes in buffers that someone holds.
    std::size_t live_bytes = 0;
  };

  static buffer_pool& instance();

  /// A buffer of at least `num_bytes` bytes, uninitialised.
  /// @errors throws `std::bad_alloc`, also for sizes beyond 2^40
  buffer_ptr allocate(std::size_t num_bytes);

  /// Sets how many bytes may wait for reuse, and frees what is above.
  void cache_limit(std::size_t num_bytes);

  /// Where new buffers come from, from now on; those of another source go back when they are free. A process
  /// whose device wants pinned memory says so before it allocates.
  /// @param source  a static
  void take_from(const memory_source& source);

  counters stats() const;

 private:
  friend void intrusive_ptr_release(buffer* ptr) noexcept;

  /// Smallest class: 256 bytes; the largest: 2^40.
  static constexpr std::size_t min_capacity = 256;
  static constexpr std::size_t num_classes = 33;

  void put_back(buffer* ptr) noexcept;

  mutable std::mutex mutex_;
  const memory_source* source_ = &host_memory;
  std::array<std::vector<buffer*>, num_classes> free_;
  std::size_t cached_bytes_ = 0;
  std::size_t live_bytes_ = 0;
  // Enough for a worker's steady state (tens of micro-batches of a few MiB) and small beside its weights.
  std::size_t cache_limit_ = std::size_t{256} << 20;
  std::uint64_t allocations_ = 0;
};

} // namespace troupe
