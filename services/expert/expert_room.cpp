#include "services/expert/expert_room.hpp"

#include <algorithm>
#include <string>

#include "actors/protocol/defaults.hpp"
#include "kernels/model/error.hpp"

namespace troupe {

namespace {

/// @param largest, usual  bytes of an expert of an MoE layer
template <class Model, class Largest, class Usual>
expert_sizes sizes_of(const Model& model, const Largest& largest, const Usual& usual) {
  expert_sizes sizes;
  sizes.row = kernels::bytes_of(model.type(), model.config().hidden);
  const auto& layers = model.config().layers;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (const auto* moe = layers[layer].moe()) {
      sizes.count += moe->num_experts;
      sizes.largest = std::max<std::uint64_t>(sizes.largest, largest(layer));
      sizes.usual = std::max<std::uint64_t>(sizes.usual, usual(layer));
    }
  }
  return sizes;
}

std::string text_of_all(std::uint64_t count, std::uint64_t bytes) {
  return "all " + std::to_string(count) + " take " + mebibytes_text(bytes);
}

std::uint64_t room_of_device(std::uint64_t room, const expert_sizes& sizes, bool is_alone) {
  if (is_alone && sizes.total() > room) {
    throw model::model_error("the GPU has room for " + mebibytes_text(room) + " of experts, and "
                             + text_of_all(sizes.count, sizes.total())
                             + "; choose --gpu-expert-memory, so that some wait in the host's memory, or "
                               "--expert-quant");
  }
  return room;
}

} // namespace

expert_sizes sizes_of_experts(const model::expert_backend& backend) {
  return sizes_of(
      backend, [&](std::size_t layer) { return backend.expert_bytes(layer); },
      [&](std::size_t layer) { return backend.usual_expert_bytes(layer); });
}

expert_sizes sizes_of_experts(const model::cpu_weights& weights) {
  return sizes_of(
      weights, [&](std::size_t layer) { return weights.largest_expert(layer); },
      [&](std::size_t layer) { return weights.usual_expert(layer); });
}

std::uint64_t bytes_in_process(const model::cpu_weights& weights) {
  return weights.is_mapped() ? 0 : sizes_of_experts(weights).usual_total() / 16 * 17;
}

std::uint32_t queued_rows_within(const memory_budget& budget, const expert_sizes& sizes, bool is_alone) {
  constexpr std::uint32_t least = 8 * defaults::max_num_batched_tokens;
  if (!budget.is_limited() || sizes.row == 0)
    return defaults::max_queued_expert_rows;
  const std::uint32_t most = is_alone ? 2 * least : defaults::max_queued_expert_rows;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(*budget.limit() / 8 / (2 * sizes.row), least, most));
}

std::uint64_t expert_reserve(const memory_budget& budget, const expert_sizes& sizes, bool is_alone) {
  return 2 * queued_rows_within(budget, sizes, is_alone) * sizes.row + 4 * sizes.largest;
}

std::uint64_t expert_room_within(const memory_budget& budget, const expert_sizes& sizes, bool is_alone) {
  return without_rounding(bytes_beside(budget.left(), expert_reserve(budget, sizes, is_alone)));
}

std::uint64_t expert_room_of(const model::expert_backend& backend, const expert_room_request& request,
                             const memory_budget& budget) {
  const auto sizes = sizes_of_experts(backend);
  if (const auto room = request.wanted == 0 ? backend.room() : std::nullopt)
    return room_of_device(*room, sizes, request.is_alone);
  const auto place = request.from_workers ? model::expert_residence::process : backend.place();
  if (!budget.is_limited() || backend.place() == model::expert_residence::device || sizes.count == 0)
    return request.wanted;
  if (request.wanted != 0) {
    // Coded experts count for more than they take.
    const auto taken = request.wanted / sizes.largest * sizes.usual;
    if (place == model::expert_residence::process && taken > budget.left()) {
      throw model::model_error("--expert-memory is " + mebibytes_text(request.wanted) + ", and "
                               + budget.text() + ": that leaves " + mebibytes_text(budget.left())
                               + "; lower it, or raise the limit");
    }
    return request.wanted;
  }
  if (place == model::expert_residence::page_cache && request.is_alone)
    return 0;
  const auto room = expert_room_within(budget, sizes, request.is_alone);
  const auto least = request.is_alone ? sizes.usual_total() : sizes.largest;
  if (room < least) {
    throw model::model_error(budget.text() + " and rows on their way "
                             + mebibytes_text(expert_reserve(budget, sizes, request.is_alone))
                             + ": that leaves " + mebibytes_text(room) + " for experts, of which "
                             + (request.is_alone ? text_of_all(sizes.count, sizes.usual_total())
                                                 : "one takes " + mebibytes_text(sizes.largest))
                             + "; raise the limit, or choose --expert-quant"
                             + (request.is_alone ? " or a --weights-cache, whose pages come and go" : ""));
  }
  return request.is_alone ? 0 : room; // it fits
}

} // namespace troupe
