#include "kernels/model/cuda/expert_slots.hpp"

#include "kernels/error.hpp"
#include "kernels/model/cuda/matrix_alignment.hpp"

namespace troupe::model {

expert_slots::expert_slots(std::size_t count, std::size_t slot_bytes)
    : slot_bytes_(aligned(slot_bytes)), memory_(count * slot_bytes_), slots_(count) {
  kernels::expect(count >= 1, "cuda expert slots: at least one");
}

std::optional<std::size_t> expert_slots::find(std::uint64_t id) const {
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].id == id)
      return i;
  return std::nullopt;
}

std::optional<std::size_t> expert_slots::oldest() const {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].last_wave != wave_ && (!found || slots_[i].last_wave < slots_[*found].last_wave))
      found = i;
  return found;
}

const std::byte* expert_slots::take(std::uint64_t id, const pinned_matrices& from) {
  kernels::expect(from.num_bytes() <= slot_bytes_, "cuda expert slots: an expert fits a slot");
  auto index = find(id);
  if (index) {
    ++num_hits_;
  } else {
    index = oldest();
    if (!index)
      return nullptr;
  }
  auto& place = slots_[*index];
  auto* data = memory_.data() + *index * slot_bytes_;
  if (place.id != id) {
    const bool was_used = place.last_wave != 0;
    place.id = 0; // until its copy is under way
    if (was_used)
      copies_.wait(place.used);
    copies_.copy_to_device(data, from.data(), from.num_bytes());
    place.copied.record(copies_);
    place.id = id;
    place.is_new = true;
    ++num_copies_;
  }
  place.last_wave = wave_;
  return data;
}

void expert_slots::begin_use(const kernels::cuda::stream& compute) {
  for (auto& place : slots_)
    if (place.is_new) {
      compute.wait(place.copied);
      place.is_new = false;
    }
}

void expert_slots::end_use(const kernels::cuda::stream& compute) {
  for (auto& place : slots_)
    if (place.last_wave == wave_)
      place.used.record(compute);
  ++wave_;
}

void expert_slots::clear() {
  try {
    copies_.synchronize();
  } catch (const kernels::cuda::device_error&) { // NOLINT(bugprone-empty-catch)
    // Whoever copies next hears of it.
  }
  for (auto& place : slots_) {
    place.id = 0;
    place.last_wave = 0;
    place.is_new = false;
  }
  ++wave_;
}

} // namespace troupe::model
