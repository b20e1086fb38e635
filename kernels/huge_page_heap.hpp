// A heap that places several allocations in shared huge pages.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace troupe::kernels {

inline constexpr std::size_t huge_page = std::size_t{2} << 20;

/// Alignment and granularity of all memory.
inline constexpr std::size_t cache_line = 64;

/// The smallest multiple of `unit` that is at least `value`.
constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Allocates parts of regions for which huge pages are requested. Otherwise an expert's matrix below 2 MiB
/// would lie in small pages and be read a tenth slower, and one slightly above would take two huge pages.
/// Freed parts are joined with their neighbours and reused; an empty region returns to the system.
/// Thread-safe; not for the path of a token.
class huge_page_heap {
 public:
  static constexpr std::size_t region_bytes = std::size_t{32} << 20;

  huge_page_heap() = default;
  huge_page_heap(const huge_page_heap&) = delete;
  huge_page_heap& operator=(const huge_page_heap&) = delete;
  /// All parts must have been released.
  ~huge_page_heap() = default;

  /// @param num_bytes  1 … region_bytes
  /// @returns zero-filled memory, 64-byte aligned
  /// @throws std::bad_alloc
  std::byte* allocate(std::size_t num_bytes);

  /// @param num_bytes  as in the allocation
  void release(std::byte* data, std::size_t num_bytes);

  /// Number of regions held.
  std::size_t num_regions() const;

  /// The process's heap, which is never destroyed.
  static huge_page_heap& instance();

 private:
  // Free parts of a region: offset → bytes.
  using region = std::map<std::size_t, std::size_t>;

  mutable std::mutex mutex_;
  std::map<std::byte*, region> regions_; // by start address
};

/// Maps zero pages, aligned to 2 MiB, and asks for huge ones; `munmap` ends it.
/// @param num_bytes  a multiple of 2 MiB
/// @throws std::bad_alloc
std::byte* map_huge_pages(std::size_t num_bytes);

} // namespace troupe::kernels
