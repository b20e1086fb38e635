#include "kernels/huge_page_heap.hpp"

#include <cstdint>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include <sys/mman.h>

namespace troupe::kernels {

std::byte* map_huge_pages(std::size_t num_bytes) {
  // Maps too much and trims it; anonymous pages are zeroed, and placed at first touch.
  void* mapped =
      ::mmap(nullptr, num_bytes + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    throw std::bad_alloc{};
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped);
  const std::size_t before = round_up(begin, huge_page) - begin;
  auto* data = static_cast<std::byte*>(mapped) + before;
  if (before != 0)
    ::munmap(mapped, before);
  ::munmap(data + num_bytes, huge_page - before);
  // Only advice: without huge pages small ones work, too.
  ::madvise(data, num_bytes, MADV_HUGEPAGE);
  return data;
}

std::byte* huge_page_heap::allocate(std::size_t num_bytes) {
  const std::size_t padded = round_up(num_bytes, cache_line);
  std::unique_lock lock(mutex_);
  for (auto& [begin, parts] : regions_)
    for (auto part = parts.begin(); part != parts.end(); ++part)
      if (part->second >= padded) {
        std::byte* data = begin + part->first;
        auto rest = parts.extract(part);
        if (rest.mapped() > padded) {
          rest.key() += padded;
          rest.mapped() -= padded;
          parts.insert(std::move(rest));
        }
        lock.unlock();
        std::memset(data, 0, padded); // it may have been in use before
        return data;
      }
  std::byte* begin = map_huge_pages(region_bytes);
  region& parts = regions_[begin];
  if (padded < region_bytes)
    parts.emplace(padded, region_bytes - padded);
  return begin;
}

void huge_page_heap::release(std::byte* data, std::size_t num_bytes) {
  const std::scoped_lock lock(mutex_);
  const auto found = --regions_.upper_bound(data);
  auto& [begin, parts] = *found;
  auto [part, added] = parts.emplace(data - begin, round_up(num_bytes, cache_line));
  if (const auto next = std::next(part); next != parts.end() && part->first + part->second == next->first) {
    part->second += next->second;
    parts.erase(next);
  }
  if (part != parts.begin())
    if (const auto previous = std::prev(part); previous->first + previous->second == part->first) {
      previous->second += part->second;
      parts.erase(part);
      part = previous;
    }
  if (part->second == region_bytes) {
    ::munmap(begin, region_bytes);
    regions_.erase(found);
  }
}

std::size_t huge_page_heap::num_regions() const {
  const std::scoped_lock lock(mutex_);
  return regions_.size();
}

huge_page_heap& huge_page_heap::instance() {
  static auto* heap = new huge_page_heap; // never destroyed: statics may hold buffers
  return *heap;
}

} // namespace troupe::kernels
