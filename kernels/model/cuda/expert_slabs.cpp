#include "kernels/model/cuda/expert_slabs.hpp"

#include "kernels/error.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace troupe::model {

namespace {

// Large enough for the rounding to 2 MiB to cost little, small enough for a half empty last slab.
constexpr std::size_t usual_slab_bytes = std::size_t{64} << 20;

} // namespace

struct expert_slabs::slab {
  slab(std::size_t num_bytes, std::size_t experts) : memory(num_bytes), free(experts) {
    std::iota(free.rbegin(), free.rend(), 0U);
  }

  kernels::cuda::device_memory memory;
  std::vector<std::uint32_t> free; // the next one last; keeps its capacity
};

expert_slabs::expert_slabs(std::size_t expert_bytes, std::size_t most)
    : expert_bytes_(expert_bytes),
      in_slab_(std::clamp<std::size_t>(usual_slab_bytes / expert_bytes, 1, most)) {}

expert_slabs::~expert_slabs() {
  for (const auto& each : slabs_)
    kernels::expect(each->free.size() == in_slab_, "cuda expert slabs: every place was given back");
}

expert_slabs::place expert_slabs::take() {
  const std::lock_guard lock{mutex_};
  // Uses the fullest slab, so that others become empty.
  slab* found = nullptr;
  for (const auto& each : slabs_)
    if (!each->free.empty() && (found == nullptr || each->free.size() < found->free.size()))
      found = each.get();
  if (found == nullptr)
    found = slabs_.emplace_back(std::make_unique<slab>(slab_bytes(), in_slab_)).get();
  const auto index = found->free.back();
  found->free.pop_back();
  return {*this, *found, index};
}

void expert_slabs::give_back(slab& in, std::uint32_t index) noexcept {
  std::unique_ptr<slab> emptied; // freed outside the lock: that waits for the device
  const std::lock_guard lock{mutex_};
  in.free.push_back(index);
  if (in.free.size() < in_slab_)
    return;
  const auto is_empty = [&](const auto& each) { return each->free.size() == in_slab_; };
  if (std::count_if(slabs_.begin(), slabs_.end(), is_empty) < 2)
    return;
  const auto own =
      std::find_if(slabs_.begin(), slabs_.end(), [&](const auto& each) { return each.get() == &in; });
  emptied = std::move(*own);
  slabs_.erase(own);
}

std::size_t expert_slabs::bytes_of_expert() const {
  const auto taken = kernels::cuda::memory_taken_for(slab_bytes());
  return (taken + in_slab_ - 1) / in_slab_;
}

std::size_t expert_slabs::num_bytes() const {
  const std::lock_guard lock{mutex_};
  return slabs_.size() * kernels::cuda::memory_taken_for(slab_bytes());
}

expert_slabs::place::place(place&& other) noexcept
    : of_(std::exchange(other.of_, nullptr)), in_(other.in_), index_(other.index_) {}

expert_slabs::place::~place() {
  if (of_ != nullptr)
    of_->give_back(*in_, index_);
}

std::byte* expert_slabs::place::data() const {
  return in_->memory.data() + index_ * of_->expert_bytes_;
}

} // namespace troupe::model
