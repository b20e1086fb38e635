#include "kernels/buffer.hpp"

#include <cstring>
#include <new>
#include <utility>

#include <sys/mman.h>

namespace troupe::kernels {

namespace {

constexpr std::size_t line = 64;
constexpr std::size_t huge_page = std::size_t{2} << 20;

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

} // namespace

buffer::buffer(std::size_t num_bytes) : size_(num_bytes) {
  if (num_bytes == 0)
    return;
  if (num_bytes < huge_page) {
    const std::size_t padded = round_up(num_bytes, line);
    data_ = static_cast<std::byte*>(::operator new (padded, std::align_val_t{line}));
    std::memset(data_, 0, padded);
    return;
  }
  // Over-map and trim, so that huge pages fit; anonymous pages come zeroed and are placed at first touch.
  const std::size_t length = round_up(num_bytes, huge_page);
  void* mapped =
      ::mmap(nullptr, length + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    throw std::bad_alloc{};
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped);
  const std::size_t before = round_up(begin, huge_page) - begin;
  data_ = static_cast<std::byte*>(mapped) + before;
  if (before != 0)
    ::munmap(mapped, before);
  ::munmap(data_ + length, huge_page - before);
  // Advice: where huge pages are off, small ones serve as well.
  ::madvise(data_, length, MADV_HUGEPAGE);
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
  if (size_ < huge_page)
    ::operator delete (data_, std::align_val_t{line});
  else
    ::munmap(data_, round_up(size_, huge_page));
}

tensor::tensor(dtype type, std::size_t rows, std::size_t cols)
    : storage_(bytes_of(type, round_up(cols, line * 8 / bits_of(type)) * rows)) {
  view_ = {storage_.data(), type, rows, cols, round_up(cols, line * 8 / bits_of(type)), {}};
}

} // namespace troupe::kernels
