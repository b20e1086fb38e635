#include "kernels/buffer.hpp"

#include <cstring>
#include <new>
#include <utility>

#include <sys/mman.h>

#include "kernels/huge_page_heap.hpp"

namespace troupe::kernels {

namespace {

constexpr std::size_t line = 64;

// Under the address sanitizer each buffer has memory of its own, so that it sees what lies behind them.
#if defined(__SANITIZE_ADDRESS__)
#  define TROUPE_ADDRESS_SANITIZER
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define TROUPE_ADDRESS_SANITIZER
#  endif
#endif
#if defined(TROUPE_ADDRESS_SANITIZER)
constexpr std::size_t least_in_heap = huge_page;
#else
constexpr std::size_t least_in_heap = std::size_t{64} << 10;
#endif

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

} // namespace

buffer::buffer(std::size_t num_bytes) : size_(num_bytes) {
  if (num_bytes == 0)
    return;
  if (num_bytes >= huge_page) {
    data_ = map_huge_pages(round_up(num_bytes, huge_page));
  } else if (num_bytes >= least_in_heap) {
    data_ = huge_page_heap::instance().allocate(num_bytes);
  } else {
    const std::size_t padded = round_up(num_bytes, line);
    data_ = static_cast<std::byte*>(::operator new (padded, std::align_val_t{line}));
    std::memset(data_, 0, padded);
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
  if (size_ >= huge_page)
    ::munmap(data_, round_up(size_, huge_page));
  else if (size_ >= least_in_heap)
    huge_page_heap::instance().release(data_, size_);
  else
    ::operator delete (data_, std::align_val_t{line});
}

tensor::tensor(dtype type, std::size_t rows, std::size_t cols)
    : storage_(bytes_of(type, round_up(cols, line * 8 / bits_of(type)) * rows)) {
  view_ = {storage_.data(), type, rows, cols, round_up(cols, line * 8 / bits_of(type)), {}};
}

} // namespace troupe::kernels
