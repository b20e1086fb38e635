#include "kernels/cuda/emulated_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "kernels/cuda/memory_text.hpp"

namespace troupe::kernels::cuda {

namespace {

// Content of fresh memory: a NaN in BF16 and in FP32.
constexpr int poison = 0xFF;

} // namespace

emulated_memory& emulated_memory::of_process() {
  static auto& memory = *new emulated_memory; // never destroyed: memory may be freed at the process' end
  return memory;
}

std::byte* emulated_memory::take(memory_place place, std::size_t num_bytes) {
  const auto counted = place == memory_place::device ? memory_taken_for(num_bytes) : 0;
  count(counted, allocation_text(place, num_bytes));
  // malloc of exactly this size: the address sanitizer detects accesses beyond it.
  auto* data = static_cast<std::byte*>(std::malloc(num_bytes));
  if (data == nullptr) {
    discount(counted);
    throw device_error(allocation_text(place, num_bytes), "the host has not so much", device_fault::memory);
  }
  std::memset(data, poison, num_bytes);
  if (place == memory_place::device) {
    const std::lock_guard lock{mutex_};
    pieces_.emplace(data, counted);
  }
  return data;
}

void emulated_memory::give_back(std::byte* data) noexcept {
  {
    const std::lock_guard lock{mutex_};
    if (const auto found = pieces_.find(data); found != pieces_.end()) {
      taken_ -= found->second;
      pieces_.erase(found);
    }
  }
  std::free(data);
}

void emulated_memory::count(std::size_t num_bytes, const std::string& operation) {
  const std::lock_guard lock{mutex_};
  if (num_bytes > 0 && taken_ + num_bytes > total_)
    throw device_error(operation, "out of memory; " + room_text({total_ - std::min(total_, taken_), total_}),
                       device_fault::memory);
  taken_ += num_bytes;
}

void emulated_memory::discount(std::size_t num_bytes) noexcept {
  const std::lock_guard lock{mutex_};
  taken_ -= num_bytes;
}

void emulated_memory::set_total(std::size_t num_bytes) {
  const std::lock_guard lock{mutex_};
  total_ = num_bytes;
}

memory_room emulated_memory::room() const {
  const std::lock_guard lock{mutex_};
  return {total_ - std::min(total_, taken_), total_};
}

std::size_t emulated_memory::taken() const {
  const std::lock_guard lock{mutex_};
  return taken_;
}

} // namespace troupe::kernels::cuda
