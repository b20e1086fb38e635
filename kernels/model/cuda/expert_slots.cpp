#include "kernels/model/cuda/expert_slots.hpp"

#include "kernels/error.hpp"
#include "kernels/model/cuda/matrix_alignment.hpp"

namespace troupe::model {

expert_slots::expert_slots(std::size_t count, std::size_t slot_bytes)
    : slot_bytes_(aligned(slot_bytes)), memory_(count * slot_bytes_), slots_(count) {
  kernels::expect(count >= 1, "cuda expert slots: at least one");
  for (std::size_t i = 0; i < count; ++i) {
    by_use_.push_front(i);
    slots_[i].place = by_use_.begin();
  }
}

const std::byte* expert_slots::take(std::uint64_t id, const pinned_matrices& from) {
  kernels::expect(from.num_bytes() <= slot_bytes_, "cuda expert slots: an expert fits a slot");
  const auto found = places_.find(id);
  const auto index = found != places_.end() ? found->second : by_use_.back();
  auto& taken = slots_[index];
  auto* data = memory_.data() + index * slot_bytes_;
  if (found != places_.end()) {
    ++num_hits_;
  } else {
    if (taken.last_wave == wave_)
      return nullptr; // the least recently used one is in the wave, so all are
    places_.erase(taken.id);
    taken.id = 0; // until its copy has been started
    if (taken.last_wave != 0)
      copies_.wait(taken.used);
    copies_.copy_to_device(data, from.data(), from.num_bytes());
    taken.copied.record(copies_);
    places_.emplace(id, index);
    taken.id = id;
    taken.is_new = true;
    ++num_copies_;
  }
  taken.last_wave = wave_;
  by_use_.splice(by_use_.begin(), by_use_, taken.place);
  return data;
}

void expert_slots::begin_use(const kernels::cuda::stream& compute) {
  for (const auto index : by_use_) {
    auto& used = slots_[index];
    if (used.last_wave != wave_)
      break;
    if (used.is_new)
      compute.wait(used.copied);
    used.is_new = false;
  }
}

void expert_slots::end_use(const kernels::cuda::stream& compute) {
  for (const auto index : by_use_) {
    if (slots_[index].last_wave != wave_)
      break;
    slots_[index].used.record(compute);
  }
  ++wave_;
}

void expert_slots::clear() {
  try {
    copies_.synchronize();
  } catch (const kernels::cuda::device_error&) { // NOLINT(bugprone-empty-catch)
    // The next copy reports it.
  }
  places_.clear();
  for (auto& each : slots_) {
    each.id = 0;
    each.last_wave = 0;
    each.is_new = false;
  }
  ++wave_;
}

} // namespace troupe::model
