#include "actors/transport/wire/buffer.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

namespace troupe {

namespace {

void free_all(const std::vector<buffer*>& buffers) {
  for (auto* ptr : buffers)
    ptr->source->give_back(ptr);
}

} // namespace

constinit const memory_source host_memory{
    .kind = memory_kind::host,
    .take = [](std::size_t num_bytes) { return std::aligned_alloc(alignof(buffer), num_bytes); },
    .give_back = [](void* memory) noexcept { std::free(memory); }};

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
  const memory_source* source = nullptr;
  {
    std::lock_guard guard{mutex_};
    source = source_;
    if (auto& list = free_[size_class]; !list.empty()) {
      auto* ptr = list.back();
      list.pop_back();
      cached_bytes_ -= capacity;
      live_bytes_ += capacity;
      return buffer_ptr{ptr};
    }
  }
  void* memory = source->take(sizeof(buffer) + capacity);
  if (memory == nullptr)
    throw std::bad_alloc{};
  auto* ptr = new (memory) buffer;
  ptr->capacity = capacity;
  ptr->pool = this;
  ptr->source = source;
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
  free_all(excess);
}

void buffer_pool::take_from(const memory_source& source) {
  std::vector<buffer*> others;
  {
    std::lock_guard guard{mutex_};
    source_ = &source;
    for (auto& list : free_) {
      const auto kept =
          std::partition(list.begin(), list.end(), [&](const buffer* ptr) { return ptr->source == &source; });
      for (auto ptr = kept; ptr != list.end(); ++ptr)
        cached_bytes_ -= (*ptr)->capacity;
      others.insert(others.end(), kept, list.end());
      list.erase(kept, list.end());
    }
  }
  free_all(others);
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
    if (ptr->source == source_ && cached_bytes_ + ptr->capacity <= cache_limit_) {
      try {
        list.push_back(ptr);
        cached_bytes_ += ptr->capacity;
        return;
      } catch (const std::bad_alloc&) {
        // No memory for the list itself: fall through and give the buffer back.
      }
    }
  }
  ptr->source->give_back(ptr);
}

} // namespace troupe
