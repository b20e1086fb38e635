// A hash map from 64-bit keys to small values, for tables that are mostly read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::text {

/// Open addressing, at most half full. The key `~0` is reserved.
template <class Value>
class flat_map {
 public:
  explicit flat_map(std::size_t expected = 0) { rehash(slots_for(expected)); }

  /// Sets the value of `key`, replacing an existing one, and returns it.
  Value& set(std::uint64_t key, Value value) {
    if ((size_ + 1) * 2 > slots_.size())
      rehash(slots_.size() * 2);
    auto& found = slots_[index_of(key)];
    if (found.key != key) {
      found.key = key;
      ++size_;
    }
    found.value = value;
    return found.value;
  }

  const Value* find(std::uint64_t key) const noexcept {
    const auto& found = slots_[index_of(key)];
    return found.key == key ? &found.value : nullptr;
  }

 private:
  static constexpr std::uint64_t vacant = ~0ULL;

  struct slot {
    std::uint64_t key = vacant;
    Value value{};
  };

  static std::size_t slots_for(std::size_t expected) {
    std::size_t slots = 16;
    while (slots < expected * 2)
      slots *= 2;
    return slots;
  }

  std::size_t index_of(std::uint64_t key) const noexcept {
    // The finalizer of splitmix64.
    std::uint64_t h = key;
    h = (h ^ (h >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    h = (h ^ (h >> 27U)) * 0x94D049BB133111EBULL;
    h ^= h >> 31U;
    std::size_t at = h & (slots_.size() - 1);
    while (slots_[at].key != vacant && slots_[at].key != key)
      at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  void rehash(std::size_t slots) {
    std::vector<slot> old(slots);
    old.swap(slots_);
    for (const auto& s : old)
      if (s.key != vacant)
        slots_[index_of(s.key)] = s;
  }

  std::vector<slot> slots_;
  std::size_t size_ = 0;
};

} // namespace troupe::text
