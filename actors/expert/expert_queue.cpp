#include "actors/expert/expert_queue.hpp"

namespace troupe {

expert_queue::expert_queue(std::uint32_t num_layers, limits config) : limits_(config), layers_(num_layers) {}

bool expert_queue::add(ticket batch, std::uint32_t layer, std::uint32_t num_rows, time_point now) {
  if (queued_rows_ > 0 && queued_rows_ + num_rows > limits_.max_queued_rows)
    return false;
  layers_.at(layer).push_back({batch, num_rows, now});
  queued_rows_ += num_rows;
  return true;
}

std::vector<expert_queue::ticket> expert_queue::next(time_point now, std::uint32_t& layer) {
  std::deque<entry>* oldest = nullptr;
  for (std::uint32_t i = 0; i < layers_.size(); ++i) {
    auto& queue = layers_[i];
    if (queue.empty() || ready_at(queue) > now)
      continue;
    // Batches that arrived at the same time run by ticket, which is the order of arrival, too.
    if (oldest == nullptr || queue.front().arrived < oldest->front().arrived
        || (queue.front().arrived == oldest->front().arrived
            && queue.front().batch < oldest->front().batch)) {
      oldest = &queue;
      layer = i;
    }
  }
  std::vector<ticket> result;
  std::uint64_t rows = 0;
  while (oldest != nullptr && !oldest->empty()
         && (result.empty() || rows + oldest->front().num_rows <= limits_.max_step_rows)) {
    rows += oldest->front().num_rows;
    result.push_back(oldest->front().batch);
    oldest->pop_front();
  }
  queued_rows_ -= rows;
  return result;
}

std::optional<expert_queue::time_point> expert_queue::lingers_until() const {
  std::optional<time_point> result;
  for (const auto& queue : layers_)
    if (!queue.empty() && (!result || ready_at(queue) < *result))
      result = ready_at(queue);
  return result;
}

expert_queue::time_point expert_queue::ready_at(const std::deque<entry>& queue) const {
  return queue.size() > 1 ? queue.front().arrived : queue.front().arrived + limits_.linger;
}

} // namespace troupe
