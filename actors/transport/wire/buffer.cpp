#include "actors/transport/wire/buffer.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

namespace troupe {

void intrusive_ptr_add_ref(buffer* ptr) noexcept {
  ptr->references.fetch_add(1, std::memory_order_relaxed);
}

void intrusive_ptr_release(buffer* ptr) noexcept {
  if (ptr->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
    ptr->pool->put_back(ptr);
}

buffer_pool& buffer_pool::instance() {
  // Never destroyed: a payload in a static or in a late message may outlive every other object.
  static auto* pool = new buffer_pool;
  return *pool;
}

buffer_ptr buffer_pool::allocate(std::size_t num_bytes) {
  if (num_bytes > (min_capacity << (num_classes - 1)))
    throw std::bad_alloc{};
  const auto capacity = std::bit_ceil(std::max(num_bytes, min_capacity));
  const auto size_class =
      static_cast<std::size_t>(std::countr_zero(capacity) - std::countr_zero(min_capacity));
  {
    std::lock_guard guard{mutex_};
    if (auto& list = free_[size_class]; !list.empty()) {
      auto* ptr = list.back();
      list.pop_back();
      cached_bytes_ -= capacity;
      live_bytes_ += capacity;
      return buffer_ptr{ptr};
    }
  }
  void* memory = std::aligned_alloc(alignof(buffer), sizeof(buffer) + capacity);
  if (memory == nullptr)
    throw std::bad_alloc{};
  auto* ptr = new (memory) buffer;
  ptr->capacity = capacity;
  ptr->pool = this;
  ptr->size_class = static_cast<std::uint8_t>(size_class);
  std::lock_guard guard{mutex_};
  ++allocations_;
  live_bytes_ += capacity;
  return buffer_ptr{ptr};
}

void buffer_pool::cache_limit(std::size_t num_bytes) {
  std::vector<buffer*> excess;
  {
    std::lock_guard guard{mutex_};
    cache_limit_ = num_bytes;
    for (auto& list : free_) {
      while (cached_bytes_ > cache_limit_ && !list.empty()) {
        excess.push_back(list.back());
        cached_bytes_ -= list.back()->capacity;
        list.pop_back();
      }
    }
  }
  for (auto* ptr : excess)
    std::free(ptr);
}

buffer_pool::counters buffer_pool::stats() const {
  std::lock_guard guard{mutex_};
  return {allocations_, cached_bytes_, live_bytes_};
}

void buffer_pool::put_back(buffer* ptr) noexcept {
  {
    std::lock_guard guard{mutex_};
    live_bytes_ -= ptr->capacity;
    auto& list = free_[ptr->size_class];
    if (cached_bytes_ + ptr->capacity <= cache_limit_) {
      try {
        list.push_back(ptr);
        cached_bytes_ += ptr->capacity;
        ptr->ready_event = nullptr;
        return;
      } catch (const std::bad_alloc&) {
        // No memory for the list itself: fall through and give the buffer back.
      }
    }
  }
  std::free(ptr);
}

} // namespace troupe
