#include "kernels/model/expert_store.hpp"

#include "kernels/error.hpp"
#include "kernels/model/packed_expert.hpp"

#include <utility>

namespace troupe::model {

namespace {

std::size_t bytes_of(const kernels::expert_weights& weights) {
  return weights.gate_up.bytes().size() + weights.down.bytes().size() + weights.biases.size() * sizeof(float);
}

} // namespace

expert_store::expert_store(kernels::context& ctx, std::shared_ptr<const cpu_weights> weights)
    : ctx_(ctx), weights_(std::move(weights)) {
  for (const auto& layer : config().layers)
    experts_.emplace_back(layer.moe() == nullptr ? 0 : layer.moe()->num_experts);
}

void expert_store::check(std::size_t layer, std::size_t expert) const {
  if (layer >= experts_.size() || expert >= experts_[layer].size())
    throw model_error("the model has no expert " + std::to_string(expert) + " in layer "
                      + std::to_string(layer));
}

void expert_store::put(std::size_t layer, std::size_t expert, kernels::expert_weights weights) {
  auto loaded = std::make_shared<const kernels::expert_weights>(std::move(weights));
  const std::lock_guard lock{mutex_};
  auto& place = experts_[layer][expert];
  if (place != nullptr)
    return; // another thread was faster
  num_bytes_ += bytes_of(*loaded);
  place = std::move(loaded);
}

void expert_store::load(std::size_t layer, std::size_t expert) {
  check(layer, expert);
  if (!has(layer, expert))
    put(layer, expert, weights_->expert(layer, expert));
}

std::shared_ptr<const packed_expert> expert_store::packed(std::size_t layer, std::size_t expert) const {
  snapshot loaded;
  {
    const std::lock_guard lock{mutex_};
    if (layer < experts_.size() && expert < experts_[layer].size())
      loaded = experts_[layer][expert];
  }
  if (loaded == nullptr)
    return nullptr;
  return std::make_shared<const packed_expert>(expert_layout(*weights_, layer, loaded->gate_up.format()),
                                               std::move(loaded), weights_);
}

std::unique_ptr<arriving_expert> expert_store::expect(std::size_t layer, const std::string& layout) const {
  check(layer, 0);
  return std::make_unique<arriving_expert>(*weights_, layer, layout);
}

void expert_store::take(std::size_t layer, std::size_t expert, std::unique_ptr<arriving_expert> arrived) {
  check(layer, expert);
  if (!has(layer, expert))
    put(layer, expert, arrived->assemble(*weights_));
}

bool expert_store::unload(std::size_t layer, std::size_t expert) {
  snapshot last; // freed outside the lock
  {
    const std::lock_guard lock{mutex_};
    if (layer >= experts_.size() || expert >= experts_[layer].size() || experts_[layer][expert] == nullptr)
      return false;
    last = std::exchange(experts_[layer][expert], nullptr);
    num_bytes_ -= bytes_of(*last);
  }
  weights_->forget(layer, expert);
  return true;
}

bool expert_store::has(std::size_t layer, std::size_t expert) const {
  const std::lock_guard lock{mutex_};
  return layer < experts_.size() && expert < experts_[layer].size() && experts_[layer][expert] != nullptr;
}

std::size_t expert_store::num_bytes() const {
  const std::lock_guard lock{mutex_};
  return num_bytes_;
}

std::size_t expert_store::expert_bytes(std::size_t layer) const {
  return config().layers.at(layer).moe() == nullptr ? 0 : weights_->largest_expert(layer);
}

std::size_t expert_store::usual_expert_bytes(std::size_t layer) const {
  return config().layers.at(layer).moe() == nullptr ? 0 : weights_->usual_expert(layer);
}

std::optional<std::size_t> expert_store::forward(std::size_t layer, std::span<const expert_rows> batch) {
  std::vector<snapshot> held;
  std::vector<kernels::expert_segment> segments;
  held.reserve(batch.size());
  segments.reserve(batch.size());
  {
    const std::lock_guard lock{mutex_};
    for (const auto& rows : batch) {
      if (layer >= experts_.size() || rows.expert >= experts_[layer].size()
          || experts_[layer][rows.expert] == nullptr)
        return rows.expert;
      held.push_back(experts_[layer][rows.expert]);
      segments.push_back({held.back().get(), rows.inputs, rows.outputs});
    }
  }
  kernels::expert_ffn(ctx_, {.segments = segments, .row_type = type()});
  return std::nullopt;
}

} // namespace troupe::model
