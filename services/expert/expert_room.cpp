#include "services/expert/expert_room.hpp"

#include <algorithm>
#include <string>

#include "kernels/model/error.hpp"

namespace troupe {

uint64_t expert_room_of(const model::expert_backend& backend, uint64_t wanted, bool is_alone) {
  const auto room = wanted == 0 ? backend.room() : std::nullopt;
  if (!room) {
    return wanted;
  }
  uint64_t count = 0;
  uint64_t largest = 0; // as the scheduler counts
  const auto& layers = backend.config().layers;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    count += layers[layer].moe() == nullptr ? 0 : layers[layer].moe()->num_experts;
    largest = std::max<uint64_t>(largest, backend.expert_bytes(layer));
  }
  if (is_alone && count * largest > *room) {
    const auto text = [](uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; };
    throw model::model_error("the GPU has room for " + text(*room) + " of experts, and all "
                             + std::to_string(count) + " take " + text(count * largest)
                             + "; choose --gpu-expert-memory, so that some wait in the host's memory, or "
                               "--expert-quant");
  }
  return *room;
}

} // namespace troupe
