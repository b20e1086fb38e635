#include "kernels/buffer.hpp"

#include <cstring>
#include <new>
#include <utility>

#include <sys/mman.h>

#include "kernels/huge_page_heap.hpp"

namespace troupe::kernels {

namespace {

// Under the address sanitizer each buffer has its own memory, so that accesses beyond it are detected.
#if defined(__SANITIZE_ADDRESS__)
#  define TROUPE_ADDRESS_SANITIZER
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define TROUPE_ADDRESS_SANITIZER
#  endif
#endif
#if defined(TROUPE_ADDRESS_SANITIZER)
constexpr bool shares_pages = false;
#else
constexpr bool shares_pages = true;
#endif
constexpr std::size_t least_in_huge_pages = std::size_t{64} << 10;

enum class place { lines, shared_pages, own_pages };

// A buffer that would waste more than a thirty-second of its huge pages shares pages with others, unless it
// is larger than the regions of shared pages. Alone, a matrix of 2 MiB and its scales would take twice its
// size.
place place_of(std::size_t num_bytes) {
  const std::size_t wasted = round_up(num_bytes, huge_page) - num_bytes;
  const bool fills_pages = num_bytes >= huge_page && wasted <= num_bytes / 32;
  if (fills_pages || num_bytes > (shares_pages ? huge_page_heap::region_bytes : huge_page - 1))
    return place::own_pages;
  return shares_pages && num_bytes >= least_in_huge_pages ? place::shared_pages : place::lines;
}

} // namespace

buffer::buffer(std::size_t num_bytes) : size_(num_bytes) {
  if (num_bytes == 0)
    return;
  switch (place_of(num_bytes)) {
  case place::own_pages:
    data_ = map_huge_pages(round_up(num_bytes, huge_page));
    break;
  case place::shared_pages:
    data_ = huge_page_heap::instance().allocate(num_bytes);
    break;
  case place::lines: {
    const std::size_t padded = round_up(num_bytes, cache_line);
    data_ = static_cast<std::byte*>(::operator new (padded, std::align_val_t{cache_line}));
    std::memset(data_, 0, padded);
    break;
  }
  }
}

buffer::buffer(buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

buffer& buffer::operator=(buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

buffer::~buffer() {
  if (data_ == nullptr)
    return;
  switch (place_of(size_)) {
  case place::own_pages:
    ::munmap(data_, round_up(size_, huge_page));
    break;
  case place::shared_pages:
    huge_page_heap::instance().release(data_, size_);
    break;
  case place::lines:
    ::operator delete (data_, std::align_val_t{cache_line});
    break;
  }
}

tensor::tensor(dtype type, std::size_t rows, std::size_t cols)
    : storage_(bytes_of(type, round_up(cols, cache_line * 8 / bits_of(type)) * rows)) {
  view_ = {storage_.data(), type, rows, cols, round_up(cols, cache_line * 8 / bits_of(type))};
}

} // namespace troupe::kernels
