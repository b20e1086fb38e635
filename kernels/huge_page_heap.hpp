// Memory in huge pages for what does not fill them.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace troupe::kernels {

inline constexpr std::size_t huge_page = std::size_t{2} << 20;

/// What all memory is aligned to, and dealt out in.
inline constexpr std::size_t cache_line = 64;

/// The next multiple of `unit`, or `value` where that is one.
constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Deals out parts of regions that huge pages are asked for: an expert's matrix of less than 2 MiB would lie
/// in small ones otherwise, and is read a tenth slower there; one of a little more would take two. Parts that
/// come back are joined with their neighbours and dealt out again; a region without any goes back to the
/// system. Thread-safe; not for the path of a token.
class huge_page_heap {
 public:
  static constexpr std::size_t region_bytes = std::size_t{32} << 20;

  huge_page_heap() = default;
  huge_page_heap(const huge_page_heap&) = delete;
  huge_page_heap& operator=(const huge_page_heap&) = delete;
  /// All parts must have come back.
  ~huge_page_heap() = default;

  /// @param num_bytes  1 … region_bytes
  /// @returns zero-filled memory, 64-byte aligned
  /// @errors std::bad_alloc
  std::byte* allocate(std::size_t num_bytes);

  /// @param num_bytes  as when it was allocated
  void release(std::byte* data, std::size_t num_bytes);

  /// Regions that it holds.
  std::size_t num_regions() const;

  /// That of the process; lives as long as that.
  static huge_page_heap& instance();

 private:
  // Free parts of a region: offset → bytes.
  using region = std::map<std::size_t, std::size_t>;

  mutable std::mutex mutex_;
  std::map<std::byte*, region> regions_; // by where they begin
};

/// Maps zero pages, aligned to 2 MiB, and asks for huge ones; `munmap` ends it.
/// @param num_bytes  a multiple of 2 MiB
/// @errors std::bad_alloc
std::byte* map_huge_pages(std::size_t num_bytes);

} // namespace troupe::kernels
